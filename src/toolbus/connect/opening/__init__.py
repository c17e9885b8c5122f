"""Connect to a server: each attempt, its backoff and its diagnosis."""
