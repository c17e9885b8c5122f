"""Twenty servers behind one bus, three of them broken: the others are unaffected, the reason is visible."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import warm
from tests.conftest import SERVERS
from tests.gateway.serving import gateway
from tests.inside.core import ServerStatus
from tests.patience import PATIENCE, until
from tests.processes import alive
from toolbus import ConnectionLost, Toolbus, View
from toolbus.events import Event, StateChanged

pytestmark = pytest.mark.anyio
MODERN, LEGACY = 9, 8
HEALTHY = MODERN + LEGACY
CALLS = 20
"""For each of the others, while the three misbehave."""


def _plain(script: str, *words: str, **more: Any) -> dict[str, Any]:
    """A server of the legacy era that imports little."""
    args = ["-I", "-S", str(SERVERS / script), *words]
    return {"command": sys.executable, "args": args, "era": "legacy", **more}


def _config() -> dict[str, Any]:
    day = {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"]}
    healthy = [day] * MODERN + [_plain("counting.py")] * LEGACY
    broken = {
        "killed": _plain("counting.py"),
        "hanging": _plain("plain.py", "never_answer", timeouts={"connect": 1}),
        "flooding": _plain("flooding.py", "logs", limits={"unasked": 2_000}),
    }
    return {"servers": {**{f"s{number}": entry for number, entry in enumerate(healthy)}, **broken}}


async def _work(view: View, number: int, name: str = "s{number}/{tool}") -> list[str]:
    """Calls of one server, one after the other."""
    tool = name.format(number=number, tool="process" if number < MODERN else "count")
    return [(await view.call(tool)).text for _ in range(CALLS)]


def _expect_unaffected(answers: list[list[str]]) -> None:
    """Every call was answered, by the process that answered the first one."""
    for number, texts in enumerate(answers):
        if number < MODERN:
            assert len(set(texts)) == 1, "one process, all the time"
        else:
            assert texts == [str(count) for count in range(1, CALLS + 1)]


async def _status(bus: Toolbus, alias: str, fits: Callable[[ServerStatus], bool]) -> ServerStatus:
    """The status of a server, once it fits."""
    async with asyncio.timeout(PATIENCE):
        while not fits(status := bus.servers[alias]):  # noqa: ASYNC110  it may have been so before
            await asyncio.sleep(0.01)
    return status


async def test_one_killed_one_hanging_one_flooding() -> None:
    """Every call of the other 17 is answered, and the reason is visible for the three."""
    async with Toolbus(_config()) as bus:
        assert len(bus.servers) == HEALTHY + 3
        session = bus.as_user("", session="one")
        reasons: dict[str, str] = {}

        def look(event: Event) -> None:
            if isinstance(event, StateChanged) and event.error:
                reasons.setdefault(event.server, str(bus.servers[event.server].error))

        bus.on_event(look)
        hanging = asyncio.create_task(bus.call("killed/hang"))
        await asyncio.sleep(0)
        victim = int((await bus.call("killed/process")).text)  # after the other one, which has been sent
        working = [asyncio.create_task(_work(session, number)) for number in range(HEALTHY)]
        os.kill(victim, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(*working)
        _expect_unaffected(answers)
        for number in range(HEALTHY):
            status = bus.servers[f"s{number}"]
            assert (status.state, status.restarts, status.error) == ("ready", 0, None)

        [lost] = await asyncio.gather(hanging, return_exceptions=True)
        assert isinstance(lost, ConnectionLost)
        healed = await _status(bus, "killed", lambda status: status.state == "ready" and status.restarts > 0)
        assert "signal 9" in reasons["killed"]
        await until(lambda: not alive(victim))
        assert healed.error is None
        assert (await bus.call("killed/count")).text == "1", "it was started again"

        failed = await _status(bus, "hanging", lambda status: status.error is not None)
        assert "timed out after 1 s" in str(failed.error)
        flooded = await _status(
            bus, "flooding", lambda status: status.state != "ready" and status.error is not None
        )
        assert "limits.unasked" in str(flooded.error)
        await session.close()


async def test_the_same_through_a_gateway(tmp_path: Path) -> None:
    """A client of `toolbus serve` notices nothing; `/readyz` has the reasons."""
    file = tmp_path / "toolbus.json"
    file.write_text(json.dumps(_config()))
    with gateway(file) as url:
        async with (
            Toolbus({"servers": {"all": {"url": url, "prefix": ""}}}) as client,
            httpx2.AsyncClient() as http,
        ):
            victim = int((await client.call("killed_process")).text)
            working = [
                asyncio.create_task(_work(client, number, "s{number}_{tool}")) for number in range(HEALTHY)
            ]
            os.kill(victim, signal.SIGKILL)
            async with asyncio.timeout(PATIENCE):
                _expect_unaffected(await asyncio.gather(*working))

                def as_expected(servers: dict[str, Any]) -> bool:
                    restarted = servers["killed"]["state"] == "ready" and servers["killed"]["restarts"] > 0
                    return restarted and servers["hanging"]["reason"] and servers["flooding"]["reason"]

                ready = httpx2.URL(url).join("/readyz")
                while not as_expected(servers := (await http.get(ready)).json()["servers"]):  # noqa: ASYNC110  it is another process
                    await asyncio.sleep(0.1)
            assert (await client.call("killed_count")).text == "1"
        assert "timed out after 1 s" in servers["hanging"]["reason"]
        assert "limits.unasked" in servers["flooding"]["reason"]
        for number in range(HEALTHY):
            status = servers[f"s{number}"]
            assert (status["state"], status["restarts"], status["reason"]) == ("ready", 0, None)
    assert "signal 9" in file.with_suffix(".log").read_text()
