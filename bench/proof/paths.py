"""The paths that a call can take through toolbus, each over a benchmark's servers as real processes."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias, cast

from mcp import Client

from bench.processes import running
from bench.proof.servers import PATIENCE, Benchmark, Controls, controls
from bench.proof.traces import Answer, GoldCall, PathOutcome, Task, TaskOutcome, TaskTurn
from toolbus import Toolbus, ToolResult

Turns: TypeAlias = Callable[[TaskTurn], Awaitable[list[Answer]]]
"""Makes the calls of a turn."""
Names: TypeAlias = Callable[[], Awaitable[set[str]]]
"""The names of the tools that the path lists now."""
Late: TypeAlias = tuple[str, str]
"""A server, and one of its tools that is missing at first."""
Ways: TypeAlias = tuple[Turns, Names]
CallPath: TypeAlias = Callable[[Benchmark, Controls], AbstractAsyncContextManager[Ways]]
TOOLBUS = Path(sys.executable).with_name("toolbus")
CALLS = 1000
"""The most calls of a script; a turn of a benchmark has fewer."""
WHOLE = 10_000_000
"""Tokens that a script may return."""


@asynccontextmanager
async def opened_bus(benchmark: Benchmark, held: Controls) -> AsyncGenerator[Toolbus]:
    """A bus with the benchmark's servers."""
    async with Toolbus(config(benchmark, held)) as bus:
        yield bus


def config(benchmark: Benchmark, held: Controls) -> dict[str, Any]:
    """The config of a bus or a gateway in front of the benchmark's servers; no result is cut."""
    servers = {name: benchmark.entry(name, held.path(name)) for name in benchmark.servers}
    return {"servers": servers, "budget": False, "code": {"calls": CALLS, "output": WHOLE}}


@asynccontextmanager
async def library(benchmark: Benchmark, held: Controls) -> AsyncGenerator[Ways]:
    """`bus.call`."""
    async with opened_bus(benchmark, held) as bus:

        async def call(one: GoldCall) -> Answer:
            return _answer(await bus.call(one.name, one.arguments))

        yield _one_by_one(call), _names(bus)


@asynccontextmanager
async def search(benchmark: Benchmark, held: Controls) -> AsyncGenerator[Ways]:
    """`call_tool`, which a model gets in the mode `search`."""
    async with opened_bus(benchmark, held) as bus:
        call_tool = bus.view(expose="search").tool("call_tool")

        async def call(one: GoldCall) -> Answer:
            return _answer(await call_tool.execute(name=one.name, arguments=one.arguments))

        yield _one_by_one(call), _names(bus)


@asynccontextmanager
async def scripts(benchmark: Benchmark, held: Controls) -> AsyncGenerator[Ways]:
    """One script for each turn, with `run_code`, which a model gets in the mode `code`."""
    async with opened_bus(benchmark, held) as bus:
        run_code = bus.view(expose="code").tool("run_code")

        async def turn(one: TaskTurn) -> list[Answer]:
            result = await run_code.execute(script=script(one.calls))
            if result.is_error:
                return [(result.text, True)]
            values = cast("list[tuple[Any, bool]]", cast("dict[str, Any]", result.structured)["value"])
            return [(one if isinstance(one, str) else json.dumps(one), failed) for one, failed in values]

        yield turn, _names(bus)


def script(calls: Sequence[GoldCall]) -> str:
    """The calls as lines of Python; its result is a list of their results."""
    lines = ["results = []"]
    for call in calls:
        given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        lines += [
            "try:",
            f"    results.append([await {call.name}({given}), False])",
            "except RuntimeError as error:",
            "    results.append([str(error), True])",
        ]
    return "\n".join([*lines, "results"])


def gateway(era: Literal["modern", "legacy"]) -> CallPath:
    """`toolbus serve` over HTTP, called by the SDK's own client in one era of the protocol."""
    mode = "legacy" if era == "legacy" else "2026-07-28"

    @asynccontextmanager
    async def opened(benchmark: Benchmark, held: Controls) -> AsyncGenerator[Ways]:
        async with served(config(benchmark, held)) as url, Client(url, mode=mode) as client:

            async def call(one: GoldCall) -> Answer:
                result = await client.call_tool(one.name, dict(one.arguments))
                [block] = result.content
                assert block.type == "text"
                return block.text, result.is_error

            async def names() -> set[str]:
                listed = await client.list_tools(cache_mode="refresh")
                return {tool.name for tool in listed.tools}

            yield _one_by_one(call), names

    return opened


PATHS: Mapping[str, CallPath] = {
    "library": library,
    "gateway, modern client": gateway("modern"),
    "gateway, legacy client": gateway("legacy"),
    "`call_tool`": search,
    "scripts": scripts,
}


async def replay(
    name: str, benchmark: Benchmark, tasks: Sequence[Task], expected: Mapping[str, TaskOutcome]
) -> PathOutcome:
    """Make the calls of all tasks on a path, one after another, and compare with the direct calls."""
    counted = PathOutcome()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="proof-"))
        held = await stack.enter_async_context(controls(Path(folder)))
        turns, names = await stack.enter_async_context(PATHS[name](benchmark, held))
        for task in tasks:
            counted.add(task, expected[task.id], await _outcome(task, held, turns, names))
    return counted


async def _outcome(task: Task, held: Controls, turns: Turns, names: Names) -> TaskOutcome:
    await held.begin(task)
    late = set(task.late)
    missing = late
    if late:
        await _show(held, names, late, missing)
    results: list[Answer] = []
    for turn in task.turns:
        if turn.appearing:
            missing = missing - set(turn.appearing)
            await _show(held, names, late, missing)
        if turn.calls:
            results += await turns(turn)
    return TaskOutcome(results=results, states=await held.states(task))


async def _show(held: Controls, names: Names, late: set[Late], missing: set[Late]) -> None:
    """Hide the missing tools, and wait until the path lists only the others."""
    for server in {server for server, _ in late}:
        await held.order(server, {"hide": [tool for owner, tool in missing if owner == server]})
    absent = {f"{server}_{tool}" for server, tool in missing}
    present = {f"{server}_{tool}" for server, tool in late} - absent
    until = time.monotonic() + PATIENCE
    while (listed := await names()) & absent or present - listed:
        if time.monotonic() > until:
            raise TimeoutError(f"the list did not change: {sorted(absent)} hidden, {sorted(present)} shown")
        await asyncio.sleep(0.002)


@asynccontextmanager
async def served(settings: Mapping[str, Any]) -> AsyncGenerator[str]:
    """`toolbus serve` with a config, in a process of its own; gives its URL."""
    with TemporaryDirectory(prefix="proof-") as folder:
        file = Path(folder) / "toolbus.json"
        file.write_text(json.dumps(settings))
        env = {**os.environ, "XDG_STATE_HOME": folder, "TOOLBUS_TRUST": "1"}
        command = [str(TOOLBUS), "serve", "--http", "127.0.0.1:0", "--config", str(file)]
        with running(command, env=env) as (_, url):
            yield url


def _one_by_one(call: Callable[[GoldCall], Awaitable[Answer]]) -> Turns:
    async def turn(one: TaskTurn) -> list[Answer]:
        return [await call(gold) for gold in one.calls]

    return turn


def _names(bus: Toolbus) -> Names:
    async def names() -> set[str]:
        return set(bus.catalog.names)

    return names


def _answer(result: ToolResult) -> Answer:
    return result.text, result.is_error
