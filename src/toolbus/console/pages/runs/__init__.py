"""Pages about durable runs."""
