"""The host's event bus hears of every call, with any kind of listener."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.extension.hosts import Context, desk, initialized, run
from tests.patience import until
from toolbus.extension import McpBridgeExtension

pytestmark = pytest.mark.anyio


async def test_a_call_that_works_and_one_that_fails_are_told_with_server_tool_name_and_time() -> None:
    context = Context()
    extension = await initialized(context, desk(timeouts={"call": 1.5}))
    await extension.start()
    try:
        await run(extension, "mcp_desk_add", a=1, b=2)
        await run(extension, "mcp_desk_fail", reason="the ink is dry")
        await run(extension, "mcp_desk_hang")
    finally:
        await extension.stop()
    times = [payload["ms"] for _, payload in context.told]
    assert [(name, {**payload, "ms": None}) for name, payload in context.told] == [
        ("mcp.tool_called", payload_of("add", None)),
        ("mcp.tool_failed", payload_of("fail", "the tool reported a failure", "tool_error")),
        (
            "mcp.tool_failed",
            payload_of("hang", "server 'desk': tool 'hang' timed out after 1.5 s", "timed_out"),
        ),
    ]
    assert all(0 < ms < 5000 for ms in times)
    assert times[2] >= 1_500


def payload_of(tool: str, error: str | None, reason: str | None = None) -> dict[str, Any]:
    name = f"mcp_desk_{tool}"
    return {"server": "desk", "tool": tool, "name": name, "ms": None, "error": error, "reason": reason}


async def test_a_call_that_a_stop_ends_is_told_as_failed(tmp_path: Path) -> None:
    context = Context()
    extension = await initialized(context, desk())
    await extension.start()
    call = asyncio.create_task(run(extension, "mcp_desk_linger", path=str(tmp_path / "trace")))
    await until((tmp_path / "trace").exists)
    await extension.stop()
    await call
    [(name, payload)] = context.told
    assert (name, payload["tool"]) == ("mcp.tool_failed", "linger")
    assert payload["error"].startswith("server 'desk': the connection was lost")


class Waiting:
    """A host's event bus that takes its time."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def publish(self, name: str, payload: Mapping[str, Any]) -> None:
        await asyncio.sleep(0)
        self.told.append(f"{name} {payload['tool']}")


@pytest.mark.parametrize("place", ["context", "event_bus", "events"])
async def test_a_host_may_publish_asynchronously_and_stop_waits_for_it(place: str) -> None:
    bus = Waiting()
    context = bus if place == "context" else SimpleNamespace(**{place: bus})
    extension = McpBridgeExtension({"config": {"servers": [desk()]}})
    await extension.initialize(context)
    await extension.start()
    await run(extension, "mcp_desk_echo", text="x")
    await extension.stop()
    assert bus.told == ["mcp.tool_called echo"]


async def test_a_host_without_an_event_bus_is_fine() -> None:
    extension = McpBridgeExtension({"config": {"servers": [desk()]}})
    await extension.initialize(SimpleNamespace())
    await extension.start()
    assert await run(extension, "mcp_desk_echo", text="x") == "x"
    await extension.stop()


def refuse(name: str, payload: Mapping[str, Any]) -> None:
    raise RuntimeError("no room")


async def refuse_later(name: str, payload: Mapping[str, Any]) -> None:
    raise RuntimeError("no room")


@pytest.mark.parametrize("emit", [refuse, refuse_later])
async def test_an_event_bus_that_raises_is_logged_and_hurts_no_call(
    emit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    extension = McpBridgeExtension({"config": {"servers": [desk()]}})
    await extension.initialize(SimpleNamespace(emit=emit))
    await extension.start()
    assert await run(extension, "mcp_desk_echo", text="x") == "x"
    await extension.stop()
    assert "no room" in caplog.text
