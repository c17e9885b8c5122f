"""The observer of a link: what it lists, and what happens if it fails."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conftest import plain
from tests.inside.connect import Link, LinkOwner, ServerSession
from tests.inside.discover import Discovery
from tests.patience import PATIENCE
from tests.servers.recording import recording
from toolbus.config import load_server

pytestmark = pytest.mark.anyio


class FailingOnce(Discovery):
    """Fails in its first session, once everything is listed."""

    def __init__(self, server: str, publish: Callable[[], None]) -> None:
        super().__init__(server, publish, lambda event: None)
        self.opens = 0
        self.is_open = asyncio.Event()

    async def on_open(self, session: ServerSession) -> None:
        await super().on_open(session)
        self.opens += 1
        self.is_open.set()

    async def run(self, session: ServerSession) -> None:
        if self.opens == 0:
            await self.is_open.wait()
            raise RuntimeError("out of order")
        await super().run(session)


@asynccontextmanager
async def linked(entry: dict[str, Any], observer: Discovery):
    link = Link(load_server(entry, alias="a"), LinkOwner(), observer, lambda event: None)
    try:
        async with asyncio.timeout(PATIENCE):
            await link.open()
            yield link
    finally:
        await link.close()


async def until(true: Callable[[], bool], changed: asyncio.Event) -> None:
    while not true():
        changed.clear()
        await changed.wait()


async def test_a_session_whose_observer_fails_is_replaced_and_the_failure_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    published = asyncio.Event()
    observer = FailingOnce("a", published.set)
    async with linked(plain(), observer) as link:
        await until(lambda: observer.opens == 2, observer.is_open)
        await link.wait_ready()
        assert (link.state, link.restarts) == ("ready", 1)
    assert "server 'a': its observer failed" in caplog.messages
    assert any("lost (its observer failed: out of order" in message for message in caplog.messages)


async def test_a_list_that_failed_stays_noted_while_only_another_one_is_listed_again() -> None:
    published = asyncio.Event()
    observer = Discovery("a", published.set, lambda event: None)
    with recording() as record:
        capabilities: dict[str, Any] = {"tools": {}, "resources": {}}
        record.results["initialize"] = {**record.results["initialize"], "capabilities": capabilities}
        record.results["resources/templates/list"] = {"resourceTemplates": []}
        record.statuses |= {"tools/list": 503, "resources/list": 400}
        async with linked({"url": record.url, "era": "legacy"}, observer):
            assert [note.partition(" ")[0] for note in observer.inventory.notes] == ["tools", "resources"]
            del record.statuses["tools/list"]
            await until(lambda: len(observer.inventory.tools) == 1, published)
            assert [note.partition(" ")[0] for note in observer.inventory.notes] == ["resources"]
            assert not observer.inventory.stale
