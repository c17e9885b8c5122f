"""toolbus next to three other MCP clients, measured: `python -m bench.compare`."""
