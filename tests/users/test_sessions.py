"""A session has its own connection to a server with `per_session`, from its first need to its end."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.inside.bus import tenants
from tests.patience import PATIENCE, until
from tests.processes import alive, children
from tests.servers.everyday import everyday
from tests.users.counting_bus import bus_of, counting, pid_of, started, text_of
from toolbus import BusClosed, ConnectionLost, ServerDown, Toolbus, ToolNotFound, TooManySessions

pytestmark = pytest.mark.anyio


async def test_each_session_has_its_own_state() -> None:
    async with bus_of(counting()) as bus:
        one, two = bus.as_user("", session="one"), bus.as_user("", session="two")
        assert [await text_of(one, "count") for _ in range(3)] == ["1", "2", "3"]
        assert await text_of(two, "count") == "1"
        assert await text_of(bus, "count") == "1"
        assert len({await pid_of(view) for view in (one, two, bus)}) == 3
        [part] = await one.read_resource("me", "count://now")
        assert part.text == "3"
        again = bus.as_user("", session="one")
        assert await text_of(again, "count") == "4"
        assert again.caller.session == "one"


async def test_interleaved_calls_of_sessions_are_never_mixed() -> None:
    async with bus_of(counting()) as bus:
        views = [bus.as_user("", session=f"s{number}") for number in range(4)]
        counts: dict[int, list[int]] = {}

        async def work(number: int) -> None:
            for _ in range(100):
                counts.setdefault(number, []).append(int(await text_of(views[number], "count")))

        await asyncio.gather(*(work(number) for number in range(4)))
        assert all(counts[number] == list(range(1, 101)) for number in range(4))


async def test_other_servers_are_shared() -> None:
    async with Toolbus({"servers": {"me": counting(), "all": counting(per_session=False)}}) as bus:
        views = [bus, bus.as_user("", session="one"), bus.as_user("ann", session="one"), bus.as_user("ann")]
        assert len({(await view.call("all/process")).text for view in views}) == 1
        assert len({await pid_of(view) for view in views}) == 3, "a user without a session has no own one"


async def test_listing_starts_nothing(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with bus_of(counting(starts)) as bus:
        tasks = asyncio.all_tasks()
        one = bus.as_user("", session="one")
        assert one.catalog is bus.catalog
        assert [tool.name for tool in one.tools()] == [tool.name for tool in bus.tools()]
        assert [item.uri for item in one.resources()] == ["count://now"]
        assert one.servers["me"].state == "idle"
        assert (await one.health())["me"].ok
        assert await one.wait_ready() == one.servers
        assert len(started(starts)) == 1
        assert asyncio.all_tasks() == tasks
        assert (await one.wait_ready("me"))["me"].state == "ready"
        assert len(started(starts)) == 2
        assert one.catalog is bus.catalog, "its own server offers the same"


async def test_the_end_of_a_session_leaves_nothing() -> None:
    async with bus_of(counting()) as bus:
        two = bus.as_user("", session="two")
        await text_of(two, "count")
        tasks, processes, files = asyncio.all_tasks(), children(), set(os.listdir("/proc/self/fd"))
        one = bus.as_user("", session="one")
        pid = await pid_of(one)
        hanging = asyncio.create_task(text_of(one, "hang"))
        events = one.events()
        await one.view(include="me_*").call("me_count")
        await one.close()
        await until(lambda: not alive(pid))
        with pytest.raises((ConnectionLost, ServerDown)):
            await hanging
        async with asyncio.timeout(PATIENCE):
            async for _ in events:
                pass
        await until(lambda: children() == processes and asyncio.all_tasks() <= tasks)
        await until(lambda: set(os.listdir("/proc/self/fd")) == files)
        assert not one.running
        for view in (one, one.view(servers="me")):
            with pytest.raises(BusClosed, match="session 'one' is closed"):
                await text_of(view, "count")
        await one.close()
        assert await text_of(two, "count") == "2"
        assert await text_of(bus.as_user("", session="one"), "count") == "1", "it is another session"
        assert not one.running


async def test_a_session_can_end_while_it_connects() -> None:
    silent = {**counting(), "args": ["-c", "import sys; sys.stdin.read()"], "lazy": True}
    async with bus_of(silent) as bus:
        one = bus.as_user("", session="one")
        calling = asyncio.create_task(one.read_resource("me", "count://now"))
        await until(lambda: bool(children()))
        await one.close()
        with pytest.raises(ServerDown):
            await calling
        await until(lambda: not children())


async def test_a_server_of_a_session_that_crashes_is_started_again() -> None:
    async with bus_of(counting()) as bus:
        one, two = bus.as_user("", session="one"), bus.as_user("", session="two")
        for view in (one, two):
            assert await text_of(view, "count") == "1"
        with pytest.raises(ConnectionLost):
            await text_of(one, "crash")
        assert await text_of(one, "count") == "1", "another process"
        assert one.servers["me"].restarts == 1
        assert await text_of(two, "count") == "2"
        assert two.servers["me"].restarts == bus.servers["me"].restarts == 0


async def test_only_so_many_sessions_have_their_own_connections() -> None:
    servers = {"me": counting(), "also": counting(), "day": {"server": everyday()}}
    async with Toolbus({"servers": servers}) as bus:
        bus.max_sessions = 2
        one, two, three = (bus.as_user("", session=name) for name in ("one", "two", "three"))
        for view in (one, two):
            await text_of(view, "count")
        assert (await three.call("day/hangs")).text == "0 0"
        for asked in (
            three.call("me/count"),
            three.read_resource("me", "count://now"),
            three.connect("me"),
            three.wait_ready("me"),
            bus.as_user("ann", session="one").call("me/count"),
        ):
            with pytest.raises(TooManySessions, match="the limit of 2 such sessions") as raised:
                await asked
            assert (raised.value.server, raised.value.limit) == ("me", 2)
        await one.call("also/count")
        await two.close()
        assert await text_of(three, "count") == "1"


async def test_everything_ends_with_the_bus() -> None:
    before = asyncio.all_tasks()
    bus = bus_of(counting())
    await bus.start()
    views = [bus.as_user("", session="one"), bus.as_user("ann", session="one")]
    streams = [view.events() for view in views]
    for view in views:
        await text_of(view, "count")
    await bus.stop()
    for stream in streams:
        async with asyncio.timeout(PATIENCE):
            async for _ in stream:
                pass
    await until(lambda: not children())
    assert asyncio.all_tasks() - before == set()
    for view in (*views, bus.as_user("", session="two")):
        assert not view.running
        with pytest.raises(BusClosed):
            await text_of(view, "count")
        await view.close()


async def test_a_lazy_server_is_not_started_for_the_bus(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with bus_of(counting(starts, lazy=True)) as bus:
        one, two = bus.as_user("", session="one"), bus.as_user("", session="two")
        assert len(one.catalog) == 0
        assert await text_of(one, "count") == "1"
        assert started(starts) == [await pid_of(one)]
        assert "me_count" in one.catalog
        assert len(two.catalog) == len(bus.catalog) == 0
        with pytest.raises(ToolNotFound):
            await two.call("other")
        assert (await two.call("me_count")).text == "1"
        assert len(started(starts)) == 2


async def test_a_connection_that_is_idle_closes_and_opens_again() -> None:
    async with bus_of(counting(idle_timeout=0.2)) as bus:
        one = bus.as_user("", session="one")
        first = await pid_of(one)
        await until(lambda: not alive(first))
        assert one.servers["me"].state == "idle"
        assert await text_of(one, "count") == "1"
        assert await pid_of(one) != first


async def test_a_config_can_add_and_remove_the_setting() -> None:
    shared, own = ({"servers": {"me": counting(per_session=value)}} for value in (False, True))
    async with Toolbus(shared) as bus:
        one, two = bus.as_user("", session="one"), bus.as_user("ann", session="one")
        assert [await text_of(view, "count") for view in (one, two, bus)] == ["1", "2", "3"]
        await bus.reload(own)
        assert [await text_of(view, "count") for view in (one, two, bus)] == ["1", "1", "1"]
        pids = {await pid_of(view) for view in (one, two)}
        await bus.add_server("more", counting(per_session=False))
        assert {await pid_of(view) for view in (one, two)} == pids, "they have nothing to do with that"
        await bus.reload(shared)
        assert not any(map(alive, pids))
        assert len({await pid_of(view) for view in (one, two, bus)}) == 1
        await bus.reload({"servers": {"other": counting()}})
        with pytest.raises(ToolNotFound):
            await text_of(one, "count")
        assert (await one.call("other/count")).text == "1"


async def test_a_changed_entry_reaches_the_sessions() -> None:
    async with bus_of(counting(env={"WHO": "before"})) as bus:
        one = bus.as_user("", session="one")
        before = await pid_of(one)
        await bus.reload({"servers": {"me": counting(env={"WHO": "after"})}})
        await until(lambda: not alive(before))
        assert await text_of(one, "who") == "after"


async def test_the_sessions_of_a_user_share_the_links_of_that_user() -> None:
    own = counting(per_session=False, env={"WHO": "${user:-bus}"})
    async with Toolbus({"servers": {"me": own, "each": counting(env={"WHO": "${user:-bus}"})}}) as bus:
        ann = bus.as_user("ann")
        one, two = bus.as_user("ann", session="one"), bus.as_user("ann", session="two")
        assert [await text_of(view, "count") for view in (one, two, ann)] == ["1", "2", "3"]
        assert await text_of(bus, "count") == "1"
        assert await text_of(one, "who") == "ann"
        assert (await one.call("each/who")).text == "ann"
        assert len({(await view.call("each/process")).text for view in (one, two, ann, bus)}) == 4
        pid = await pid_of(ann)
        for view in (one, two):
            await view.close()
        assert await pid_of(ann) == pid


async def test_a_user_with_a_session_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenants, "MAX_USERS", 1)
    async with bus_of(counting(env={"WHO": "${user:-bus}"})) as bus:
        one = bus.as_user("ann", session="one")
        pid = await pid_of(one)
        for name in ("bob", "cid", "dan"):
            await bus.as_user(name).call("me/count")
        assert await pid_of(one) == pid
        await one.close()
        await until(lambda: not alive(pid))


async def test_sessions_can_be_served_from_other_threads_and_loops() -> None:
    async with bus_of(counting()) as bus:
        results: list[str] = []

        async def visit(name: str) -> None:
            view = bus.as_user("", session=name)
            results.append(await text_of(view, "count"))
            await view.close()

        def work(name: str) -> None:
            asyncio.run(visit(name))

        threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two", "three")]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert results == ["1", "1", "1"]


@pytest.mark.parametrize(
    ("name", "error"), [("", ValueError), (" ", ValueError), (None, None), (1, TypeError)]
)
def test_a_session_has_a_name(name: Any, error: type[Exception] | None) -> None:
    bus = bus_of(counting())
    if error is None:
        assert not hasattr(bus.as_user("ann", session=name), "close")
        return
    with pytest.raises(error, match="the name of a session must"):
        bus.as_user("ann", session=name)
