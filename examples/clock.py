"""A small MCP server over streamable HTTP: facts about years. Takes the port as its argument."""

import calendar
import sys

from mcp.server.mcpserver import MCPServer

server: MCPServer = MCPServer("clock", log_level="WARNING")


@server.tool(structured_output=False)
def days(year: int) -> str:
    """How many days a year has."""
    return f"{366 if calendar.isleap(year) else 365} days"


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
