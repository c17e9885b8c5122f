"""The private names of the SDK that toolbus stands on; this says clearly when the SDK changed them."""

import subprocess
import sys
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.dispatcher import CallOptions
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    CallToolResult,
    ListToolsResult,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tests.inside.connect import memory_connector, without_span
from tests.inside.gateway import words as protocol

pytestmark = pytest.mark.anyio


def test_the_gateway_knows_the_versions_and_keys_of_the_sdk() -> None:
    """It answers before the SDK is imported; see toolbus/gateway/protocol/words.py."""
    assert protocol.HANDSHAKE_VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS
    assert protocol.MODERN_VERSIONS == MODERN_PROTOCOL_VERSIONS
    assert protocol.PROTOCOL_VERSION == PROTOCOL_VERSION_META_KEY
    assert protocol.CLIENT_CAPABILITIES == CLIENT_CAPABILITIES_META_KEY
    assert protocol.LOG_LEVEL == LOG_LEVEL_META_KEY


async def test_a_client_gets_its_dispatcher_from_client_connect() -> None:
    server: MCPServer = MCPServer("seam")
    async with AsyncExitStack() as stack:
        dispatcher = await memory_connector(server, print)(stack, "auto", False)
    assert hasattr(dispatcher, "send_raw_request"), "Client._connect no longer gives a dispatcher"


def test_an_sdk_without_client_connect_is_named_with_its_version() -> None:
    changed = (
        "from mcp import Client; del Client.__annotations__['_connect']; import toolbus.connect.sdk.client"
    )
    ran = subprocess.run([sys.executable, "-c", changed], check=False, capture_output=True, text=True)
    expected = f"toolbus cannot use version {version('mcp')} of the package mcp; install mcp>=2.3,<2.4"
    assert ran.stderr.splitlines()[-1] == f"ImportError: {expected}"


async def test_what_client_connect_gives_is_what_the_client_uses() -> None:
    asked: list[str] = []
    server: MCPServer = MCPServer("seam")
    client = Client(server, cache=None)
    real = memory_connector(server, print)

    async def connect(stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> object:
        asked.append(mode)
        return await real(stack, mode, raise_exceptions)

    client._connect = connect  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]  # the seam under test
    async with client:
        assert asked == ["auto"], "Client no longer asks _connect; see toolbus/connect/sdk/client.py"


async def test_a_session_stamps_what_it_sends_with_session_stamp() -> None:
    async with Client(MCPServer("seam"), cache=None) as client:
        data: dict[str, Any] = {"method": "tools/call", "params": {"name": "x"}}
        options: CallOptions = {}
        client.session._stamp(data, options)  # pyright: ignore[reportPrivateUsage]  # the seam under test
    assert "_meta" in data["params"], (
        "ClientSession._stamp no longer stamps; see toolbus/connect/sdk/fast_call.py"
    )


async def test_a_clients_call_goes_through_the_sessions_call_tool() -> None:
    async with Client(MCPServer("seam"), cache=None) as client:
        asked: list[str] = []

        async def call_tool(name: str, *_: Any, **__: Any) -> Any:
            asked.append(name)
            return CallToolResult(content=[])

        client.session.call_tool = call_tool
        await client.call_tool("x")
    assert asked == ["x"], (
        "Client.call_tool no longer calls session.call_tool; see toolbus/connect/sdk/fast_call.py"
    )


async def test_the_stamp_of_a_call_does_not_depend_on_its_arguments() -> None:
    async with Client(MCPServer("seam"), cache=None) as client:
        stamps: list[Any] = []
        for arguments in ({}, {"text": "x"}):
            params: dict[str, Any] = {"name": "x", "arguments": arguments}
            options: CallOptions = {}
            client.session._stamp({"method": "tools/call", "params": params}, options)  # pyright: ignore[reportPrivateUsage]  # the seam under test
            stamps.append((params["_meta"], options))
    assert stamps[0] == stamps[1], "the stamp cannot be kept; see toolbus/connect/sdk/fast_call.py"


async def test_a_clients_list_goes_through_the_sessions_list_tools() -> None:
    async with Client(MCPServer("seam"), cache=None) as client:
        asked: list[str] = []

        async def list_tools(**_: Any) -> Any:
            asked.append("tools")
            return ListToolsResult(tools=[])

        client.session.list_tools = list_tools
        await client.list_tools()
    assert asked == ["tools"], (
        "Client.list_tools no longer calls session.list_tools; see toolbus/connect/sdk/fast_call.py"
    )


async def test_the_sdks_dispatcher_makes_its_span_with_otel_span() -> None:
    async with AsyncExitStack() as stack:
        client = Client(MCPServer("seam"), cache=None)
        dispatcher = await client._connect(stack, "legacy", False)  # pyright: ignore[reportPrivateUsage]
        assert without_span(dispatcher) != dispatcher.send_raw_request, (
            "the SDK's dispatcher no longer calls otel_span; see toolbus/connect/sdk/client.py"
        )
