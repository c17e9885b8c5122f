"""Pages about servers."""
