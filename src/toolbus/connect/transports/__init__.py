"""How messages reach a server: a child process, streamable HTTP, SSE, or memory."""
