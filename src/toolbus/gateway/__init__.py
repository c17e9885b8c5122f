"""The gateway: the tools, resources and prompts of a bus as one MCP server, for clients of both eras.

Values are forwarded as JSON, as servers and clients sent them; only names and URIs may differ.
"""
