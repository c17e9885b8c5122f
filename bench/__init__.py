"""toolbus beside the raw SDK client, in one run: `python -m bench`."""
