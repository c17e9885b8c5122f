"""An MCP server over stdio whose tools are named by its arguments."""

import sys

from mcp.server.mcpserver import MCPServer

server: MCPServer = MCPServer("shop")


def _add(name: str) -> None:
    def called() -> str:
        return f"{name} by a server"

    server.add_tool(called, name=name, description=f"Call {name}.", structured_output=False)


for tool in sys.argv[1:]:
    _add(tool)
if __name__ == "__main__":
    server.run()
