"""The table of transports: from a transport's name to the way a dispatcher is opened."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.dispatcher import Dispatcher

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.diagnostics import Diagnostics
from toolbus.connect.sdk.client import Connector, connector_of
from toolbus.connect.transports.sse import sse_peer
from toolbus.connect.transports.stdio import stdio_peer
from toolbus.connect.transports.streamable import streamable_http
from toolbus.core.errors import ConnectFailed

Warn = Callable[[str], None]
Opener = Callable[[ServerConfig, Resolved, Diagnostics, Warn], AbstractAsyncContextManager[Dispatcher[Any]]]

OPENERS: dict[str, Opener] = {
    "stdio": stdio_peer,
    "sse": sse_peer,
    "streamable-http": streamable_http,
}


def connector(config: ServerConfig, values: Resolved, diagnostics: Diagnostics, warn: Warn) -> Connector:
    """What gives a client its dispatcher over the config's transport."""
    if config.transport == "memory":
        diagnostics.phase = "handshake"
        # FastMCP keeps the SDK's server, which runs the lifespan of the whole, in this attribute.
        server: Any = getattr(config.server, "_mcp_server", config.server)
        if not isinstance(server, Server | MCPServer):
            kind = type(server).__name__
            raise ConnectFailed(
                config.alias,
                "configure",
                f"{kind} is no MCP server",
                hint="give an mcp Server or MCPServer, or a FastMCP server of version 4",
            )
        return connector_of(server)

    async def connect(stack: AsyncExitStack, _mode: str, _raise_exceptions: bool) -> Dispatcher[Any]:
        return await stack.enter_async_context(OPENERS[config.transport](config, values, diagnostics, warn))

    return connect
