"""An HTTP/1.1 client made for MCP: one origin, whole responses or event streams, nothing logged.

No HTTP library for asyncio offers both things that toolbus needs. A round trip costs little more than the
socket, and every failure says whether the request left this process. The C parser `httptools` reads the
responses.
"""
