"""Any bytes on any wire: a call ends, nothing foreign is raised, and the next call works."""

import asyncio
import base64
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import example, given

from tests.conftest import sampled
from tests.hostile.strategies import EVENTS, RESPONSES, WRITTEN
from tests.hostile.wire_cases import HTTP, TEXTS
from tests.hostile.wires import HostileHttp, Kind, hostile_http, modern, nothing_unhandled, response
from tests.patience import PATIENCE
from tests.properties import modest
from toolbus import Toolbus, ToolbusError, ToolResult

SERVER = str(Path(__file__).with_name("wires.py"))
TIMEOUT = 2.0
"""Seconds for a call whose answer may never come."""


@pytest.fixture(scope="module")
def runner() -> Generator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


SOME = ("nothing", "a body cut short", "an odd challenge", "bytes that are not gzip", "a page", "an upgrade")


@asynccontextmanager
async def attacked(kind: Kind) -> AsyncGenerator[tuple[HostileHttp, Toolbus]]:
    async with hostile_http(kind) as server:
        transport = "sse" if kind == "sse" else "streamable-http"
        limits = {"values": 10_000, "message": 1_000_000}
        entry = {"url": server.url, "transport": transport, "era": "legacy", "limits": limits}
        async with Toolbus({"servers": {"a": entry}}) as bus:
            yield server, bus


async def survives(bus: Toolbus, **arguments: str) -> ToolResult | ToolbusError:
    """The outcome of a call under attack; then the next one works."""
    try:
        outcome: ToolResult | ToolbusError = await bus.call("a_look", arguments, timeout=TIMEOUT)
    except ToolbusError as error:
        outcome = error
    assert (await bus.call("a_plain", timeout=PATIENCE)).text == "seen"
    return outcome


async def attack(kind: Kind, data: bytes) -> None:
    with nothing_unhandled():
        async with asyncio.timeout(PATIENCE), attacked(kind) as (server, bus):
            server.attack = data
            await survives(bus)


def as_event(data: bytes) -> bytes:
    return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"


@pytest.mark.parametrize("name", HTTP)
def test_a_response_with(name: str, runner: asyncio.Runner) -> None:
    """The call ends with a result or an error of ours, and the next call works."""
    runner.run(attack("post", HTTP[name]))


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("wire", sampled(["json", "events", "session", "sse"], "json", "sse"))
def test_a_message_over_http_with(wire: str, name: str, runner: asyncio.Runner) -> None:
    """The call ends with a result or an error of ours, and the next call works."""
    data = TEXTS[name]
    match wire:
        case "json":
            runner.run(attack("post", response(data)))
        case "events":
            runner.run(attack("post", response(as_event(data), kind="text/event-stream")))
        case _:
            runner.run(attack("sse" if wire == "sse" else "session", as_event(data)))


async def attack_modern(data: bytes) -> None:
    with nothing_unhandled():
        async with asyncio.timeout(PATIENCE), hostile_http("post") as server:
            server.results = modern(server.results)
            async with Toolbus({"servers": {"a": {"url": server.url, "era": "modern"}}}) as bus:
                server.attack = data
                await survives(bus)


@pytest.mark.parametrize("name", sampled([*HTTP, *TEXTS], *SOME, *list(TEXTS)[::3]))
def test_a_response_in_the_modern_era_with(name: str, runner: asyncio.Runner) -> None:
    """The call ends with a result or an error of ours, and the next call works."""
    runner.run(attack_modern(HTTP[name] if name in HTTP else response(TEXTS[name])))


async def attack_start(method: str, data: bytes) -> None:
    entry = {"era": "auto" if method == "server/discover" else "legacy", "timeouts": {"reconnect": 2}}
    with nothing_unhandled():
        async with asyncio.timeout(PATIENCE), hostile_http("session") as server:
            server.odd, server.attack, server.kind = method, data, "post"
            async with Toolbus({"servers": {"a": {"url": server.url, **entry}}}) as bus:
                server.odd = ""
                try:
                    assert (await bus.call("a_plain", timeout=PATIENCE)).text == "seen"
                except ToolbusError:
                    assert bus.servers["a"].state != "ready" or not bus.catalog.names


STARTS = [
    *(("initialize", name) for name in HTTP),
    *(("tools/list", name) for name in (*SOME, *TEXTS)),
    *(("server/discover", name) for name in SOME),
    *(("notifications/initialized", name) for name in SOME),
]
# Every method, and of the responses, which a call meets in all tests above, some of each kind: connection,
# headers, body, encoding, events and messages.
SOME_STARTS = [
    *(("initialize", name) for name in (*SOME, "an event id that is no text", "an error that is too deep")),
    *(("tools/list", name) for name in ("a body cut short", "a deep result", "a lone surrogate")),
    ("server/discover", "an odd challenge"),
    ("notifications/initialized", "a body cut short"),
]


@pytest.mark.parametrize("start", sampled(STARTS, *SOME_STARTS), ids="-".join)
def test_a_start_with(start: tuple[str, str], runner: asyncio.Runner) -> None:
    """The server works, or reports that it does not."""
    method, name = start
    runner.run(attack_start(method, HTTP[name] if name in HTTP else response(TEXTS[name])))


@modest
@given(RESPONSES)
@example(HTTP["gzip cut short"])
def test_any_response(runner: asyncio.Runner, data: bytes) -> None:
    """A call over HTTP ends with any bytes as its response, and the next call works."""
    runner.run(attack("post", data))
    runner.run(attack_modern(data))


@modest
@given(EVENTS)
@example(b"event: endpoint\ndata: http://other/\n\n")
@example(b"id: \xff\nretry: 999999999\ndata\n\n")
def test_any_events(runner: asyncio.Runner, data: bytes) -> None:
    """A call ends with any bytes on an event stream, and the next call works."""
    runner.run(attack("sse", data))
    runner.run(attack("session", data))
    runner.run(attack("post", response(data, kind="text/event-stream")))


@asynccontextmanager
async def attacked_process() -> AsyncGenerator[Toolbus]:
    limits = {"values": 10_000, "message": 100_000}
    entry = {"command": sys.executable, "args": [SERVER], "era": "legacy", "limits": limits}
    async with Toolbus({"servers": {"a": entry}}) as bus:
        yield bus


@pytest.fixture(scope="module")
def process(runner: asyncio.Runner) -> Generator[Toolbus]:
    opened = attacked_process()
    bus = runner.run(opened.__aenter__())
    yield bus
    runner.run(opened.__aexit__(None, None, None))


def attack_process(runner: asyncio.Runner, bus: Toolbus, data: bytes) -> None:
    with nothing_unhandled():
        runner.run(survives(bus, raw=base64.b64encode(data).decode()))
    assert (bus.servers["a"].state, bus.servers["a"].restarts) == ("ready", 0)


@pytest.mark.parametrize("name", TEXTS)
def test_a_line_with(name: str, runner: asyncio.Runner, process: Toolbus) -> None:
    """The call ends with a result or an error of ours, and the connection stays."""
    attack_process(runner, process, TEXTS[name])


@modest
@given(WRITTEN)
@example(b"\xff\xfe\n\n\r\n\0")
@example(b"x" * 200_000)
def test_any_line(runner: asyncio.Runner, process: Toolbus, data: bytes) -> None:
    """A call ends with any bytes on a program's standard output, and the connection stays."""
    attack_process(runner, process, data)
