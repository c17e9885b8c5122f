"""Where toolbus keeps what must survive a restart."""
