"""One file per top-level key of a config."""
