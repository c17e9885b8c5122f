"""A program that forks while its bus runs: `python forking.py HOW CONFIG_JSON`.

The fork tries to use the bus in every way, drops it, and ends as a program does. Then the parent goes on.
It prints what came of each as JSON, a line from each process. A fork that hangs is ended by an alarm.
"""

import asyncio
import gc
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from toolbus import Toolbus
from toolbus.sync import SyncToolbus

SECONDS = 60


def outcome(use: Callable[[], Any]) -> str:
    """The result of a use as text, or its error."""
    try:
        return str(use())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def awaited(use: Callable[[], Awaitable[Any]]) -> str:
    """The same, of an asynchronous use."""
    try:
        return str(await use())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def executed(bus: Toolbus) -> str:
    """The text of a tool's result, which never raises."""
    return (await bus.tools()[0].execute(text="x")).text


async def tried(bus: Toolbus, stream: Any) -> dict[str, str]:
    """All uses of a bus that could wait."""
    uses: dict[str, Callable[[], Awaitable[Any]]] = {
        "call": lambda: bus.call("a_echo", {"text": "x"}),
        "unknown": lambda: bus.call("nothing"),
        "execute": lambda: executed(bus),
        "view": lambda: bus.view(servers="a").call("a_echo"),
        "health": bus.health,
        "wait_ready": bus.wait_ready,
        "connect": lambda: bus.connect("a"),
        "add_server": lambda: bus.add_server("b", {"command": "true"}),
        "events": lambda: anext(bus.events()),
        "stream": lambda: anext(stream),
        "start": bus.start,
    }
    found = {name: await awaited(use) for name, use in uses.items()}
    found["execute_sync"] = outcome(lambda: bus.tools()[0].execute_sync(text="x").text)
    found["stop"] = await awaited(bus.stop)
    return found


def tried_sync(bus: SyncToolbus) -> dict[str, str]:
    """All uses of a synchronous bus that could wait."""
    uses: dict[str, Callable[[], Any]] = {
        "call": lambda: bus.call("a_echo", {"text": "x"}),
        "execute": lambda: bus.tools()[0].execute(text="x").text,
        "health": bus.health,
        "start": bus.start,
        "stop": bus.stop,
        "after": lambda: bus.call("a_echo"),
    }
    return {name: outcome(use) for name, use in uses.items()}


def show(found: dict[str, str]) -> None:
    print(json.dumps(found), flush=True)


async def in_a_loop(config: Any) -> None:
    async with Toolbus(config) as bus:
        stream = bus.events()
        if (child := os.fork()) == 0:
            signal.alarm(SECONDS)
            show(await tried(bus, stream))
            del bus, stream
            gc.collect()
            os._exit(0)
        os.waitpid(child, 0)  # noqa: ASYNC222 - the loop must not run meanwhile
        show(await still(bus))


async def in_a_new_loop(config: Any) -> None:
    async with Toolbus(config) as bus:
        stream = bus.events()
        if (child := os.fork()) == 0:
            signal.alarm(SECONDS)
            asyncio.run(_shown(bus, stream))
            sys.exit(0)  # through the finalizers of everything
        os.waitpid(child, 0)  # noqa: ASYNC222 - the loop must not run meanwhile
        show(await still(bus))


async def _shown(bus: Toolbus, stream: Any) -> None:
    show(await tried(bus, stream))


async def still(bus: Toolbus) -> dict[str, str]:
    """Whether the parent can go on: over the connection that it has."""
    text = (await bus.call("a_echo", {"text": "still"})).text
    assert bus.servers["a"].restarts == 0
    return {"call": text, "state": bus.servers["a"].state}


def in_a_script(config: Any) -> None:
    with SyncToolbus(config) as bus:
        if (child := os.fork()) == 0:
            signal.alarm(SECONDS)
            show(tried_sync(bus))
            sys.exit(0)
        os.waitpid(child, 0)
        show({"call": bus.call("a_echo", {"text": "still"}).text, "state": bus.servers["a"].state})


def in_a_pool(config: Any) -> None:
    with SyncToolbus(config) as bus:

        def work() -> None:
            signal.alarm(SECONDS)
            show(tried_sync(bus))

        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()
        show({"call": bus.call("a_echo", {"text": "still"}).text, "state": bus.servers["a"].state})


def with_its_own(config: Any) -> None:
    """The fork starts a bus of its own, and is killed."""
    with SyncToolbus(config) as bus:
        if (child := os.fork()) == 0:
            own = SyncToolbus(config)
            own.start()
            show({"call": own.call("a_echo", {"text": "mine"}).text})
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        show({"call": bus.call("a_echo", {"text": "still"}).text, "state": bus.servers["a"].state})


if __name__ == "__main__":
    how, config = sys.argv[1], json.loads(sys.argv[2])
    match how:
        case "in a loop":
            asyncio.run(in_a_loop(config))
        case "in a new loop":
            asyncio.run(in_a_new_loop(config))
        case "in a script":
            in_a_script(config)
        case "in a pool":
            in_a_pool(config)
        case _:
            with_its_own(config)
