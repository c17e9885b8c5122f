"""Transports for messages to a server: a child process, streamable HTTP, SSE, or memory."""
