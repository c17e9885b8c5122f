"""Reads are cached as servers allow: for their users, and no longer than allowed."""

import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context, MCPServer

from tests.freshness.growing_bus import HOUR, Clock, counts, growing, over_stdio
from tests.inside.bus import View
from tests.inside.connect import read_cache
from tests.inside.core import Embedded, RawResult, request_spec
from tests.patience import until
from toolbus import CallDenied, Caller, Operation, Toolbus, ToolResult
from toolbus.events import Event, ListChanged, ResourceUpdated

pytestmark = pytest.mark.anyio
URI = "data://r0"


async def read(view: View, uri: str = URI) -> str:
    (part,) = await view.read_resource("g", uri)
    return part.text or ""


@asynccontextmanager
async def bus_of(**script: Any) -> AsyncGenerator[Toolbus]:
    async with Toolbus({"servers": {"g": over_stdio(**script)}}) as bus:
        yield bus


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_fresh_read_is_not_repeated(transport: str, tmp_path: Path, clock: Clock) -> None:
    async with growing(transport, tmp_path, ttl={"read": HOUR}) as bus:
        assert [await read(bus) for _ in range(3)] == [f"{URI} 1"] * 3
        assert await read(bus, "data://other") == "data://other 2"
        clock.ahead = 3601
        assert [await read(bus) for _ in range(2)] == [f"{URI} 3"] * 2


@pytest.mark.parametrize(
    "script",
    [{}, {"ttl": {"read": 0}}, {"ttl": {"read": -5}}, {"ttl": {"read": "1h"}}, {"era": "legacy"}],
    ids=str,
)
async def test_without_a_ttl_nothing_is_kept(script: dict[str, Any]) -> None:
    async with bus_of(**script) as bus:
        assert [await read(bus) for _ in range(3)] == [f"{URI} {number}" for number in (1, 2, 3)]


async def test_a_huge_ttl_is_a_day(clock: Clock) -> None:
    async with bus_of(ttl={"read": 10**400}) as bus:
        assert await read(bus) == f"{URI} 1"
        clock.ahead = 86_000
        assert await read(bus) == f"{URI} 1"
        clock.ahead = 87_000
        assert await read(bus) == f"{URI} 2"


async def test_private_reads_are_for_their_user_and_session_public_ones_for_all() -> None:
    for scope, expected in (("private", ["1", "2", "3", "4"]), ("public", ["1", "1", "1", "1"])):
        async with bus_of(ttl={"read": HOUR}, scope=scope) as bus:
            ann, bob = bus.as_user("ann"), bus.as_user("bob")
            session = ann.view(caller=Caller(session="second"))
            views = [bus, ann, bob, session]
            first = [(await read(view)).removeprefix(f"{URI} ") for view in views]
            again = [(await read(view)).removeprefix(f"{URI} ") for view in views]
            assert first == again == expected
            assert (await counts(bus))["resources/read"] == int(expected[-1])


async def test_every_read_passes_the_policy_the_guards_and_the_trail(tmp_path: Path) -> None:
    guarded: list[str] = []
    trail = tmp_path / "trail.jsonl"

    async def guard(operation: Operation) -> None:
        guarded.append(operation.route)
        if len(guarded) == 3:
            raise CallDenied("resource", "enough")

    entry = over_stdio(ttl={"read": HOUR}, scope="public")
    async with Toolbus({"servers": {"g": entry}, "audit": {"file": str(trail)}}, guards=[guard]) as bus:
        assert [await read(bus) for _ in range(2)] == [f"{URI} 1"] * 2
        with pytest.raises(CallDenied, match="enough"):
            await read(bus)
        denied = bus.view(policy=[{"resources": "g/data://*", "do": "deny"}])
        with pytest.raises(CallDenied):
            await read(denied)
    assert guarded == ["resources/read"] * 4
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    assert len({line["id"] for line in lines if line["event"] in ("decided", "ended")}) == 4


async def test_a_reconnect_forgets_what_was_read() -> None:
    async with bus_of(ttl={"read": HOUR}) as bus:
        await read(bus)
        assert await read(bus) == f"{URI} 1"
        await bus.restart("g")
        await counts(bus)
        assert await read(bus, "data://other") == "data://other 1"
        assert await read(bus) == f"{URI} 2"


def changing() -> MCPServer:
    """A server whose resources say how often they were read, and that announces what its tools change."""
    hints: dict[Any, Any] = {"resources/read": CacheHint(ttl_ms=HOUR)}
    server, times = MCPServer("s", cache_hints=hints), Counter[str]()

    @server.resource("data://{name}")
    def resource(name: str) -> str:
        times[name] += 1
        return f"{name} {times[name]}"

    @server.tool()
    async def update(uri: str, ctx: Context) -> str:
        await ctx.notify_resource_updated(uri)
        return "updated"

    @server.tool()
    async def change(ctx: Context) -> str:
        await ctx.notify_resources_changed()
        return "changed"

    return server


async def test_changes_that_a_server_announces_end_what_was_kept() -> None:
    async with Toolbus({"servers": {"g": {"server": changing(), "era": "modern"}}}) as bus:
        for uri in ("data://a", "data://b"):
            await bus.subscribe("g", uri)
        both = ("data://a", "data://b")
        assert [await read(bus, uri) for uri in (*both, *both)] == ["a 1", "b 1", "a 1", "b 1"]
        heard: list[Event] = []
        bus.on_event(heard.append)
        await bus.call("g_update", {"uri": "data://a"})
        await until(lambda: any(isinstance(event, ResourceUpdated) for event in heard))
        assert [await read(bus, uri) for uri in both] == ["a 2", "b 1"]
        await bus.call("g_change")
        await until(lambda: any(isinstance(event, ListChanged) for event in heard))
        assert [await read(bus, uri) for uri in both] == ["a 3", "b 2"]


async def test_a_change_while_a_read_is_on_its_way_is_not_missed() -> None:
    cache = read_cache.ReadCache()
    operation = Operation(spec=request_spec("resources/read", "g", URI), arguments={"uri": URI})
    sent = {"ttlMs": HOUR, "cacheScope": "public"}
    version = cache.version
    cache.forget("data://r1")
    cache.put(operation, ToolResult(), sent, version)
    assert cache.get(operation) is None
    cache.put(operation, ToolResult(), sent, cache.version)
    assert cache.get(operation) is not None
    cache.forget("data://r")
    assert cache.get(operation) is None


async def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_cache, "MOST_ENTRIES", 3)
    async with bus_of(ttl={"read": HOUR}) as bus:
        for number in range(5):
            assert await read(bus, f"data://{number}") == f"data://{number} {number + 1}"
        assert await read(bus, "data://4") == "data://4 5"
        assert await read(bus, "data://0") == "data://0 6"
        monkeypatch.setattr(read_cache, "MOST_BYTES", 100)
        assert [await read(bus, "data://9") for _ in range(2)] == ["data://9 7", "data://9 8"]


@pytest.mark.parametrize("key", ["_meta", "x"])
async def test_what_is_sent_beside_a_resource_counts(key: str) -> None:
    cache = read_cache.ReadCache()
    operation = Operation(spec=request_spec("resources/read", "g", URI), arguments={"uri": URI})
    sent = {"ttlMs": HOUR, "cacheScope": "public", "contents": [{"uri": URI, "text": "", key: "y" * 600_000}]}
    part = Embedded(uri=URI, text="")
    cache.put(operation, ToolResult(content=(part,), _received=RawResult(sent, (part,), None)), sent, 0)
    assert cache.get(operation) is None
    cache.put(operation, ToolResult(content=(replace(part, meta=sent),)), sent, 0)
    assert cache.get(operation) is None
    cache.put(operation, ToolResult(content=(part,)), sent, 0)
    assert cache.get(operation) is not None
