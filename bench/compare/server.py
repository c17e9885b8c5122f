"""The server that the trials use, on the SDK's own server: `python server.py NAME [silent]`, over stdio.

A silent server starts and never answers. It ends with its input, like the others.
"""

import os
import sys
import time

from mcp.server.mcpserver import Context, MCPServer

HOLDING = 30
"""Seconds that `hold` keeps the server busy; a process that is left behind ends by itself after them."""


def build_server(name: str) -> MCPServer:
    """A server that can echo, report its process, grow a tool and be busy."""
    server: MCPServer = MCPServer(name, log_level="ERROR")

    @server.tool(structured_output=False)
    def echo(text: str) -> str:
        """Return the text."""
        return text

    @server.tool(structured_output=False)
    def pid(text: str) -> str:
        """Return the id of this process."""
        return str(os.getpid())

    @server.tool(structured_output=False)
    async def grow(text: str, ctx: Context) -> str:
        """Add a tool named `grown`, and notify the client."""
        server.add_tool(echo, name="grown", structured_output=False)
        await ctx.notify_tools_changed()  # protocol 2026-07-28
        await ctx.session.send_tool_list_changed()  # the protocols before it
        return "grown"

    @server.tool(structured_output=False)
    def hold(text: str) -> str:
        """Keep the server busy."""
        time.sleep(HOLDING)
        return text

    return server


if __name__ == "__main__":
    if "silent" in sys.argv:
        sys.stdin.read()
    else:
        build_server(sys.argv[1]).run("stdio")
