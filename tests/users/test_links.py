"""Users share a link where no credential differs, and have one of their own where one does."""

import asyncio
from collections.abc import Callable

import pytest

from tests.inside.bus import tenants
from tests.patience import PATIENCE, until
from tests.processes import alive, children
from tests.servers.everyday import everyday
from tests.users.personal_bus import bus_of, event_of, heard, process, text_of, token_of, web
from toolbus import BusClosed, SecretMissing, ServerDown, Toolbus, ToolNotFound
from toolbus.events import CallStarted, CatalogChanged, StateChanged

pytestmark = pytest.mark.anyio


def secrets_of(**by_user: str) -> Callable[[str, str], str | None]:
    """Everybody has one secret, or none; the bus itself has no user's secret."""

    def get_secret(name: str, user: str) -> str | None:
        return by_user.get(user)

    return get_secret


async def test_users_whose_environment_differs_have_a_process_each() -> None:
    async with bus_of(process()) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        pids = {int(await text_of(view, "process")) for view in (ann, bob, bus)}
        assert len(pids) == 3
        assert [await text_of(view, "whoami") for view in (ann, bob, bus)] == ["ann", "bob", "bus"]
        assert await text_of(bus.as_user("ann"), "process") == await text_of(ann, "process")
        assert children() >= pids
    assert not any(map(alive, pids))


async def test_users_whose_environment_is_the_same_share_a_process() -> None:
    async with bus_of(
        process("${WHO_IT_IS}"), get_secret=secrets_of(**{"": "all", "ann": "all", "bob": "all"})
    ) as bus:
        views = [bus, bus.as_user("ann"), bus.as_user("bob")]
        assert {await text_of(view, "whoami") for view in views} == {"all"}
        assert len({await text_of(view, "process") for view in views}) == 1
        assert views[1].servers["me"] == bus.servers["me"]


async def test_a_server_without_references_is_shared_before_anything_is_awaited() -> None:
    async with bus_of(process("bus")) as bus:
        ann = bus.as_user("ann")
        assert ann.tools() != []
        assert list(ann.catalog.names) == list(bus.catalog.names)
        assert await text_of(ann, "whoami") == "bus"


async def test_a_function_that_knows_no_users_is_not_asked_for_each_of_them() -> None:
    asked: list[str] = []

    def get_secret(name: str) -> str:
        asked.append(name)
        return "all"

    async with bus_of(process("${WHO_IT_IS}"), get_secret=get_secret) as bus:
        for user in ("ann", "bob", "cid"):
            assert await text_of(bus.as_user(user), "whoami") == "all"
        assert asked == ["WHO_IT_IS"]


async def test_a_user_without_the_secret_does_not_get_that_of_the_bus() -> None:
    async with bus_of(process("${WHO_IT_IS}"), get_secret=secrets_of(**{"": "bus", "ann": "ann"})) as bus:
        assert await text_of(bus.as_user("ann"), "whoami") == "ann"
        bob = bus.as_user("bob")
        with pytest.raises(ToolNotFound, match="WHO_IT_IS"):
            await bob.call("me/whoami")
        with pytest.raises(ServerDown, match="WHO_IT_IS"):
            await bob.read_resource("me", "me://profile")
        assert isinstance(bob.failures["me"], SecretMissing)
        assert bus.failures == {}
        assert len(bob.catalog) == 0


async def test_a_secret_that_is_not_looked_up_in_time_is_never_shared() -> None:
    async def get_secret(name: str, user: str) -> str:
        if user:
            await asyncio.Event().wait()
        return "bus"

    entry = web(9, "modern", timeouts={"connect": 0.1})
    async with bus_of(entry, get_secret=get_secret) as bus:
        ann = bus.as_user("ann")
        with pytest.raises(ServerDown, match="its secrets were not resolved within"):
            await ann.read_resource("me", "me://profile")
        assert "cannot connect" in str(bus.failures["me"])


async def test_an_own_link_closes_when_idle_and_opens_again() -> None:
    async with bus_of(process(idle_timeout=0.2)) as bus:
        ann = bus.as_user("ann")
        first = int(await text_of(ann, "process"))
        await event_of(ann, StateChanged, asyncio.sleep(0), state="idle")
        await until(lambda: not alive(first))
        assert "me_whoami" in ann.catalog
        assert await text_of(ann, "whoami") == "ann"
        assert int(await text_of(ann, "process")) != first


async def test_after_the_bus_has_stopped_nothing_of_its_users_is_left(personal_port: int) -> None:
    before = asyncio.all_tasks()
    bus = Toolbus({"servers": {"me": process(), "web": web(personal_port, "modern")}}, get_secret=token_of)
    await bus.start()
    views = [bus.as_user(name) for name in ("ann", "bob")]
    hanging = [asyncio.create_task(view.call("me/hang")) for view in views]
    streams = [view.events() for view in views]
    for view in views:
        await view.wait_ready()
    await bus.stop()
    for call in await asyncio.gather(*hanging, return_exceptions=True):
        assert isinstance(call, Exception)
    for stream in streams:
        async with asyncio.timeout(PATIENCE):
            async for _ in stream:
                pass
    await until(lambda: not children() and not asyncio.all_tasks() - before)
    for view in (*views, bus.as_user("cid")):
        assert not view.running
        with pytest.raises(BusClosed):
            await view.call("me/whoami")
        async with asyncio.timeout(PATIENCE):
            assert [event async for event in view.events()] == []


async def test_a_user_can_be_named_before_the_bus_starts() -> None:
    bus = bus_of(process("bus"))
    ann = bus.as_user("ann")
    with pytest.raises(BusClosed, match="not started"):
        await ann.call("me/whoami")
    async with bus:
        assert await text_of(ann, "whoami") == "bus"
        assert "me_whoami" in ann.catalog


async def test_changes_of_the_servers_reach_the_users() -> None:
    async with bus_of(process()) as bus:
        ann = bus.as_user("ann")
        pid = int(await text_of(ann, "process"))
        changes = heard(ann, CatalogChanged)
        await bus.add_server("all", process("bus"))
        assert (await ann.call("all/whoami")).text == "bus"
        assert any("all_whoami" in change.added for change in changes)
        assert int(await text_of(ann, "process")) == pid, "it has nothing to do with that"
        await bus.add_server("own", process())
        assert (await ann.call("own/whoami")).text == "ann"
        await bus.remove_server("all")
        await bus.remove_server("me")
        await until(lambda: not alive(pid))
        assert {spec.origin.server for spec in ann.catalog} == {"own"}
        with pytest.raises(ToolNotFound):
            await ann.call("me/whoami")
        await bus.reload({"servers": {"own": process("x-${user:-bus}")}})
        assert (await ann.call("own/whoami")).text == "x-ann"
        assert (await bus.call("own/whoami")).text == "x-bus"


async def test_a_tool_that_a_shared_server_adds_is_seen_by_users() -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        assert "day_extra" not in bob.catalog
        await event_of(ann, CatalogChanged, bus.call("day_grow", {"name": "extra"}), added=("day_extra",))
        assert "day_extra" in ann.catalog
        assert "day_extra" in bob.catalog
        assert (await bob.call("day_extra")).text == "I am extra"


async def test_credentials_are_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"": "bus", "ann": "bus"}
    now = 0.0

    def get_secret(name: str, user: str) -> str:
        return secrets[user]

    monkeypatch.setattr(tenants, "clock", lambda: now)
    async with bus_of(process("${WHO_IT_IS}"), get_secret=get_secret) as bus:
        ann = bus.as_user("ann")
        assert await text_of(ann, "whoami") == "bus"
        secrets["ann"] = "ann"
        states = heard(ann, StateChanged)
        assert await text_of(ann, "whoami") == "bus"
        now = tenants.COMPARE_EVERY
        assert await text_of(ann, "whoami") == "ann"
        assert await text_of(bus, "whoami") == "bus"
        found = [event.state for event in states]
        assert found == ["closed", "connecting", "ready"], "subscriptions have to be renewed"
        pid = await text_of(ann, "process")
        secrets["ann"] = "bus"
        now *= 2
        assert await text_of(ann, "process") == pid, "a link that may be in use is not closed"


async def test_users_that_nobody_needs_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenants, "MAX_USERS", 2)
    async with bus_of(process()) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        pids = [int(await text_of(view, "process")) for view in (ann, bob)]
        listening = bob.events()
        cid = bus.as_user("cid")
        hanging = asyncio.create_task(cid.call("me/hang"))
        await event_of(cid, CallStarted, asyncio.sleep(0), tool="hang")
        # Ann is the one that was not used for longest, and nobody waits for anything of hers.
        await until(lambda: not alive(pids[0]))
        assert alive(pids[1])
        # A view that somebody has goes on, with another process.
        assert await text_of(ann, "whoami") == "ann"
        assert bus.as_user("ann").catalog is ann.catalog
        assert alive(pids[1])
        assert not hanging.done()
        hanging.cancel()
        del listening


async def test_many_users_take_turns(monkeypatch: pytest.MonkeyPatch, personal_port: int) -> None:
    monkeypatch.setattr(tenants, "MAX_USERS", 5)
    async with bus_of(web(personal_port, "legacy")) as bus:

        async def visit(name: str) -> None:
            for _ in range(3):
                assert await text_of(bus.as_user(name), "whoami") == name

        await asyncio.gather(*(visit(f"user{number}") for number in range(30)))
