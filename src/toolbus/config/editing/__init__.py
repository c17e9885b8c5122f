"""Edit the text of a config, and save it."""
