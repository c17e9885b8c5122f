"""Commands about durable runs and their workers."""
