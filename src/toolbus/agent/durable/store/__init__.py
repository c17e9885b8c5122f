"""The database of durable runs."""
