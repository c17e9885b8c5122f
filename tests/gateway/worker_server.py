"""A server over stdio that says which process it is, asks, and takes as long as it is told to."""

import asyncio
import os
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server: MCPServer = MCPServer("worker")


class Color(BaseModel):
    """A form with one field."""

    color: str


@server.tool()
def pid() -> str:
    """The id of this process."""
    return str(os.getpid())


@server.tool()
async def ask(context: Context) -> str:
    """Ask the user for a color."""
    answer = await context.elicit("Which color?", Color)
    return answer.data.color if answer.action == "accept" else answer.action


@server.tool()
async def wait_for(path: str) -> str:
    """Wait for a file."""
    await asyncio.to_thread(Path(f"{path}.entered").touch)
    while not await asyncio.to_thread(Path(path).exists):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return "done"


if __name__ == "__main__":
    server.run("stdio")
