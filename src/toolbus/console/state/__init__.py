"""The data behind the pages of the console."""
