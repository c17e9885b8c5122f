"""Where the MCP SDK's types become our records."""
