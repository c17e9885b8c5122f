"""Conversion of the MCP SDK's types into our records."""
