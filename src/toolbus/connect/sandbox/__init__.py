"""A server in a sandbox: bubblewrap shows it the system, its own files, and what the config names."""
