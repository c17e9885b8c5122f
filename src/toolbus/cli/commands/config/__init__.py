"""Commands that show and edit the config."""
