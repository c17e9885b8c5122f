"""A user's own links close when nobody has used them for a while, and open again."""

import asyncio
from typing import Any

import pytest

from tests.context.shelf import Shelf
from tests.servers.everyday import everyday
from tests.users.personal_bus import heard
from tests.virtual_time import VIRTUAL_TIME
from toolbus import Toolbus
from toolbus.events import StateChanged

pytestmark = pytest.mark.anyio
MINUTE = 60.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


async def test_after_a_quarter_of_an_hour() -> None:
    entry = {"server": everyday(), "headers": {"x": "${user:-bus}"}}
    async with Toolbus({"servers": {"day": entry}}) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        for view in (ann, bob):
            await view.call("day/hangs")
        states = heard(ann, StateChanged)
        await asyncio.sleep(14 * MINUTE)
        await bob.call("day/hangs")
        assert ann.servers["day"].state == "ready"
        await asyncio.sleep(2 * MINUTE)
        assert ann.servers["day"].state == "idle"
        assert bob.servers["day"].state == bus.servers["day"].state == "ready"
        assert "day_hangs" in ann.catalog
        assert (await ann.call("day_hangs")).text == "0 0"
        assert [event.state for event in states] == ["idle", "connecting", "ready"]


async def test_the_time_of_the_server_counts_if_it_has_one() -> None:
    entry = {"server": everyday(), "headers": {"x": "${user:-bus}"}, "idle_timeout": 60 * MINUTE}
    async with Toolbus({"servers": {"day": entry}}) as bus:
        ann = bus.as_user("ann")
        await ann.call("day/hangs")
        await asyncio.sleep(59 * MINUTE)
        assert ann.servers["day"].state == "ready"
        await asyncio.sleep(2 * MINUTE)
        assert ann.servers["day"].state == "idle"


async def test_a_subscription_keeps_the_link_open() -> None:
    shelf = Shelf({"memo://1": "one"})
    async with Toolbus({"servers": {"s": shelf.config("modern", headers={"x": "${user:-bus}"})}}) as bus:
        ann = bus.as_user("ann")
        await ann.subscribe("s", "memo://1")
        await asyncio.sleep(60 * MINUTE)
        assert ann.servers["s"].state == "ready"
        await ann.unsubscribe("s", "memo://1")
        await asyncio.sleep(31 * MINUTE)
        assert ann.servers["s"].state == "idle"
