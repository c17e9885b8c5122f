"""initialize, start, get_tools, stop: in the host's order, and in any other."""

import asyncio
import logging
from pathlib import Path

import pytest

from tests.extension.hosts import Context, broken, desk, initialized, invoked, manifest, run
from tests.patience import until
from tests.processes import children
from toolbus import BusClosed
from toolbus.extension import McpBridgeExtension

pytestmark = pytest.mark.anyio


async def test_tools_are_there_from_start_to_stop_and_nothing_is_connected_before(tmp_path: Path) -> None:
    extension = McpBridgeExtension(manifest(tmp_path, desk()))
    before = children()
    await extension.initialize(Context())
    assert (extension.get_tools(), extension.servers, children()) == ([], {}, before)

    await extension.start()
    names = [tool.name for tool in extension.get_tools()]
    assert {"mcp_desk_add", "mcp_desk_echo"} <= set(names)
    assert all(name.startswith("mcp_desk_") for name in names)
    assert await run(extension, "mcp_desk_add", a=1, b=2) == "3"

    await extension.stop()
    assert (extension.get_tools(), extension.servers) == ([], {})


async def test_a_tool_is_a_function_tool_with_the_servers_schema() -> None:
    extension = await initialized(None, desk(tool_allowlist=["echo"]), mark=True)
    await extension.start()
    try:
        [tool] = extension.get_tools()
        assert (tool.name, tool.description) == ("mcp_desk_echo", "[MCP: desk] Say it again.")
        assert tool.params_json_schema["properties"]["text"]["type"] == "string"
        assert tool.params_json_schema["required"] == ["text"]
    finally:
        await extension.stop()


async def test_servers_of_all_transports_are_one_extension_and_tools_can_be_asked_for_by_server(
    web_ports: dict[str, int],
) -> None:
    web = {"alias": "web", "transport": "streamable-http", "url": f"http://127.0.0.1:{web_ports['http']}/mcp"}
    old = {"alias": "old", "transport": "sse", "url": f"http://127.0.0.1:{web_ports['sse']}/sse"}
    extension = await initialized(None, web, old, desk())
    await extension.start()
    try:
        for alias in ("web", "old", "desk"):
            assert await run(extension, f"mcp_{alias}_echo", text=alias) == alias
        assert {tool.name.split("_")[1] for tool in extension.get_tools(server="old")} == {"old"}
        assert await extension.health_check()
    finally:
        await extension.stop()


async def test_only_the_enabled_servers_are_started_and_only_the_allowed_tools_offered() -> None:
    extension = await initialized(
        None, desk("one"), desk("two"), enabled_servers=["two"], tool_allowlist={"two": ["add", "echo"]}
    )
    await extension.start()
    try:
        assert [tool.name for tool in extension.get_tools()] == ["mcp_two_add", "mcp_two_echo"]
        assert list(extension.servers) == ["two"]
    finally:
        await extension.stop()


async def test_a_manifest_that_is_switched_off_starts_nothing_and_offers_nothing() -> None:
    before = children()
    # What is switched off is not checked either.
    extension = McpBridgeExtension({"enabled": False, "config": {"servers": [{"alias": "x"}]}})
    await extension.initialize(Context())
    await extension.start()
    assert (extension.get_tools(), extension.servers, children()) == ([], {}, before)
    assert await extension.get_context() == ""
    assert await extension.health_check()
    await extension.stop()


async def test_one_dead_server_hurts_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    extension = await initialized(None, broken(), desk())
    with caplog.at_level(logging.WARNING, "toolbus"):
        await extension.start()
    try:
        assert await run(extension, "mcp_desk_echo", text="fine") == "fine"
        assert extension.get_tools(server="broken") == []
        assert (extension.servers["broken"].state, extension.servers["desk"].state) == ("failed", "ready")
        assert "server 'broken': spawn failed: command 'no-such-program' not found" in caplog.text
    finally:
        await extension.stop()


async def test_stop_ends_the_calls_under_way_in_bounded_time(tmp_path: Path) -> None:
    extension = await initialized(None, desk())
    await extension.start()
    call = asyncio.create_task(run(extension, "mcp_desk_linger", path=str(tmp_path / "trace")))
    await until((tmp_path / "trace").exists)
    async with asyncio.timeout(8):
        await extension.stop()
        told = await call
    assert told.startswith("MCP error: server 'desk': the connection was lost")


async def test_stop_may_come_without_start_or_initialize_twice_at_once_and_in_mid_start() -> None:
    await McpBridgeExtension().stop()
    extension = await initialized(None, desk())
    await extension.stop()
    starting = asyncio.create_task(extension.start())
    await asyncio.sleep(0)
    await asyncio.gather(extension.stop(), extension.stop())
    await asyncio.gather(starting, return_exceptions=True)
    assert extension.get_tools() == []
    await extension.stop()


async def test_a_start_before_initialize_says_what_is_missing() -> None:
    with pytest.raises(BusClosed, match=r"the extension is not started; await initialize\(context\) first"):
        await McpBridgeExtension({"config": {"servers": []}}).start()


async def test_it_can_be_started_again_and_a_tool_from_before_says_that_it_is_over() -> None:
    extension = await initialized(None, desk(tool_allowlist=["echo"]))
    await asyncio.gather(extension.start(), extension.start())
    [old] = extension.get_tools()
    await extension.stop()
    assert await invoked(old, text="x") == "MCP error: the bus is closed; create a new one"
    await extension.start()
    assert await run(extension, "mcp_desk_echo", text="again") == "again"
    await extension.stop()


async def test_initialize_anew_takes_the_changed_manifest_and_ends_what_ran(tmp_path: Path) -> None:
    path = manifest(tmp_path, desk("one", tool_allowlist=["echo"]))
    extension = McpBridgeExtension(path)
    await extension.initialize(Context())
    await extension.start()
    manifest(tmp_path, desk("two", tool_allowlist=["echo"]))
    await extension.initialize(Context())
    assert extension.get_tools() == []
    await extension.start()
    assert [tool.name for tool in extension.get_tools()] == ["mcp_two_echo"]
    await extension.stop()


async def test_the_text_of_the_chosen_resources_is_given_and_a_bad_one_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chosen = [
        ("desk", "memo://of/Ann"),
        ("desk", "memo://nowhere"),
        ("broken", "a://b"),
        ("desk", "memo://greeting"),
    ]
    extension = await initialized(
        None, desk(), broken(), context=[{"server": server, "uri": uri} for server, uri in chosen]
    )
    assert await extension.get_context() == ""
    await extension.start()
    try:
        text = await extension.get_context("what the user asked", user="Ann")
    finally:
        await extension.stop()
    assert text == (
        '<resource server="desk" uri="memo://of/Ann">\nmemo of Ann\n</resource>\n\n'
        '<resource server="desk" uri="memo://greeting">\nhello\n</resource>'
    )
    assert "server 'desk': resource 'memo://nowhere' is not in the context: " in caplog.text
    assert "server 'broken': resource 'a://b' is not in the context: not connected" in caplog.text
