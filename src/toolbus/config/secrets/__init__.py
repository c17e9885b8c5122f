"""Secrets of a config: parse, look up, fill in and redact them."""
