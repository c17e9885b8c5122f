"""Calls through `toolbus serve` with an API key and no audit trail, next to the same calls without a gateway.

The load is raw (`bench/http_load.py`), so that only the gateway is measured. Its clients are modern.
"""

import json
import os
import subprocess
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.catalogs import TOOLBUS
from bench.gateways import TEXT, calls_round, open_others
from bench.holdings import memory
from bench.http_load import BARE, Lane, head, lanes, legacy_session, posted, request
from bench.limit import stdio_limit
from bench.measure import Opening, Round, Sides, single
from bench.openings import alone, once
from bench.processes import cpu_seconds, running
from bench.sides import Call, bus_entry
from bench.work import SEQUENTIAL_CALLS as CALLS
from bench.work import at_once, sequential

OTHERS_CALLS = 10
"""The same through another gateway, which may start a process for each call."""
IN_FLIGHT = 32
EACH = 16
EACH_FOR_CPU = 64
"""CPU time is counted in steps of 10 ms."""
OTHERS_EACH = 2
WORK = at_once(IN_FLIGHT, EACH)
DIRECT = "direct"
"""The server without a gateway, as a row of the table of gateways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A gateway that listens."""

    pid: int
    url: str
    key: str

    @property
    def call(self) -> bytes:
        """The call of a round."""
        return request(self.url, "bench_echo", TEXT, self.key)


@contextmanager
def gateway(server: Mapping[str, Any], count: int = 1) -> Generator[Served]:
    """A gateway in front of a server, or of several like it, in a process of its own, with a key."""
    with TemporaryDirectory(prefix="bench-") as folder:
        config = Path(folder) / "toolbus.json"
        servers = {f"bench{number or ''}": server for number in range(count)}
        settings = {"servers": servers, "serve": {"auth": {"keys": True}}}
        config.write_text(json.dumps(settings))
        env = {**os.environ, "XDG_STATE_HOME": folder}
        made = subprocess.run(
            [TOOLBUS, "key", "add", "bench", "--json", "--config", str(config)],
            env=env,
            check=True,
            capture_output=True,
        )
        command = [TOOLBUS, "serve", "--http", "127.0.0.1:0", "--config", str(config)]
        with running(command, env=env) as (pid, url):
            yield Served(pid=pid, url=url, key=json.loads(made.stdout)["key"])


def one_in_flight() -> Opening:
    """A stdio server: the direct call and the bare HTTP front together, and the gateway."""

    @asynccontextmanager
    async def open_all() -> AsyncGenerator[Sides]:
        async with AsyncExitStack() as stack:
            direct = await stack.enter_async_context(stdio_limit())
            _, url = stack.enter_context(running(BARE))
            served = stack.enter_context(gateway(bus_entry(None, "modern")))
            others, left_out = await open_others(stack, 1, OTHERS_CALLS)
            yield Sides(
                raw=_together(direct, calls_round(url, [request(url, "echo", TEXT)], CALLS)),
                toolbus=calls_round(served.url, [served.call], CALLS),
                peers={DIRECT: lambda: sequential(direct), **others},
                left_out=left_out,
            )

    return open_all


def _together(direct: Call, bare: Round) -> Round:
    async def run() -> list[float]:
        return [sum(both) for both in zip(sorted(await sequential(direct)), await bare(), strict=True)]

    return run


def many_in_flight() -> Opening:
    """A stdio server with 32 calls in flight, without the gateway and through it."""

    @asynccontextmanager
    async def open_all() -> AsyncGenerator[Sides]:
        async with AsyncExitStack() as stack:
            direct = await stack.enter_async_context(stdio_limit())
            served = stack.enter_context(gateway(bus_entry(None, "modern")))
            others, left_out = await open_others(stack, IN_FLIGHT, IN_FLIGHT * OTHERS_EACH)
            yield Sides(
                raw=lambda: WORK(direct),
                toolbus=calls_round(served.url, [served.call] * IN_FLIGHT, IN_FLIGHT * EACH),
                peers={DIRECT: lambda: WORK(direct), **others},
                left_out=left_out,
            )

    return open_all


def http_behind(url: str) -> Opening:
    """An HTTP server, called directly and through the gateway."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with gateway(bus_entry(url, "modern")) as served:
            yield Sides(
                raw=calls_round(url, [request(url, "echo", TEXT)], CALLS),
                toolbus=calls_round(served.url, [served.call], CALLS),
            )

    return open_both


def cpu_per_call() -> Opening:
    """The CPU time of the HTTP front alone, and of a gateway in front of a stdio server, for each call."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with running(BARE) as (pid, url), gateway(bus_entry(None, "modern")) as served:
            yield Sides(
                raw=single(lambda: _cpu(pid, url, request(url, "echo", TEXT))),
                toolbus=single(lambda: _cpu(served.pid, served.url, served.call)),
            )

    return open_both


async def _cpu(pid: int, url: str, call: bytes) -> float:
    calls = IN_FLIGHT * EACH_FOR_CPU
    before = cpu_seconds(pid)
    await calls_round(url, [call] * IN_FLIGHT, calls)()
    return (cpu_seconds(pid) - before) / calls


def idle_servers(count: int) -> Opening:
    """The memory of a gateway with one stdio server, and with that many."""
    return alone(once(lambda: _idle(1), lambda: _idle(count)))


async def _idle(count: int) -> float:
    """Bytes of a gateway whose servers are all up, and that nobody calls."""
    with gateway(bus_entry(None, "modern"), count) as served:  # it says that it listens once they are up
        return float(memory(served.pid))


def sessions(count: int) -> Opening:
    """The memory of a gateway with one session, and with that many more that are idle."""
    return alone(once(lambda: _held(1), lambda: _held(1 + count)))


async def _held(count: int) -> float:
    """Bytes of a gateway with that many legacy clients, each with a stream that it listens to."""
    with gateway(bus_entry(None, "modern")) as served:
        async with AsyncExitStack() as stack:
            for _ in range(count):
                # Each in turn: the gateway closes connections that wait too long with their first request.
                [lane] = await stack.enter_async_context(lanes(served.url, 1))
                await _become_idle(lane, served)
            return float(memory(served.pid))


async def _become_idle(lane: Lane, served: Served) -> None:
    """Open a session, list the tools, call one, and listen."""
    headers = await legacy_session(lane, served.url, served.key)
    for message in (
        {"id": 1, "method": "tools/list"},
        {"id": 2, "method": "tools/call", "params": {"name": "bench_echo", "arguments": TEXT}},
    ):
        await lane.call(posted(served.url, message, headers, served.key))
    stream, _ = await lane.exchange(head("GET", served.url, "text/event-stream", headers, served.key))
    assert stream.startswith(b"HTTP/1.1 200"), stream
