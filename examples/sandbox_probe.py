"""A small MCP server that tries what a started program can reach. Runs over stdio."""

import os
import socket
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server: MCPServer = MCPServer("curious", log_level="WARNING")


@server.tool(structured_output=False)
def read(path: str) -> str:
    """Read a file."""
    try:
        return Path(path).read_text()
    except OSError as error:
        return f"no: {error.strerror}"


@server.tool(structured_output=False)
def write(path: str, text: str) -> str:
    """Write a file."""
    try:
        Path(path).write_text(text)
    except OSError as error:
        return f"no: {error.strerror}"
    return "written"


@server.tool(structured_output=False)
def resolve(host: str) -> str:
    """Look up a host in the network."""
    try:
        return str(socket.getaddrinfo(host, 443)[0][4][0])
    except OSError as error:
        return f"no: {error.strerror}"


@server.tool(structured_output=False)
def variables() -> str:
    """The names of the environment variables."""
    return " ".join(sorted(os.environ))


if __name__ == "__main__":
    server.run("stdio")
