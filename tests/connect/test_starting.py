"""Many servers, slow servers, servers that we end ourselves: their starts, and the messages about them."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SERVERS, plain
from tests.inside.connect import FEWEST, PER_CORE
from toolbus import ConnectFailed, Toolbus

pytestmark = pytest.mark.anyio
SLOW = "if it starts slowly, as with a first download, raise timeouts.connect"
AT_ONCE = max(FEWEST, PER_CORE * len(os.sched_getaffinity(0)))

WORKING = """
import os, runpy, sys, time

def note(text):
    with open(LOG, "a") as file:
        file.write(f"{text} {time.monotonic()}\\n")

note("begin")
while time.process_time() < WORK:
    pass
note("end")
sys.argv = ["plain.py"]
runpy.run_path(PLAIN, run_name="__main__")
"""
EXITING = """
import pathlib, sys, time
started = pathlib.Path(LOG)
with started.open("a") as file:
    file.write(f"{time.monotonic()}\\n")
if len(started.read_text().split()) > 1:
    time.sleep(600)
time.sleep(FIRST)
sys.exit(3)
"""


def program(text: str, **names: Any) -> dict[str, Any]:
    """A server that runs this text, in which these names have values."""
    values = "\n".join(f"{name} = {value!r}" for name, value in names.items())
    return {"command": sys.executable, "args": ["-c", values + text]}


async def test_many_servers_start_in_turns_and_each_has_its_time_from_then_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = program(WORKING, LOG=str(log), WORK=0.5, PLAIN=str(SERVERS / "plain.py"))
    config = {"servers": {f"s{n}": server for n in range(24)}, "timeouts": {"connect": 5}}
    async with Toolbus(config) as bus:
        assert {status.state for status in bus.servers.values()} == {"ready"}

    events = sorted((float(at), what) for what, at in map(str.split, log.read_text().splitlines()))
    at_once = most = 0
    for _, what in events:
        at_once += 1 if what == "begin" else -1
        most = max(most, at_once)
    assert len(events) == 48
    assert most <= AT_ONCE


async def test_servers_that_hang_do_not_hold_up_the_others() -> None:
    hanging = {f"h{n}": {"command": "sleep", "args": ["600"]} for n in range(3 * FEWEST)}
    servers = {**hanging, "last": plain()}
    async with Toolbus({"servers": servers, "timeouts": {"connect": 60}}) as bus:
        await bus.wait_ready(["last"], timeout=60)
        states = {alias: status.state for alias, status in bus.servers.items()}
    assert states == {**dict.fromkeys(hanging, "connecting"), "last": "ready"}


async def test_a_bus_that_stops_does_not_wait_for_servers_that_have_yet_to_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = program(WORKING, LOG=str(log), WORK=60, PLAIN="")
    bus = Toolbus({"servers": {f"s{n}": server for n in range(3 * AT_ONCE)}})
    starting = asyncio.create_task(bus.start())
    while not log.exists():  # noqa: ASYNC110  # another process writes it
        await asyncio.sleep(0.01)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await bus.stop()
    assert log.read_text().count("begin") <= AT_ONCE


async def test_a_second_start_has_what_the_first_one_left_of_the_time(tmp_path: Path) -> None:
    log, first, connect = tmp_path / "log", 4.5, 5
    server = program(EXITING, LOG=str(log), FIRST=first)
    async with Toolbus({"servers": {"s": server}, "timeouts": {"connect": connect}}) as bus:
        ended = time.monotonic()
        error = bus.servers["s"].error
    begun = [float(at) for at in log.read_text().split()]
    # Two full times would be more than the two together, from when the first process ran.
    assert ended - begun[0] < first + connect
    assert error == (
        "server 's': handshake failed: the process ended with exit code 3; run the command by hand to see why"
    )


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        ("refuse_handshake", "handshake failed: no initialize here"),
        (
            "never_answer",
            f"handshake failed: timed out after 3 s: it did not answer, so toolbus ended it; {SLOW}",
        ),
    ],
)
async def test_a_server_is_not_blamed_for_an_end_that_was_ours(
    behaviour: str, problem: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    server = plain(behaviour, timeouts={"connect": 3}, env={"PLAIN_TRACE": str(trace)})
    async with Toolbus({"servers": {"s": server}}) as bus:
        failure = bus.failures["s"]
    assert isinstance(failure, ConnectFailed)
    assert (str(failure), failure.exit_code) == (f"server 's': {problem}", None)
    assert trace.read_text().count("server/discover") == 1, "it is not started again"
