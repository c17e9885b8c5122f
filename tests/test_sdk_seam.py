"""The one private name of the SDK that toolbus stands on; this says clearly when the SDK changed it."""

from contextlib import AsyncExitStack

import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer

from toolbus.connect.client import connector_of

pytestmark = pytest.mark.anyio


async def test_a_client_gets_its_dispatcher_from_client_connect() -> None:
    server: MCPServer = MCPServer("seam")
    async with AsyncExitStack() as stack:
        dispatcher = await connector_of(server)(stack, "auto", False)
    assert hasattr(dispatcher, "send_raw_request"), "Client._connect no longer gives a dispatcher"


async def test_what_client_connect_gives_is_what_the_client_uses() -> None:
    asked: list[str] = []
    server: MCPServer = MCPServer("seam")
    client = Client(server, cache=None)
    real = connector_of(server)

    async def connect(stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> object:
        asked.append(mode)
        return await real(stack, mode, raise_exceptions)

    client._connect = connect  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]  # the seam under test
    async with client:
        assert asked == ["auto"], "Client no longer asks _connect; see toolbus/connect/client.py"
