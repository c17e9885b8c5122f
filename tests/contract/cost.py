"""The cost of the fast paths, counted and not timed: `python -m tests.contract.cost`.

It prints what each piece of work costs now and lowers the limits in cost.json that are too high.
`tests/contract/meter.py` explains the counts. Limits only go down. If a feature is worth more than it
costs, raise its limits by hand, and give the reason in the commit. `--json` prints the counts and changes
nothing.

Each piece of work is repeated with the garbage collector off. Nearly all repetitions count the same calls.
Those with more are left out, because a timer fired meanwhile, or a response arrived in two parts. The clock
that toolbus reads is stopped, because it pauses long work after some time.
"""

import asyncio
import gc
import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import repeat
from pathlib import Path
from statistics import mode
from tempfile import TemporaryDirectory
from threading import Thread, main_thread
from types import FrameType
from typing import TypeAlias

from bench.http_load import request
from bench.sides import Era, bench_bus, bus_entry, http_server
from tests.contract.meter import Cost, Meter
from tests.patience import PATIENCE

LIMITS = Path(__file__).with_name("cost.json")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
CALLS_MORE = 0.4
"""The number of calls allowed beyond the limit: less than one, because a listed tool's cost is an average."""
BYTES_MORE = 1.01
"""The factor by which bytes may exceed the limit; two counts differ by up to 0.5 %."""
LESS = 0.98
"""Below this part of a limit, the limit is too high."""
MANY, FEW, WARM = 120, 16, 2
"""The repetitions for something small and something large, and the number of first ones to ignore.

On a busy machine, only a few repetitions take the fewest bytes.
"""
TOOLS = 200
MIB = 2**20
URL = re.compile(r"http://([\d.]+):(\d+)/mcp")

Costs: TypeAlias = dict[str, Cost]


def counted() -> Costs:
    """The cost of every piece of work."""
    gc.disable()
    time.perf_counter = repeat(0.0).__next__
    with http_server() as url:
        costs = {
            "call over stdio": asyncio.run(called(None)),
            "call over stdio, legacy": asyncio.run(called(None, "legacy")),
            "call over HTTP": asyncio.run(called(url)),
            "call over HTTP, legacy": asyncio.run(called(url, "legacy")),
            "1 MiB result over stdio": asyncio.run(called(None, size=MIB)),
            "1 MiB result over HTTP": asyncio.run(called(url, size=MIB)),
            "listed tool": asyncio.run(listed()),
        }
    return costs | {"call through the gateway": through_gateway()}


def typical(costs: Sequence[Cost]) -> Cost:
    """The usual number of calls, and the fewest bytes that such a piece of work takes."""
    calls = mode(cost.calls for cost in costs)
    return Cost(calls, min(cost.bytes for cost in costs if cost.calls == calls))


async def metered(work: Callable[[], Awaitable[object]], times: int) -> Cost:
    """The cost of a piece of work, repeated `times` times."""
    meter, costs = Meter(), list[Cost]()
    await work()
    meter.start()
    try:
        for _ in range(times):
            before = meter.cost
            await work()
            costs.append(meter.cost.since(before))
    finally:
        meter.stop()
    return typical(costs[WARM:])


async def called(url: str | None, era: Era = "modern", *, size: int = 0) -> Cost:
    """A call; or one with a result of that size."""
    async with bench_bus(url, era) as bus:
        assert bus.servers["bench"].era == era
        if size:
            return await metered(lambda: bus.call("bench_big", {"text": str(size)}), FEW)
        return await metered(lambda: bus.call("bench_echo", {"text": "hello"}), MANY)


async def listed() -> Cost:
    """A tool, from the server's list to the catalog: the difference that 200 tools make, divided by 200."""
    costs = list[Cost]()
    for tools in (10, 10 + TOOLS):
        with http_server(tools) as url:

            async def start(url: str = url, tools: int = tools) -> None:
                async with bench_bus(url, "modern") as bus:
                    assert len(bus.catalog) == tools

            costs.append(await metered(start, FEW))
    few, many = costs
    return many.since(few, TOOLS)


# The gateway


def through_gateway() -> Cost:
    """A call of a client with a key, in `toolbus serve` over HTTP, to a server over stdio.

    It is served in this thread, and the client is another thread that allocates nothing.
    """
    meter, found = Meter(), list[Cost]()

    def measure(call: Callable[[], None]) -> None:
        before = meter.cost
        call()
        found.append(meter.cost.since(before))

    run_gateway(meter.start, measure)
    meter.stop()
    return typical(found[WARM:])


def run_gateway(start: Callable[[], None], measure: Callable[[Callable[[], None]], None]) -> None:
    """Serve calls in this thread: one, then `start`, and then each one within `measure`."""
    signal.signal(signal.SIGUSR1, lambda number, frame: start())
    with TemporaryDirectory(prefix="cost-") as folder:
        os.environ |= {"XDG_STATE_HOME": folder, "TOOLBUS_TRUST": "1"}
        config, log = Path(folder) / "toolbus.json", Path(folder) / "log"
        settings = {"servers": {"bench": bus_entry(None, "modern")}, "serve": {"auth": {"keys": True}}}
        config.write_text(json.dumps(settings))
        words = ["--config", str(config)]
        command = [sys.executable, "-m", "toolbus", "key", "add", "me", "--json", *words]
        key = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["key"]
        client = Thread(target=load, args=(log, key, measure))
        client.start()
        serve(["toolbus", "serve", "--http", "127.0.0.1:0", *words], log)
        client.join(PATIENCE)


def serve(words: list[str], log: Path) -> None:
    """Run the program in this thread until SIGTERM, with its output in a file."""
    sys.argv = words
    with log.open("w") as file, redirect_stdout(file), redirect_stderr(file), suppress(SystemExit):
        runpy.run_module("toolbus", run_name="__main__")


def load(log: Path, key: str, measure: Callable[[Callable[[], None]], None]) -> None:
    """Call the gateway in batches, measure each call, and end the gateway."""
    try:
        url = listening(log)
        request_bytes = request(url[0], "bench_echo", {"text": "hello"}, key)
        with socket.create_connection((url[1], int(url[2])), PATIENCE) as connection:
            connection.sendall(request_bytes)
            response = connection.recv(MIB)
            assert b'"text":"hello"' in response, response

            def call() -> None:
                exchange(connection, request_bytes, buffer)
                settle()

            os.kill(os.getpid(), signal.SIGUSR1)
            settle()
            buffer = bytearray(len(response))
            for _ in range(MANY):
                measure(call)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def exchange(connection: socket.socket, call: bytes, response: bytearray) -> None:
    """Make a call; every response has the same length."""
    connection.sendall(call)
    received = 0
    while received < len(response):
        received += connection.recv_into(memoryview(response)[received:])
    assert response.endswith(b"}"), response


def settle() -> None:
    """Wait until the loop of the gateway has nothing to do but wait."""
    while not is_waiting(sys._current_frames()[main_thread().ident or 0]):  # pyright: ignore[reportPrivateUsage]  # documented
        time.sleep(0.001)


def is_waiting(frame: FrameType) -> bool:
    """Whether a loop waits in `selectors`; while callbacks are due, it waits for 0 seconds."""
    return frame.f_code.co_name == "select" and frame.f_locals.get("timeout") != 0


def listening(log: Path) -> re.Match[str]:
    """The URL that the gateway prints once it listens."""
    deadline = time.monotonic() + PATIENCE
    while (url := URL.search(log.read_text() if log.exists() else "")) is None:
        assert time.monotonic() < deadline, "the gateway did not start"
        time.sleep(0.01)
    return url


# Limits


def problems(costs: Costs, limits: Costs, *, same_python: bool) -> list[str]:
    """The problems of the costs, or of the limits; bytes are compared with the same Python only."""
    found = [f"{work}: it has no limit, or is not counted" for work in costs.keys() ^ limits.keys()]
    for work in costs.keys() & limits.keys():
        cost, limit = costs[work], limits[work]
        if cost.calls > limit.calls + CALLS_MORE:
            found.append(f"{work}: {cost.calls:,g} calls, at most {limit.calls:,g} are allowed")
        if same_python and cost.bytes > limit.bytes * BYTES_MORE:
            found.append(f"{work}: {cost.bytes:,.0f} bytes, at most {limit.bytes:,.0f} are allowed")
        if same_python and (cost.calls < limit.calls * LESS or cost.bytes < limit.bytes * LESS):
            found.append(f"{work}: it costs less now; lower the limit: python -m tests.contract.cost")
    return sorted(found)


def read_limits() -> tuple[str, Costs]:
    """The version of Python that they are for, and the limits."""
    written = json.loads(LIMITS.read_text())
    return written["python"], {work: Cost(**limit) for work, limit in written["limits"].items()}


def lower_limits(costs: Costs) -> None:
    """Lower the limits on calls to the counts, and those on bytes only if they are much too high."""
    python, limits = read_limits()
    if python != PYTHON:
        sys.exit(f"the limits are for Python {python}, and this is {PYTHON}")
    for work, cost in costs.items():
        old = limits.get(work, cost)
        size = cost.bytes if cost.bytes < old.bytes * LESS else old.bytes
        limits[work] = Cost(min(old.calls, cost.calls), size)
    written = {
        work: {"calls": round(limit.calls, 1), "bytes": round(limit.bytes)} for work, limit in limits.items()
    }
    LIMITS.write_text(json.dumps({"python": python, "limits": written}, indent=2) + "\n")


def main() -> None:
    """Print the counts, and lower the limits unless JSON is asked for."""
    is_json = sys.argv[1:] == ["--json"]  # before the gateway has a command line of its own
    costs = counted()
    if is_json:
        print(json.dumps({work: cost._asdict() for work, cost in costs.items()}))
        return
    for work, cost in costs.items():
        print(f"{work:28} {cost.calls:6,g} calls {cost.bytes:12,.0f} bytes")
    lower_limits(costs)


if __name__ == "__main__":
    main()
