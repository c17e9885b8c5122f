"""Commands for the first minutes: demo, init, import, install, check."""
