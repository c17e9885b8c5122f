"""`toolbus runs`, `runs show`, `cancel`, `delete` and `start`: durable runs, wherever they are executed."""

import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.run_hints import Hints
from toolbus.cli.output.run_lines import (
    STYLES,
    print_end,
    question_lines,
    run_json,
    step_row,
    worker_json,
    worker_rows,
)
from toolbus.cli.output.screen import Screen, one_line, visible
from toolbus.cli.session import async_command
from toolbus.cli.terminal import variables, working_folder
from toolbus.core.values.errors import ExtraMissing

if TYPE_CHECKING:
    from toolbus.agent.durable import Durable, RunInfo, Runs
    from toolbus.agent.durable.lease import WorkerRow

VARIABLE, DEFAULT = "TOOLBUS_RUNS", "runs.db"


def chosen_store(store: str | None) -> str:
    """The store of an option, of the environment, or the file in this folder."""
    chosen = store or variables().get(VARIABLE) or DEFAULT
    return chosen if "://" in chosen else str(working_folder() / chosen)


def durable_settings(store: str | None, agent: str, version: str | None = None) -> "Durable":
    """The settings of these options; `Usage` if one is invalid."""
    from toolbus.agent.durable import Durable

    try:
        settings = Durable(store=chosen_store(store), agent=agent, version=version)
        settings.url  # noqa: B018  raises if it is invalid
    except ValueError as error:
        option = "--store" if store else f"${VARIABLE}"
        raise Usage(re.sub("^durable", option, str(error))) from None
    return settings


def load_durable(screen: Screen, command: str) -> None:
    """Import what a command needs, with a spinner: it takes a while."""
    with screen.spinner("loading durable runs"):
        try:
            import_module("toolbus.agent.durable")
        except ImportError as error:
            # Not that of the part that came first: this extra has all.
            reason = error.reason if isinstance(error, ExtraMissing) else str(error)
            raise ExtraMissing(command, "durable", reason) from error


@asynccontextmanager
async def open_runs(
    screen: Screen,
    store: str | None,
    agent: str = "agent",
    version: str | None = None,
    *,
    create: bool = False,
) -> "AsyncGenerator[Runs]":
    """The runs of a store; without `create`, `Usage` if its file does not exist."""
    load_durable(screen, "toolbus runs")
    from toolbus.agent.durable import Runs

    settings = durable_settings(store, agent, version)
    if (file := settings.file) is not None and not create and not file.exists():
        raise Usage(f"there is no store of runs at {str(file)!r}; name it with --store or ${VARIABLE}")
    runs = Runs(settings)
    try:
        yield runs
    finally:
        await runs.close()


@async_command
async def list_runs(settings: SharedOptions, store: str | None, *, ended: bool) -> int:
    """Print a line for each run, the newest first, and for each worker."""
    screen = Screen(settings)
    async with open_runs(screen, store) as runs:
        found = await runs.recent(ended=ended)
        rows = [row for row in await runs.workers() if row.is_alive]
    served = {info.queue: _is_served(info.queue, rows) for info in found}
    if screen.as_json:
        documents = [run_json(info, has_worker=served[info.queue]) for info in found]
        details = [worker_json(row, rows) for row in rows]
        screen.json({"runs": documents, "workers": len(rows), "worker_details": details})
        return 0
    if found:
        _print_table(screen, ("run", "status", "agent", "updated", "about"), map(_row, found))
    else:
        more = "" if ended else "; toolbus runs --all also lists those that have ended"
        screen.note(f"no runs{more}")
    if rows:
        lines = [line for row in rows for line in worker_rows(row, rows)]
        screen.print(Text(""))
        _print_table(screen, ("worker", "agent", "toolbus", "runs", "tools"), lines)
    waiting = {info.queue: info for info in found if info.is_open and not served[info.queue]}
    for info in waiting.values():
        print_no_worker(screen, info, rows, Hints(store))
    return 0


def _print_table(screen: Screen, header: Sequence[str], rows: "Iterable[list[Text]]") -> None:
    screen.rows([[Text(name, style="dim") for name in header], *rows], indent=0, max_lines=1)


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


def _row(info: "RunInfo") -> list[Text]:
    about = info.question.message if info.question else info.error or info.output or info.prompt
    return [
        Text(visible(info.id), style="bold"),
        Text(info.status, style=STYLES[info.status]),
        Text(visible(info.named)),
        Text(_time(info.updated)),
        Text(one_line(about)),
    ]


def _time(when: float) -> str:
    return datetime.fromtimestamp(when).astimezone().strftime("%Y-%m-%d %H:%M:%S")


@async_command
async def show(settings: SharedOptions, store: str | None, run: str) -> int:
    """Print all that the store has of a run."""
    screen, hints = Screen(settings), Hints(store)
    async with open_runs(screen, store) as runs:
        info, steps, workers = await runs.get(run), await runs.steps(run), await runs.workers()
    is_served = _is_served(info.queue, workers)
    if screen.as_json:
        screen.json(run_json(info, steps, has_worker=is_served))
        return 0
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
    screen.rows([[Text(name, style="dim"), Text(visible(value))] for name, value in facts], indent=0)
    screen.rows([step_row(step) for step in steps], indent=2, max_lines=1)
    _print_state(screen, info, hints)
    print_no_worker(screen, info, workers, hints)
    return 0


def _worker(info: "RunInfo", workers: "Iterable[WorkerRow]") -> str:
    """Who has a run, or had it when it ended."""
    if info.worker is None or info.status == "queued":
        return "none"
    has_it = not info.is_open or any(row.worker == info.worker and row.is_alive for row in workers)
    return info.worker if has_it else f"{info.worker}, which has ended"


def _print_state(screen: Screen, info: "RunInfo", hints: Hints) -> None:
    """Print what a run waits for, or how it ended, and what to do."""
    for name in sorted(info.held):
        screen.print(Text(visible(f"held: {name} changed since the run began"), style="yellow"))
    if info.held and info.question is None:
        screen.note(f"to use the changed tools, run: {hints.runs('resume', info.id, '--accept-changes')}")
    if info.question is not None:
        for line in question_lines(info.question):
            screen.print(Text(visible(line)))
        screen.note(hints.answer(info.id, info.question))
    if info.output is not None:
        screen.print(Text(visible(info.output)))
    if info.error is not None:
        screen.print(Text(visible(info.error), style="red"))
        screen.note(f"to continue it from there, run: {hints.runs('resume', info.id)}")


@async_command
async def cancel(settings: SharedOptions, store: str | None, run: str) -> int:
    """Cancel a run."""
    screen = Screen(settings)
    async with open_runs(screen, store) as runs:
        await runs.cancel(run)
    return _print_done(screen, "cancelled", run)


@async_command
async def delete(settings: SharedOptions, store: str | None, run: str) -> int:
    """Delete a run that has ended."""
    screen = Screen(settings)
    async with open_runs(screen, store) as runs:
        await runs.delete(run)
    return _print_done(screen, "deleted", run)


def _print_done(screen: Screen, done: str, run: str) -> int:
    if screen.as_json:
        screen.json({done: run})
    else:
        screen.print(Text(visible(f"{done} {run}")))
    return 0


@async_command
async def start(
    settings: SharedOptions,
    store: str | None,
    prompt: str,
    *,
    key: str | None,
    agent: str,
    version: str | None,
    wait: bool,
) -> int:
    """Add a run; print its id, or with `wait` its output."""
    if not prompt.strip():
        raise Usage("the prompt is empty; write one")
    screen = Screen(settings)
    async with open_runs(screen, store, agent, version, create=True) as runs:
        run = await runs.start(prompt, key=key)
        info = await runs.get(run)
        if info.prompt != prompt:
            screen.note(
                f"run {run!r} exists already and is {info.status}; the prompt was not used, it has its own: "
                f"{one_line(info.prompt)}"
            )
        workers = await runs.workers()
        is_served = _is_served(info.queue, workers)
        print_no_worker(screen, info, workers, Hints(store))
        if wait:
            info = await runs.wait(run)
    if screen.as_json:
        screen.json(run_json(info, has_worker=is_served))
    else:
        screen.print(Text(visible((info.output or "") if wait else run)))
        if wait and info.status != "done":
            return print_end(screen, info)
    return 0 if info.is_open or info.status == "done" else FAILED
