"""The table of transports: how a dispatcher is opened over each."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.dispatcher import Dispatcher

from toolbus.connect.opening.attempt import Attempt
from toolbus.connect.sdk.client import Connector, memory_connector
from toolbus.connect.transports.sse import sse_peer
from toolbus.connect.transports.stdio import stdio_peer
from toolbus.connect.transports.streamable import streamable_http_peer
from toolbus.core.values.errors import ConnectFailed

TRANSPORTS: dict[str, Callable[[Attempt], AbstractAsyncContextManager[Dispatcher[Any]]]] = {
    "stdio": stdio_peer,
    "sse": sse_peer,
    "streamable-http": streamable_http_peer,
}


def connector(attempt: Attempt) -> Connector:
    """The function that opens a client's dispatcher over the config's transport."""
    config = attempt.config
    if config.transport == "memory":
        attempt.diagnostics.phase = "handshake"
        # FastMCP keeps the SDK's server, which runs the whole lifespan, in this attribute.
        server: Any = getattr(config.server, "_mcp_server", config.server)
        if not isinstance(server, Server | MCPServer):
            kind = type(server).__name__
            raise ConnectFailed(
                config.alias,
                "configure",
                f"{kind} is not an MCP server",
                hint="pass an mcp Server or MCPServer, or a FastMCP 4 server",
            )
        return memory_connector(server)

    async def connect(stack: AsyncExitStack, _mode: str, _raise_exceptions: bool) -> Dispatcher[Any]:
        return await stack.enter_async_context(TRANSPORTS[config.transport](attempt))

    return connect
