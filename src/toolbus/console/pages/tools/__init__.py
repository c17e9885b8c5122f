"""Pages about tools."""
