"""The time that hostile servers keep the loop busy, all at once."""

import asyncio
import threading
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.budget import BUDGET, measured
from tests.hostile.storms import STORMS
from tests.hostile.wires import hostile_http, response
from tests.patience import PATIENCE
from toolbus import Toolbus, ToolbusError

OVER_STDIO, OVER_HTTP = list(STORMS)[::2], list(STORMS)[1::2]
"""Without --full, a storm comes over one of them."""
ROOT = str(Path(__file__).parents[2])


class HttpServers(threading.Thread):
    """Servers over HTTP with a loop of their own: as events, and as JSON where a storm is one message.

    If not every storm, these take turns.
    """

    def __init__(self, *, every: bool) -> None:
        super().__init__(daemon=True)
        self._every = every
        self._urls: dict[str, str] = {}
        self._ready = threading.Event()

    def __enter__(self) -> dict[str, str]:
        self.start()
        assert self._ready.wait(PATIENCE)
        return self._urls

    def __exit__(self, *raised: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self.join(60)

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            for number, name in enumerate(STORMS if self._every else OVER_HTTP):
                lines = list(STORMS[name]())
                attacks = {"events": response(b"".join(map(as_event, lines)), kind="text/event-stream")}
                if len(lines) == 1:
                    attacks["JSON"] = response(lines[0])
                if len(attacks) > 1 and not self._every:
                    del attacks["events" if number % 2 else "JSON"]
                for form, attack in attacks.items():
                    server = await stack.enter_async_context(hostile_http("post"))
                    server.attack = attack
                    self._urls[f"{name} as {form}"] = server.url
            self._ready.set()
            await self._end.wait()


def as_event(line: bytes) -> bytes:
    return b"data: " + line + b"\n\n"


async def storm(bus: Toolbus, tool: str) -> None:
    with suppress(ToolbusError):
        await bus.call(tool, timeout=PATIENCE)


async def answers(bus: Toolbus, tool: str, until: asyncio.Future[Any]) -> int:
    """Call a good server until the storms are over; returns how often it answered."""
    count = 0
    while not until.done():
        assert (await bus.call(tool, timeout=PATIENCE)).text == "over"
        count += 1
    return count


@pytest.mark.anyio
async def test_every_hostile_server_at_once(request: pytest.FixtureRequest) -> None:
    """No step of the loop takes longer than its budget, and a good server answers all the while."""
    every = bool(request.config.getoption("--full"))
    module = {"command": warm.python(), "cwd": ROOT, "era": "legacy"}
    names = ("good", "tools", *(STORMS if every else OVER_STDIO))
    programs = {name: {**module, "args": ["-m", "tests.hostile.storms", name]} for name in names}
    with HttpServers(every=every) as urls, measured() as steps:
        entries = {**programs, **{name: {"url": url, "era": "legacy"} for name, url in urls.items()}}
        servers = {f"s{number}": entry for number, entry in enumerate(entries.values())}
        async with asyncio.timeout(PATIENCE), Toolbus({"servers": servers}) as bus:
            assert {server.state for server in bus.servers.values()} == {"ready"}
            storms = asyncio.gather(
                *(
                    storm(bus, f"{alias}/{'look' if 'url' in entry else 'storm'}")
                    for alias, entry in servers.items()
                )
            )
            assert await answers(bus, "s0/storm", storms)
    assert steps.longest < BUDGET, steps.callback
