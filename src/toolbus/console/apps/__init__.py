"""MCP Apps on the page of a tool: their frames, and their messages to the server."""
