"""Pages about calls."""
