"""Tapes: the calls of a bus in a file, to be repeated without its servers."""
