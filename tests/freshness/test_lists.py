"""Lists that expire are listed again when somebody needs them, and only then."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer

from tests.freshness.growing_bus import HOUR, Clock, counts, grow, growing, over_http, over_stdio, text_of
from tests.inside.bus import lookup
from tests.inside.lock import NAME, Lockfile, snapshot, write_lock
from tests.patience import PATIENCE, until, wait_until
from toolbus import CallDenied, Toolbus, ToolNotFound
from toolbus.config import load_config
from toolbus.events import CatalogChanged, Event, ListChanged
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_tool_that_appears_later_is_found_by_its_name(transport: str, tmp_path: Path) -> None:
    async with growing(transport, tmp_path, ttl={"tools": 0}) as bus:
        await grow(bus)
        assert text_of(await bus.call("g_late0")) == "called late0"
        assert "g_late0" in bus.catalog


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_fresh_list_is_not_requested_again(transport: str, tmp_path: Path, clock: Clock) -> None:
    async with growing(transport, tmp_path, ttl={"tools": HOUR}) as bus:
        await grow(bus)
        for _ in range(20):
            assert len(bus.catalog) == len(bus.tools()) == 5
            with pytest.raises(ToolNotFound):
                await bus.call("g_late0")
        assert (await counts(bus))["tools/list"] == 1
        clock.ahead = 3601
        assert text_of(await bus.call("g_late0")) == "called late0"
        assert (await counts(bus))["tools/list"] == 2


async def test_the_catalog_has_the_last_list_until_the_next_one_is_there(
    tmp_path: Path, clock: Clock
) -> None:
    async with growing("stdio", tmp_path, ttl={"tools": HOUR}) as bus:
        await grow(bus)
        clock.ahead = 3601
        before = bus.catalog
        assert "g_late0" not in before
        await until(lambda: "g_late0" in bus.catalog)
        assert "g_late0" in [tool.name for tool in bus.tools()]
        assert [hit.name for hit in bus.search(["late0"], limit=1)] == ["g_late0"]
        assert (await counts(bus))["tools/list"] == 2


async def test_every_list_has_its_own_expiry(tmp_path: Path, clock: Clock) -> None:
    ttl = {"tools": 5 * HOUR, "resources": 4 * HOUR, "templates": 3 * HOUR, "prompts": 2 * HOUR}
    async with growing("stdio", tmp_path, ttl=ttl) as bus:
        for kind in ttl:
            await grow(bus, kind)
        for hours, left in ((2.5, {"tools", "resources", "templates"}), (3.5, {"tools", "resources"})):
            clock.ahead = hours * 3600
            await bus.wait_ready()
            lengths = {
                "tools": len(bus.catalog) - 4,
                "resources": len(bus.resources()),
                "templates": len(bus.templates()),
                "prompts": len(bus.prompts()),
            }
            assert lengths == {kind: 1 if kind in left else 2 for kind in ttl}


@pytest.mark.parametrize("ask", ["resources", "templates", "prompts"])
async def test_resources_templates_and_prompts_are_listed_again(
    ask: str, tmp_path: Path, clock: Clock
) -> None:
    async with growing("stdio", tmp_path, ttl={ask: HOUR}) as bus:
        await grow(bus, ask)
        clock.ahead = 3601
        found: list[int] = []

        def has_grown() -> bool:
            found.append(len(getattr(bus, ask)()))
            return found[-1] == 2

        await until(has_grown)
        assert found[0] == 1
        asked = await counts(bus)
        assert {method: asked[method] for method in ("tools/list", "prompts/list", "resources/list")} == {
            "tools/list": 1,
            "prompts/list": 2 if ask == "prompts" else 1,
            "resources/list": 2 if ask == "resources" else 1,
        }


async def test_callers_that_need_a_list_at_once_share_one_request(tmp_path: Path, clock: Clock) -> None:
    async with growing("stdio", tmp_path, ttl={"tools": HOUR}, slow=0.2) as bus:
        await grow(bus)
        clock.ahead = 3601
        results = await asyncio.gather(*(bus.call("g_late0") for _ in range(50)))
        assert [text_of(one) for one in results] == ["called late0"] * 50
        assert (await counts(bus))["tools/list"] == 2


async def test_a_ttl_of_zero_is_no_storm(tmp_path: Path, clock: Clock) -> None:
    async with growing("stdio", tmp_path, ttl={"tools": 0}) as bus:
        for second in range(1, 4):
            for _ in range(300):
                _ = bus.catalog
                bus.tools()
                await asyncio.sleep(0)
            asked = (await counts(bus))["tools/list"]
            assert asked <= 1 + second + clock.ahead + _elapsed(clock)
            clock.ahead += 1


def _elapsed(clock: Clock) -> float:
    """Seconds since the first time that it was asked for."""
    began: float = clock.__dict__.setdefault("began", clock())
    return clock() - began


@pytest.mark.parametrize("ttl", [-1, "soon", 1e300, 10**400, True, [], {"ms": 5}, 0.5, None])
async def test_a_hostile_ttl_harms_nothing(ttl: Any, tmp_path: Path) -> None:
    kinds = dict.fromkeys(["discover", "tools", "resources", "templates", "prompts", "read"], ttl)
    async with growing("stdio", tmp_path, ttl=kinds, scope="everyone") as bus:
        assert len(bus.catalog) == 5
        assert len(bus.resources()) == len(bus.prompts()) == len(bus.templates()) == 1
        (first,) = await bus.read_resource("g", "data://r0")
        assert first.text == "data://r0 1"
        assert bus.servers["g"].era == "modern"


async def test_the_last_good_list_is_kept_if_it_cannot_be_listed_again(tmp_path: Path, clock: Clock) -> None:
    async with growing("stdio", tmp_path, ttl={"tools": HOUR}) as bus:
        await bus.call("g_break", {"kind": "tools"})
        clock.ahead = 3601
        with pytest.raises(ToolNotFound):
            await bus.call("g_late0")
        assert len(bus.catalog) == 5
        assert bus.inventories["g"].stale
        await bus.call("g_break", {"kind": "tools"})
        await grow(bus)
        clock.ahead += 11
        assert text_of(await bus.call("g_late0")) == "called late0"
        assert not bus.inventories["g"].stale


async def test_a_list_that_is_the_same_is_no_change(tmp_path: Path, clock: Clock) -> None:
    heard: list[Event] = []
    async with growing("stdio", tmp_path, ttl={"tools": HOUR, "resources": HOUR}) as bus:
        before = bus.catalog
        bus.on_event(heard.append, calls=False)
        clock.ahead = 3601
        await bus.wait_ready()
        assert (await counts(bus))["tools/list"] == 2
        assert bus.catalog is before
        assert heard == []
        await grow(bus)
        clock.ahead += 3601
        await bus.wait_ready()
    changes = [event for event in heard if isinstance(event, CatalogChanged | ListChanged)]
    assert [replace(event, at=0) for event in changes[:2]] == [
        CatalogChanged(at=0, added=("g_late0",)),
        ListChanged(at=0, server="g", kind="tools"),
    ]


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_without_a_ttl_an_unknown_name_is_looked_up_once_in_ten_seconds(
    transport: str, era: str, tmp_path: Path, clock: Clock
) -> None:
    async with growing(transport, tmp_path, era=era) as bus:
        await grow(bus)
        for _ in range(5):
            with pytest.raises(ToolNotFound):
                await bus.call("g_late0")
        clock.ahead = 3601
        assert "g_late0" not in bus.catalog
        assert (await counts(bus))["tools/list"] == 1, "only an unknown name is a reason"
        assert text_of(await bus.call("g_late0")) == "called late0"
        for _ in range(5):
            with pytest.raises(ToolNotFound):
                await bus.call("g_nothing")
        assert (await counts(bus))["tools/list"] == 2


async def test_a_server_that_announces_changes_is_believed(tmp_path: Path, clock: Clock) -> None:
    async with growing("stdio", tmp_path, era="legacy", announces=True) as bus:
        await grow(bus)
        clock.ahead = 3601
        with pytest.raises(ToolNotFound):
            await bus.call("g_late0")
        assert (await counts(bus))["tools/list"] == 1


async def test_an_open_stream_of_changes_stands_for_a_ttl_of_zero(clock: Clock) -> None:
    server: MCPServer = MCPServer("s")
    listed = 0

    @server.tool()
    def act() -> str:
        return "done"

    low: Any = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    handler = low.get_request_handler("tools/list")

    async def count(ctx: Any, params: Any) -> Any:
        nonlocal listed
        listed += 1
        return await handler.handler(ctx, params)

    low.add_request_handler("tools/list", handler.params_type, count)
    async with Toolbus({"servers": {"s": {"server": server, "era": "modern"}}}) as bus:
        clock.ahead = 3601
        await bus.wait_ready()
        with pytest.raises(ToolNotFound):
            await bus.call("s_other")
        assert listed == 1


async def test_a_view_lists_only_its_own_servers_again(clock: Clock) -> None:
    servers = {name: over_stdio(ttl={"tools": HOUR}) for name in ("a", "b")}
    async with Toolbus({"servers": servers}) as bus:
        view = bus.view(servers="a")
        await grow(bus, server="a")
        await grow(bus, server="b")
        clock.ahead = 3601
        assert text_of(await view.call("a_late0")) == "called late0"
        with pytest.raises(ToolNotFound):
            await view.call("b_late0")
        assert (await counts(bus, "a"))["tools/list"] == 2
        assert (await counts(bus, "b"))["tools/list"] == 1


async def test_a_search_waits_for_the_new_list(clock: Clock) -> None:
    config = {"servers": {"g": over_stdio(ttl={"tools": HOUR})}, "expose": "search"}
    async with Toolbus(config) as bus:
        await grow(bus)
        clock.ahead = 3601
        found = text_of(await bus.call("search_tools", {"queries": ["late0"]}))
        assert '"name":"g_late0"' in found
        await grow(bus)
        clock.ahead += 3601
        (search,) = (tool for tool in bus.tools() if tool.name == "search_tools")
        assert '"name":"g_late1"' in (await search.execute(queries=["late1"])).text
        await grow(bus)
        clock.ahead += 3601
        called = await bus.call("call_tool", {"name": "g_late2", "arguments": {}})
        assert text_of(called) == "called late2"


async def test_a_new_tool_of_a_locked_server_is_held(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "toolbus.json"
    file.write_text(json.dumps({"servers": {"g": over_stdio(ttl={"tools": HOUR})}}))
    config = load_config(file)
    async with Toolbus(config) as bus:
        approved = snapshot(config.servers["g"], config.folder, bus.inventories["g"], None).locked
    write_lock(Lockfile(path=tmp_path / NAME, servers={"g": approved}))
    async with Toolbus(file) as bus:
        await grow(bus)
        clock.ahead = 3601
        with pytest.raises(CallDenied, match="new"):
            await bus.call("g_late0")
        assert list(bus.held) == ["g/late0"]
        assert len(bus.catalog) == 5


async def test_users_with_connections_of_their_own_list_for_themselves(clock: Clock) -> None:
    entry = {**over_stdio(ttl={"tools": HOUR}), "env": {"WHO": "${WHO}"}}

    def get_secret(name: str, user: str) -> str:
        return user or "bus"

    async with Toolbus({"servers": {"g": entry}}, get_secret=get_secret) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        await grow(ann)
        await counts(bob)
        clock.ahead = 3601
        assert text_of(await ann.call("g_late0")) == "called late0"
        with pytest.raises(ToolNotFound):
            await bob.call("g_late0")
        assert ("g_late0" in ann.catalog, "g_late0" in bob.catalog) == (True, False)


async def test_users_of_a_shared_connection_share_its_new_list(clock: Clock) -> None:
    async with Toolbus({"servers": {"g": over_stdio(ttl={"tools": HOUR})}}) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        await grow(ann)
        clock.ahead = 3601
        assert text_of(await ann.call("g_late0")) == "called late0"
        assert text_of(await bob.call("g_late0")) == "called late0"
        assert (await counts(bus))["tools/list"] == 2


async def test_an_idle_server_is_connected_for_a_name_once_its_list_has_expired(
    tmp_path: Path, clock: Clock
) -> None:
    with over_http(tmp_path, ttl={"tools": HOUR}) as entry:
        async with Toolbus({"servers": {"g": {**entry, "idle_timeout": 0.05}}}) as bus:
            await grow(bus)
            await until(lambda: bus.servers["g"].state == "idle")
            with pytest.raises(ToolNotFound):
                await bus.call("g_late0")
            assert bus.servers["g"].state == "idle"
            clock.ahead = 3601
            assert len(bus.catalog) == len(bus.tools()) == 5
            assert bus.servers["g"].state == "idle", "a list alone starts nothing"
            assert text_of(await bus.call("g_late0")) == "called late0"


async def test_a_server_that_hangs_does_not_keep_callers_waiting(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "REFRESH_WITHIN", 0.05)
    servers = {"g": over_stdio(ttl={"tools": HOUR}), "h": over_stdio(ttl={"tools": HOUR})}
    async with Toolbus({"servers": servers}) as bus:
        await bus.call("g_stall")
        await grow(bus, server="h")
        clock.ahead = 3601
        await bus.wait_ready()
        assert "g_grow" in bus.catalog
        await until(lambda: "h_late0" in bus.catalog)


def test_the_synchronous_bus_lists_again(clock: Clock) -> None:
    with SyncToolbus({"servers": {"g": over_stdio(ttl={"tools": HOUR})}}) as bus:
        assert text_of(bus.call("g_grow", {"kind": "tools"})) == "grown"
        clock.ahead = 3601
        _ = bus.catalog
        wait_until(lambda: "g_late0" in bus.catalog)
        assert text_of(bus.call("g_late0")) == "called late0"


def test_a_program_that_has_used_a_bus_ends(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    entry = over_stdio(ttl={"tools": 50})
    program.write_text(
        "import asyncio\nfrom toolbus import Toolbus\n"
        f"async def main():\n    async with Toolbus({{'servers': {{'g': {entry!r}}}}}) as bus:\n"
        "        await asyncio.sleep(1.1)\n        print(len(bus.catalog))\nasyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")
