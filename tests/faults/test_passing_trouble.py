"""One request that fails is not the end of watching: lists, notices and subscriptions go on."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.inside.discover import watch
from tests.patience import PATIENCE, until
from tests.servers.recording import Recording, recording
from toolbus import Toolbus
from toolbus.events import CatalogChanged, Event, EventStream

pytestmark = pytest.mark.anyio
FRESH = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}


def tools(*names: str) -> dict[str, Any]:
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names], **FRESH}


@pytest.fixture
def record() -> Iterator[Recording]:
    """A server of the modern era whose streams of notices end at once: it is listed again and again."""
    with recording() as record:
        discover = {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, **FRESH}
        record.results |= {"server/discover": discover, "tools/list": tools("look")}
        record.results |= {"subscriptions/listen": FRESH, "resources/list": {"resources": [], **FRESH}}
        record.results |= {"resources/templates/list": {"resourceTemplates": [], **FRESH}}
        yield record


def count(record: Recording, method: str) -> int:
    return [name or command for command, _, _, name in record.requests].count(method)


async def added(events: EventStream[Event]) -> tuple[str, ...]:
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if isinstance(event, CatalogChanged):
                return event.added
    raise AssertionError("the bus ended without a change")


async def test_a_list_whose_request_breaks_off_is_listed_again_and_so_are_later_changes(
    record: Recording,
) -> None:
    async with Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
        events = bus.events()
        listed = count(record, "tools/list")
        record.cut.add("tools/list")
        await until(lambda: count(record, "tools/list") > listed)
        record.results["tools/list"] = tools("look", "find")
        record.cut.clear()
        assert await added(events) == ("a_find",)
        record.results["tools/list"] = tools("look", "find", "keep")
        assert await added(events) == ("a_keep",)
        assert bus.servers["a"].restarts == 0


async def test_a_list_that_is_refused_for_a_moment_is_listed_again_without_another_notice(
    record: Recording,
) -> None:
    record.statuses["subscriptions/listen"] = 404  # no notices at all
    record.statuses["tools/list"] = 503
    async with Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
        events = bus.events()
        assert (bus.servers["a"].state, bus.catalog.names) == ("ready", ())
        record.statuses.pop("tools/list")
        assert await added(events) == ("a_look",)


async def test_a_stream_of_notices_that_is_refused_for_a_moment_is_opened_later(
    record: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LISTEN_TIMEOUT", 600)  # a start does not wait for it
    record.statuses["subscriptions/listen"] = 503
    async with asyncio.timeout(PATIENCE), Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
        events = bus.events()
        record.results["tools/list"] = tools("look", "find")
        record.statuses.clear()
        assert await added(events) == ("a_find",)


async def test_the_stream_of_the_legacy_era_that_is_refused_for_a_moment_is_asked_for_again() -> None:
    with recording() as record:
        record.session, record.statuses["GET"] = "one", 503
        async with Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
            await until(lambda: count(record, "GET") > 1)
            record.statuses["GET"] = 405  # now it says that it has none
            asked = count(record, "GET")
            await until(lambda: count(record, "GET") > asked)
            assert bus.servers["a"].restarts == 0


async def test_a_subscription_that_cannot_be_renewed_at_once_is_renewed_later() -> None:
    with recording() as record:
        capabilities = {"tools": {}, "resources": {"subscribe": True}}
        record.results["initialize"] = {**record.results["initialize"], "capabilities": capabilities}
        record.results |= {"resources/list": {"resources": []}, "resources/subscribe": {}}
        record.results["resources/templates/list"] = {"resourceTemplates": []}
        record.session = "first"
        async with Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
            await bus.subscribe("a", "memo://x")
            record.session, record.statuses["resources/subscribe"] = "second", 503
            assert (await bus.call("a_look")).text == "seen"
            await until(lambda: count(record, "resources/subscribe") > 1)
            record.statuses.clear()
            asked = count(record, "resources/subscribe")
            await until(lambda: count(record, "resources/subscribe") > asked)
