"""The tokens that a model is sent in the modes `all`, `search` and `code`, if it makes the gold calls."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

from bench.proof.benchmarks import QUICK, opened_bfcl
from bench.proof.install import NotInstalled
from bench.proof.parts import Part, PartReport, table
from bench.proof.paths import config
from bench.proof.servers import Benchmark, controls
from bench.proof.traces import GoldCall, Task, TaskOutcome, TaskTurn
from bench.results import TOKENIZERS, counted
from toolbus import Toolbus
from toolbus.bus.view import View

Expose: TypeAlias = Literal["all", "search", "code"]
Events: TypeAlias = list[str | None]
"""The texts that join the conversation; None is a request, which sends all of them again."""
Tokens: TypeAlias = list[int]
"""By each tokenizer."""
MODES: Sequence[Expose] = ("all", "search", "code")
KIND = "base"
CATALOGS = {"all eight servers": True, "the servers of the task": False}


class Conversation:
    """What a model reads and writes in one mode, in the course of a task."""

    def __init__(self, mode: Expose, view: View) -> None:
        self._mode = mode
        self._view = view
        self._seen: set[str] = set()
        self.events: Events = []

    async def turn(self, turn: TaskTurn, results: Sequence[str]) -> None:
        """A message of the user, the calls, and the request that the model answers to the user."""
        self.events.append(turn.text)
        if self._mode != "all":
            await self._find({call.name for call in turn.calls}, turn.text)
        if self._mode == "code" and turn.calls:
            self._exchange("run_code", {"script": _script(turn.calls)}, "\n".join(results))
        elif self._mode != "code":
            for call, result in zip(turn.calls, results, strict=True):
                self._call(call, result)
        self.events.append(None)

    async def _find(self, names: set[str], text: str) -> None:
        """Search with the user's words, and again by name for tools that were not found."""
        for queries in ([text], sorted(names)):
            if names <= self._seen:
                return
            asked = queries if queries == [text] else sorted(names - self._seen)
            result = await self._view.tool("search_tools").execute(queries=asked)
            self._exchange("search_tools", {"queries": asked}, result.text)
            self._seen |= {name for name in names if name in result.text}

    def _call(self, call: GoldCall, result: str) -> None:
        if self._mode == "search":
            self._exchange("call_tool", {"name": call.name, "arguments": call.arguments}, result)
        else:
            self._exchange(call.name, call.arguments, result)

    def _exchange(self, name: str, arguments: Mapping[str, Any], result: str) -> None:
        self.events += [None, json.dumps({"name": name, "arguments": arguments}), result]


def run(quick: bool) -> PartReport:
    """Count all tasks of one kind."""
    if not TOKENIZERS.exists():
        return _missing("the tokenizers are not installed")
    try:
        benchmark = opened_bfcl()
    except NotInstalled as error:
        return _missing(str(error))
    tasks = [task for task in benchmark.tasks if task.kind == KIND]
    tasks = tasks[:: QUICK // 5] if quick else tasks
    sent = asyncio.run(_sent(benchmark, tasks, benchmark.direct(tasks)))
    return PartReport(text=_text(len(tasks), sent), document={"tasks": len(tasks), "sent": sent})


def _missing(reason: str) -> PartReport:
    return PartReport(text=f"not measured: {reason}", document={"not measured": reason})


async def _sent(
    benchmark: Benchmark, tasks: Sequence[Task], expected: Mapping[str, TaskOutcome]
) -> dict[str, dict[str, dict[str, Tokens]]]:
    """Tokens by catalog and mode: of all requests, and of the definitions in them."""
    found: dict[tuple[str, Expose], list[tuple[str, Events]]] = {}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="proof-"))
        held = await stack.enter_async_context(controls(Path(folder)))
        bus = await stack.enter_async_context(Toolbus(config(benchmark, held)))
        for catalog, whole in CATALOGS.items():
            for mode in MODES:
                found[catalog, mode] = [
                    await conversation(bus, mode, None if whole else list(task.scenarios), task, results)
                    for task, results in ((task, expected[task.id]) for task in tasks)
                ]
    conversations = [one for many in found.values() for one in many]
    tokens = _tokens(text for definitions, events in conversations for text in (definitions, *events) if text)
    sent: dict[str, dict[str, dict[str, Tokens]]] = {catalog: {} for catalog in CATALOGS}
    for (catalog, mode), many in found.items():
        sums = [added(tokens, definitions, events) for definitions, events in many]
        sent[catalog][mode] = {
            "all": [sum(one[0][kind] for one in sums) for kind in range(2)],
            "definitions": [sum(one[1][kind] for one in sums) for kind in range(2)],
        }
    return sent


async def conversation(
    bus: Toolbus, mode: Expose, servers: list[str] | None, task: Task, expected: TaskOutcome
) -> tuple[str, Events]:
    """The definitions in each request, and the events."""
    view = bus.view(servers=servers, expose=mode)
    definitions = json.dumps(
        [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in view.tools()
        ]
    )
    conversation, results = Conversation(mode, view), iter(text for text, _ in expected.results)
    for turn in task.turns:
        await conversation.turn(turn, [next(results) for _ in turn.calls])
    return definitions, conversation.events


def _script(calls: Sequence[GoldCall]) -> str:
    given = [", ".join(f"{name}={value!r}" for name, value in call.arguments.items()) for call in calls]
    return "\n".join(
        f"print(await {call.name}({arguments}))" for call, arguments in zip(calls, given, strict=True)
    )


def _tokens(texts: Iterable[str]) -> Callable[[str], Tokens]:
    different = sorted(set(texts))
    return dict(zip(different, counted(different), strict=True)).__getitem__


def added(tokens: Callable[[str], Tokens], definitions: str, events: Events) -> tuple[Tokens, Tokens]:
    """The tokens of all requests of a task, and of the definitions in them."""
    each = tokens(definitions)
    requests = sum(event is None for event in events)
    whole = [count * requests for count in each]
    so_far = [0, 0]
    for event in events:
        if event is None:
            whole = [one + two for one, two in zip(whole, so_far, strict=True)]
        elif event:
            so_far = [one + two for one, two in zip(so_far, tokens(event), strict=True)]
    return whole, [count * requests for count in each]


def _text(tasks: int, sent: Mapping[str, Mapping[str, Mapping[str, Tokens]]]) -> str:
    parts: list[str] = []
    for catalog, modes in sent.items():
        rows = [
            [
                mode,
                *(
                    cell
                    for kind in range(2)
                    for cell in (
                        f"{one['all'][kind] / tasks:,.0f}",
                        f"{one['all'][kind] / modes['all']['all'][kind]:.2f}",
                        f"{one['definitions'][kind] / one['all'][kind]:.0%}",
                    )
                ),
            ]
            for mode, one in modes.items()
        ]
        head = ["o200k", "ratio", "definitions", "Claude 2", "ratio", "definitions"]
        parts.append(table([catalog, *head], rows))
    return "\n\n".join(parts)


PART = Part(name="context", page="context", title="Tokens that a model is sent for each task", run=run)
