"""`toolbus runs`, `runs show`, `watch`, `cancel`, `delete` and `start`: durable runs, wherever they are."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command, group
from toolbus.cli.commands.agents.run_store import Store, open_runs
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.output.run_lines import (
    STYLES,
    Hints,
    event_line,
    note_end,
    question_lines,
    run_json,
    step_row,
    worker_json,
    worker_rows,
)
from toolbus.cli.output.screen import Cell, Screen, one_line, visible

if TYPE_CHECKING:
    from toolbus.agent.durable import DurableEvent, RunInfo, Runs
    from toolbus.agent.durable.lease import WorkerRow

RunId = Annotated[
    str, typer.Argument(metavar="ID", help="The id of the run, which is its key if it has one.")
]


@partial(group, runs_alone=True)
async def runs(
    own: Invocation,
    all: Annotated[bool, typer.Option("--all", help="Include finished runs.")] = False,  # noqa: A002  the option
    store: Store = None,
) -> CommandResult:
    """List, answer, start and cancel durable runs of agents.

    Without a command, lists the runs. Requires pip install "toolbus[durable]".
    """
    screen = own.screen
    async with open_runs(screen, store) as opened:
        found = await opened.recent(ended=all)
        rows = [row for row in await opened.workers() if row.is_alive]
    served = {info.queue: _is_served(info.queue, rows) for info in found}

    def lines() -> None:
        if found:
            screen.table(("run", "status", "agent", "updated", "about"), map(_row, found), max_lines=1)
        else:
            more = "" if all else "; toolbus runs --all also lists those that have ended"
            screen.note(f"no runs{more}")
        if rows:
            cells = [line for row in rows for line in worker_rows(row, rows)]
            screen.line("")
            screen.table(("worker", "agent", "toolbus", "runs", "tools"), cells, max_lines=1)
        waiting = {info.queue: info for info in found if info.is_open and not served[info.queue]}
        for info in waiting.values():
            print_no_worker(screen, info, rows, Hints(store))

    document = {
        "runs": [run_json(info, has_worker=served[info.queue]) for info in found],
        "workers": len(rows),
        "worker_details": [worker_json(row, rows) for row in rows],
    }
    return CommandResult(document, lines)


def _is_served(queue: str, workers: "Iterable[WorkerRow]") -> bool:
    return any(row.takes(queue) for row in workers)


def print_no_worker(screen: Screen, info: "RunInfo", workers: "Iterable[WorkerRow]", hints: Hints) -> None:
    """Say what to do if a run is open, and no worker takes it."""
    rows = [row for row in workers if row.is_alive]
    if info.is_open and not _is_served(info.queue, rows):
        from toolbus.agent.durable.settings import named

        prefix = f"{info.agent}@"
        served = {name for row in rows for name in map(named, row.labels) if name.startswith(prefix)}
        screen.note(
            hints.no_worker(info.agent, info.version, sorted(name.removeprefix(prefix) for name in served))
        )


def _row(info: "RunInfo") -> list[Cell]:
    about = info.question.message if info.question else info.error or info.output or info.prompt
    status = (info.status, STYLES[info.status])
    return [(visible(info.id), "bold"), status, visible(info.named), _time(info.updated), one_line(about)]


def _time(when: float) -> str:
    return datetime.fromtimestamp(when).astimezone().strftime("%Y-%m-%d %H:%M:%S")


@command
async def show(own: Invocation, run: RunId, store: Store = None) -> CommandResult:
    """Show a run: its steps, what it waits for, and how it ended."""
    screen, hints = own.screen, Hints(store)
    async with open_runs(screen, store) as opened:
        info, steps, workers = await opened.get(run), await opened.steps(run), await opened.workers()

    def lines() -> None:
        facts = [
            ("status", "answered, a worker has to take it" if info.answered else info.status),
            ("agent", info.agent),
            ("prompt", one_line(info.prompt)),
            ("added", _time(info.created)),
            ("worker", _worker(info, workers)),
        ]
        if info.version is not None:
            facts.append(("version", f"{info.version}: only workers of this version execute it"))
        if info.is_foreign:
            facts.append(("journal", f"{info.journal}: only workers of that version of toolbus continue it"))
        screen.rows([[(name, "dim"), visible(value)] for name, value in facts], indent=0)
        screen.rows([step_row(step) for step in steps], indent=2, max_lines=1)
        _print_state(screen, info, hints)
        print_no_worker(screen, info, workers, hints)

    return CommandResult(run_json(info, steps, has_worker=_is_served(info.queue, workers)), lines)


def _worker(info: "RunInfo", workers: "Iterable[WorkerRow]") -> str:
    """The worker that has a run, or had it when it ended."""
    if info.worker is None or info.status == "queued":
        return "none"
    has_it = not info.is_open or any(row.worker == info.worker and row.is_alive for row in workers)
    return info.worker if has_it else f"{info.worker}, which has ended"


def _print_state(screen: Screen, info: "RunInfo", hints: Hints) -> None:
    """Print what a run waits for, or how it ended, and what to do."""
    for name in sorted(info.held):
        screen.line((visible(f"on hold: {name} changed since the run began"), "yellow"))
    if info.held and info.question is None:
        screen.note(f"to use the changed tools, run: {hints.runs('resume', info.id, '--accept-changes')}")
    if info.question is not None:
        for line in question_lines(info.question):
            screen.line(visible(line))
        screen.note(hints.answer(info.id, info.question))
    if info.output is not None:
        screen.line(visible(info.output))
    if info.error is not None:
        screen.line((visible(info.error), "red"))
        screen.note(f"to continue it from there, run: {hints.runs('resume', info.id)}")


@command
async def cancel(own: Invocation, run: RunId, store: Store = None) -> CommandResult:
    """Cancel a run, wherever it is executed."""
    async with open_runs(own.screen, store) as opened:
        await opened.cancel(run)
    return CommandResult({"cancelled": run}, f"cancelled {run}")


@command
async def delete(own: Invocation, run: RunId, store: Store = None) -> CommandResult:
    """Delete a finished run, with all that is recorded of it."""
    async with open_runs(own.screen, store) as opened:
        await opened.delete(run)
    return CommandResult({"deleted": run}, f"deleted {run}")


@command
async def start(
    own: Invocation,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The task for the agent.")],
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The id of the run: the same key is the same run."),
    ] = None,
    agent: Annotated[
        str,
        typer.Option("--agent", metavar="NAME", help="The name of the agent: its workers execute the run."),
    ] = "agent",
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="VERSION", help="Pin the run to the workers of this version of the agent."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait until it ends, and print its output.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", hidden=True)] = False,
    store: Store = None,
) -> CommandResult:
    """Add a run for the workers, and print its id."""
    follow = follow or wait  # the old name
    if not prompt.strip():
        raise Usage("the prompt is empty; write one")
    screen = own.screen
    async with open_runs(screen, store, agent, version, create=True) as opened:
        run = await opened.start(prompt, key=key)
        info = await opened.get(run)
        if info.prompt != prompt:
            screen.note(
                f"run {run!r} exists already and is {info.status}; the prompt was not used, it has its own: "
                f"{one_line(info.prompt)}"
            )
        workers = await opened.workers()
        is_served = _is_served(info.queue, workers)
        print_no_worker(screen, info, workers, Hints(store))
        if follow:
            info = await opened.wait(run)

    def lines() -> None:
        screen.line(visible((info.output or "") if follow else run))
        if follow:
            note_end(screen, info)

    code = 0 if info.is_open or info.status == "done" else FAILED
    return CommandResult(run_json(info, has_worker=is_served), lines, code)


# Watch a run, also if its store cannot be reached for a while

_PAUSE = 1.0
"""Seconds between two attempts to reach a store."""


@command
async def watch(own: Invocation, run: RunId, store: Store = None) -> int:
    """Print the events of a run until it ends.

    Starts with the first event. With --json, prints one document per event.
    """
    screen = own.screen
    async with open_runs(screen, store) as opened:
        await opened.get(run)  # a store that cannot be reached now is an error; later, that is waited for
        info = await _Watcher(screen, opened, run, Hints(store)).until_end()
        has_worker = any(row.takes(info.queue) for row in await opened.workers())
    if screen.as_json:
        screen.json_line({"event": "RunEnded", **run_json(info, has_worker=has_worker)})
    else:
        if info.structured is not None:
            screen.line(visible(info.output or ""))
        note_end(screen, info)
    return 0 if info.status == "done" else FAILED


class _Watcher:
    """Prints each event of a run once."""

    def __init__(self, screen: Screen, runs: "Runs", run: str, hints: Hints) -> None:
        self._screen = screen
        self._runs = runs
        self._run = run
        self._hints = hints
        self._printed = 0

    async def until_end(self) -> "RunInfo":
        from toolbus.agent.durable import RunStoreError

        while True:
            try:
                await self._print_events()
                return await self._runs.wait(self._run)
            except RunStoreError as error:
                self._screen.note(f"the store of runs {error.place} cannot be reached; waiting for it")
                await self._wait_for_store()
                self._screen.note(f"the store of runs {error.place} is back")

    async def _print_events(self) -> None:
        events = self._runs.events(self._run)
        number = 0
        try:
            async for event in events:
                number += 1
                if number > self._printed:
                    await self._print(event)
                    self._printed = number
        finally:
            await events.aclose()

    async def _print(self, event: "DurableEvent") -> None:
        from toolbus.agent.durable import QuestionAsked
        from toolbus.agent.durable.execution.timeline import event_json

        if self._screen.as_json:
            self._screen.json_line(event_json(event))
            return
        asked = (await self._runs.get(self._run)).question if isinstance(event, QuestionAsked) else None
        self._screen.line(event_line(event))
        if asked is not None and isinstance(event, QuestionAsked) and asked.id == event.id:
            self._screen.note(self._hints.answer(self._run, asked))

    async def _wait_for_store(self) -> None:
        from toolbus.agent.durable import RunStoreError

        while True:
            await asyncio.sleep(_PAUSE)
            try:
                await self._runs.get(self._run)
            except RunStoreError:
                continue
            return
