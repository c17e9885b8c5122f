"""Calls of clients: queued, forwarded, suspended and resumed."""
