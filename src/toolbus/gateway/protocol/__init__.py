"""Clients as the gateway sees them: requests, results, names, sessions and views."""
