"""FastMCP's proxy over HTTP: `python -m bench.fastmcp_proxy [shared] COMMAND ARGUMENT...`.

By default, as its documentation shows it first: each request has a session of its own with the server. With
`shared`, all requests use one client that is connected already.
"""

import asyncio
import sys

import uvicorn
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


async def serve(proxy: FastMCP) -> None:
    """Serve on a free port of loopback, which uvicorn logs."""
    await uvicorn.Server(uvicorn.Config(proxy.http_app(), port=0, access_log=False)).serve()


async def main(words: list[str]) -> None:
    """Serve the server of that command."""
    shared = words[0] == "shared"
    command, *arguments = words[1:] if shared else words
    if not shared:
        entry = {"command": command, "args": arguments}
        return await serve(create_proxy({"mcpServers": {"bench": entry}}))
    async with Client(StdioTransport(command, arguments)) as client:
        return await serve(create_proxy(client))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
