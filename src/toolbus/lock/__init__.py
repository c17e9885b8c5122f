"""Approved definitions of tools in a file, and the differences from the current ones."""
