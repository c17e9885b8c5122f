"""Where tokens are kept."""
