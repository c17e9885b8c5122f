"""An HTTP/1.1 client made for MCP: one origin, whole responses or event streams, nothing logged.

It is our own because of two things that no HTTP library for asyncio offers at once: a round trip that costs
little more than the socket, and the knowledge, for every failure, whether the request left this process.
The C parser `httptools` reads the responses.
"""
