"""Servers that let us wait: no wait is without a bound."""

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import plain, sampled
from tests.hostile.test_processes import processes_of
from tests.patience import PATIENCE, until, wait_until
from tests.processes import alive
from tests.servers.raw_http import Request, raw_server, response
from toolbus import BusClosed, CallTimeout, ConnectionLost, Toolbus, ToolbusError
from toolbus.events import Event, EventStream, StateChanged
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
CLOSE = {"close": 0.5}
REFERENCE = {"KEY": "${SECRET}"}
URL = "http://127.0.0.1:9/mcp"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
LARGE = {"text": "x" * 1_000_000}
SIZES = {"small": {"text": "x"}, "large": LARGE}
DEAF = [(how, size) for size in SIZES for how in ("stops reading", "talks on")]


def deaf(how: str, **more: Any) -> dict[str, Any]:
    """A server entry: it stops reading after a call of `stop`."""
    return {"command": sys.executable, "args": [str(HERE / "deaf.py"), how], "era": "legacy", **more}


async def until_ready(events: EventStream[Event]) -> None:
    async for event in events:
        if isinstance(event, StateChanged) and event.state == "ready":
            return


async def test_a_server_that_closes_its_input() -> None:
    """It is noticed at once, and the server is started again."""
    async with asyncio.timeout(PATIENCE), Toolbus({"servers": {"a": deaf("closes its input")}}) as bus:
        events = bus.events()
        first = (await bus.call("a_stop")).text
        await until_ready(events)
        assert (await bus.call("a_echo", LARGE)).text != first
        await until(lambda: not alive(int(first)))
        assert bus.servers["a"].restarts == 1


@pytest.mark.parametrize(
    "way", sampled(DEAF, ("stops reading", "large"), ("talks on", "small")), ids="-".join
)
async def test_a_server_that_no_longer_reads(way: tuple[str, str]) -> None:
    """Calls end in time, nothing piles up, and the server is started again."""
    how, arguments = way[0], SIZES[way[1]]
    entry = deaf(how, timeouts={"call": 1.0, "reconnect": PATIENCE})
    async with asyncio.timeout(PATIENCE), Toolbus({"servers": {"a": entry}}) as bus:
        events = bus.events()
        first = (await bus.call("a_stop")).text
        with pytest.raises(CallTimeout):
            await bus.call("a_echo", arguments, timeout=0.3)
        await until_ready(events)
        assert (await bus.call("a_echo", arguments, timeout=PATIENCE)).text != first
        await until(lambda: not alive(int(first)))
        assert bus.servers["a"].restarts == 1


async def test_calls_to_a_server_that_no_longer_reads() -> None:
    """Those that were not sent are not queued, and are sent to the server that is started again."""
    entry = deaf("stops reading", timeouts={"call": 1.0, "reconnect": PATIENCE})
    async with asyncio.timeout(PATIENCE), Toolbus({"servers": {"a": entry}}) as bus:
        first = (await bus.call("a_stop")).text
        stuck = asyncio.create_task(bus.call("a_echo", LARGE, timeout=1.0))
        later = [asyncio.create_task(bus.call("a_echo", LARGE, timeout=PATIENCE)) for _ in range(10)]
        with pytest.raises((CallTimeout, ConnectionLost)):
            await stuck
        answers = {(await call).text for call in later}
        assert len(answers) == 1
        assert first not in answers


async def stop(bus: Toolbus) -> None:
    """Stop it; a stop that does not end is noticed, even on a busy machine."""
    async with asyncio.timeout(PATIENCE):
        await bus.stop()
    assert {status.state for status in bus.servers.values()} == {"closed"}


@pytest.mark.parametrize("how", ["stops reading", "talks on"])
async def test_a_stop_while_more_is_queued_than_the_server_reads(how: str) -> None:
    """It ends, and so do the calls."""
    bus = Toolbus({"servers": {"a": deaf(how, timeouts=CLOSE)}})
    await bus.start()
    server = int((await bus.call("a_stop")).text)
    calls = [asyncio.create_task(bus.call("a_echo", LARGE, timeout=PATIENCE)) for _ in range(5)]
    await asyncio.sleep(0)
    await stop(bus)
    for call in calls:
        with pytest.raises(ToolbusError):
            await call
    await until(lambda: not alive(server))


async def test_a_stop_while_descendants_hold_the_pipes() -> None:
    """It ends them."""
    bus = Toolbus({"servers": {"a": plain("stay", "leave_child", timeouts=CLOSE)}})
    await bus.start()
    child = int((await bus.call("a_echo")).text)
    await stop(bus)
    await until(lambda: not alive(child))


@pytest.mark.parametrize("entry", [{"command": "true", "env": REFERENCE}, {"url": URL, "headers": REFERENCE}])
async def test_a_stop_while_a_secret_is_never_resolved(entry: dict[str, Any]) -> None:
    """It ends, even if the lookup ignores that it is cancelled."""
    asked, released = asyncio.Event(), asyncio.Event()

    async def get_secret(name: str) -> str:
        asked.set()
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()
        return "s3cret-1"

    bus = Toolbus({"servers": {"a": {**entry, "timeouts": CLOSE}}}, get_secret=get_secret)
    starting = asyncio.create_task(bus.start())
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
        await stop(bus)
        await asyncio.wait({starting})
    released.set()


async def test_a_stop_while_a_web_server_answers_nothing() -> None:
    """It ends: the call, the stream and the end of the session are abandoned."""
    never, called = asyncio.Event(), asyncio.Event()
    async with raw_server() as server:

        async def send(writer: asyncio.StreamWriter, request: Request) -> None:
            if request.line.startswith("GET"):
                writer.write(STREAM)
                await writer.drain()
            if request.method == "tools/call":
                called.set()
            if request.method == "tools/call" or not request.line.startswith("POST"):
                await never.wait()
            elif "id" in request.message:
                writer.write(response(request.answer, "mcp-session-id: s1"))
            else:
                writer.write(response(b"", status="202 Accepted"))

        server.send = server.send_other = send
        bus = Toolbus({"servers": {"a": {"url": server.url, "era": "legacy", "timeouts": CLOSE}}})
        await bus.start()
        call = asyncio.create_task(bus.call("a_look"))
        async with asyncio.timeout(PATIENCE):
            await called.wait()
        await stop(bus)
        with pytest.raises(ToolbusError):
            await call
        assert server.requests[-1].line.startswith("DELETE")
        never.set()


def test_a_stop_of_a_synchronous_bus_while_a_secret_is_never_resolved(tmp_path: Path) -> None:
    """It ends."""
    entry = {"command": "true", "env": {"KEY": f"${{cmd:tail -f {tmp_path}/nothing}}"}, "timeouts": CLOSE}
    (tmp_path / "nothing").touch()
    bus = SyncToolbus({"servers": {"a": entry}})

    def start() -> None:
        with suppress(BusClosed):
            bus.start()

    starting = threading.Thread(target=start)
    starting.start()
    wait_until(lambda: bool(processes_of(tmp_path)))
    bus.stop()
    assert bus.servers["a"].state == "closed"
    starting.join(PATIENCE)
    assert not starting.is_alive()
    for process in processes_of(tmp_path):
        os.kill(process, signal.SIGKILL)
