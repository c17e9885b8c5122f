"""A server over stdio that appends a line to a file for each call of `write`."""

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from typing_extensions import TypedDict

server = MCPServer("ledger")
_together = 0
_all_there = asyncio.Event()


class Row(TypedDict):
    name: str
    amount: int


@server.tool()
def write(line: str) -> str:
    """Append a line to the ledger."""
    with Path(sys.argv[1]).open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
    return f"wrote {line}"


@server.tool()
def rows(count: int = 2) -> list[Row]:
    """The first rows."""
    return [Row(name=f"row {number}", amount=number) for number in range(count)]


@server.tool(structured_output=False)
def page(kind: str) -> str:
    """A page without a schema: json, text or long."""
    return {"json": '{"a": [1, 2]}', "text": "plain", "long": "x" * 100_000_000}[kind]


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("the ledger is closed")


@server.tool()
async def meet(others: int) -> str:
    """Returns when as many calls are in progress at once."""
    global _together
    _together += 1
    if _together >= others:
        _all_there.set()
    await asyncio.wait_for(_all_there.wait(), 60)
    return "met"


@server.tool(name="get-user")
def get_user(name: str) -> str:
    """A name that is not an identifier."""
    return name


if __name__ == "__main__":
    server.run("stdio")
