"""The views of principals and sessions: views of the config, budgets, connections of their own."""

import asyncio
import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS
from tests.gateway.driving import (
    FORWARDS,
    JSON,
    LEGACY_CAPABILITIES,
    Era,
    LegacyClient,
    ModernClient,
    client_of,
    gateway_over,
    text_of,
)
from tests.inside.bus import View
from tests.inside.core import Budget, Event, Interactions, StateChanged, Warned
from tests.inside.gateway import LOCAL, ClientSessions, Gateway, Principal, ProtocolError
from tests.patience import PATIENCE
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Toolbus

pytestmark = pytest.mark.anyio


class Narrow:
    """A view for each principal: the servers that its name has."""

    def __init__(self, bus: Toolbus) -> None:
        self._bus = bus
        self.made: dict[str, View] = {}

    def __call__(
        self, principal: Principal, session: str = "", interactions: Interactions | None = None
    ) -> View:
        return self.made.setdefault(principal.name, self._bus.view(servers=principal.name.split("+")))


async def test_what_is_not_in_a_view_does_not_exist() -> None:
    bus = Toolbus({"servers": {"day": {"server": everyday()}, "ask": {"server": asking()}}})
    async with bus:
        narrow = Narrow(bus)
        async with Gateway(bus, view_of=narrow) as gateway:
            day = ModernClient(gateway, principal=Principal(name="day"))
            both = ModernClient(gateway, principal=Principal(name="day+ask"))
            names = [tool["name"] for tool in (await day.request("tools/list"))["tools"]]
            assert all(name.startswith("day_") for name in names)
            assert len((await both.request("tools/list"))["tools"]) > len(names)
            with pytest.raises(ProtocolError) as failed:
                await day.request("tools/call", {"name": "ask_tell", "arguments": {"text": "x"}})
            assert failed.value.code == -32602
            for uri in ("board://now", "ask+board://now"):
                with pytest.raises(ProtocolError):
                    await day.request("resources/read", {"uri": uri})
            assert (await both.request("resources/read", {"uri": "board://now"}))["contents"]
            narrow.made["day"] = bus.view(servers="ask")  # the config says something else now
            names = [tool["name"] for tool in (await day.request("tools/list"))["tools"]]
            assert all(name.startswith("ask_") for name in names)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_budget_shortens_results(era: Era) -> None:
    bus = Toolbus({"servers": {"day": {"server": everyday()}}})
    async with bus, Gateway(bus, budget_of=lambda _: Budget(characters=300)) as gateway:
        client = await client_of(era, gateway)
        long = await client.request("tools/call", {"name": "day_big", "arguments": {"size": 5000}})
        assert len(text_of(long)) <= 300
        short = await client.request("tools/call", {"name": "day_add", "arguments": {"a": 1, "b": 2}})
        assert short["structuredContent"] == {"result": 3}
        assert all("outputSchema" not in tool for tool in (await client.request("tools/list"))["tools"])


async def test_sessions_have_connections_of_their_own_if_a_server_wants_that() -> None:
    entry = {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"], "per_session": True}
    bus = Toolbus({"servers": {"day": entry}}, interactions=FORWARDS)
    async with bus, Gateway(bus) as gateway:
        a, b = await LegacyClient.opened(gateway), await LegacyClient.opened(gateway)
        pids = [
            text_of(await one.request("tools/call", {"name": "day_process", "arguments": {}}))
            for one in (a, b, a)
        ]
        assert pids[0] == pids[2] != pids[1]
        for name in ("ann", "bob"):  # modern clients have no sessions: their principals stand for them
            modern = ModernClient(gateway, principal=Principal(name=name))
            pid = text_of(await modern.request("tools/call", {"name": "day_process"}))
            assert pid == text_of(await modern.request("tools/call", {"name": "day_process"}))
            assert pid not in pids
            pids.append(pid)
        gateway.sessions.close(a.session.id)
        assert text_of(await b.request("tools/call", {"name": "day_process"})) == pids[1]
        await gateway.close()


@pytest.mark.parametrize("capabilities", [{}, LEGACY_CAPABILITIES], ids=["modern", "legacy"])
async def test_trouble_with_a_connection_of_a_session_is_reported(capabilities: JSON) -> None:
    """A client that can be asked uses a legacy link."""
    entry = {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"], "per_session": True}
    of_bus: list[Event] = []
    of_clients: list[Event] = []
    lost = asyncio.Event()

    def take(event: Event, user: str) -> None:
        of_clients.append(event)
        is_lost = isinstance(event, StateChanged) and event.error is not None
        if is_lost or (isinstance(event, Warned) and "for legacy clients was lost" in event.message):
            lost.set()

    bus = Toolbus({"servers": {"day": entry}}, interactions=FORWARDS, on_event=of_bus.append)
    async with bus, Gateway(bus, on_event=take) as gateway:
        client = await LegacyClient.opened(gateway, capabilities)
        pid = text_of(await client.request("tools/call", {"name": "day_process", "arguments": {}}))
        os.kill(int(pid), signal.SIGKILL)
        await asyncio.wait_for(lost.wait(), PATIENCE)
        await gateway.close()
    assert not any(isinstance(event, Warned) or getattr(event, "error", None) for event in of_bus)


async def test_a_session_of_another_principal() -> None:
    """It does not exist for anybody but who opened it."""
    sessions = ClientSessions(max_sessions=2)
    mine = sessions.open(LOCAL, "2025-11-25", {})
    assert sessions.get(mine.id, LOCAL) is mine
    assert sessions.get(mine.id, Principal(name="eve")) is None
    # Who gets something else now must not keep what it got before.
    assert sessions.get(mine.id, replace(LOCAL, view="other")) is None
    assert sessions.get(mine.id, replace(LOCAL, user="ann")) is None
    assert sessions.get(mine.id, replace(LOCAL, expires=7.0)) is mine
    assert sessions.get("made up", LOCAL) is None


async def test_sessions_end_when_they_are_idle_or_too_many() -> None:
    clock = [0.0]
    sessions = ClientSessions(max_sessions=2, idle=10, now=lambda: clock[0])
    first = sessions.open(LOCAL, "2025-11-25", {})
    clock[0] = 5
    second = sessions.open(LOCAL, "2025-11-25", {})
    clock[0] = 6
    third = sessions.open(LOCAL, "2025-11-25", {})
    assert (first.closed, second.closed, len(sessions)) == (True, False, 2)
    clock[0] = 15.5
    sessions.end_idle()
    assert (second.closed, third.closed) == (True, False)
    clock[0] = 17
    assert sessions.get(third.id, LOCAL) is None


async def test_a_session_that_ends_while_its_client_is_asked() -> None:
    """The call ends, and the client gets nothing more."""
    config: dict[str, Any] = {"servers": {"ask": {"server": asking(), "prefix": ""}}}
    async with gateway_over(config) as gateway:
        client = await LegacyClient.opened(gateway)  # which does not answer
        call = asyncio.create_task(
            client.request("tools/call", {"name": "book", "arguments": {"guest": "Ann"}})
        )
        await client.heard.wait_for("elicitation/create")
        gateway.sessions.close(client.session.id)
        await asyncio.wait({call}, timeout=PATIENCE)
        assert call.exception() is not None
