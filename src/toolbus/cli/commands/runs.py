"""`toolbus runs`, `runs show`, `watch`, `cancel` and `start`: durable runs, wherever they are executed."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.options import Settings
from toolbus.cli.output.run_lines import STYLES, event_line, question_lines, run_json, step_row
from toolbus.cli.output.screen import Screen, escaped_json, one_line, visible
from toolbus.cli.session import async_command
from toolbus.cli.terminal import variables, working_folder

if TYPE_CHECKING:
    from toolbus.agent.durable import RunInfo, Runs

VARIABLE, DEFAULT = "TOOLBUS_RUNS", "runs.db"


def chosen_store(store: str | None) -> str:
    """The store of an option, of the environment, or the file in this folder."""
    chosen = store or variables().get(VARIABLE) or DEFAULT
    return chosen if "://" in chosen else str(working_folder() / chosen)


@asynccontextmanager
async def open_runs(
    screen: Screen, store: str | None, agent: str = "agent", *, create: bool = False
) -> "AsyncGenerator[Runs]":
    """The runs of a store; without `create`, `Usage` if its file does not exist."""
    with screen.spinner("opening the store"):
        from toolbus.agent.durable import (
            Durable,
            Runs,
        )  # imported under the spinner: pydantic-ai takes a while
    try:
        settings = Durable(store=chosen_store(store), agent=agent)
        file = settings.file
    except ValueError as error:
        raise Usage(str(error)) from None
    if file is not None and not create and not file.exists():
        raise Usage(f"there is no store of runs at {str(file)!r}; name it with --store or ${VARIABLE}")
    runs = Runs(settings)
    try:
        yield runs
    finally:
        await runs.close()


@async_command
async def list_runs(settings: Settings, store: str | None, *, ended: bool) -> int:
    """Print a line for each run, the newest first."""
    screen = Screen(settings)
    async with open_runs(screen, store) as runs:
        found = await runs.recent(ended=ended)
        workers = len(await runs.workers())
    if screen.as_json:
        screen.json({"runs": [run_json(info) for info in found], "workers": workers})
        return 0
    if not found:
        more = "" if ended else "; toolbus runs --all also lists those that have ended"
        screen.note(f"no runs{more}")
        return 0
    header = ("run", "status", "agent", "updated", "about")
    rows = [[Text(name, style="dim") for name in header], *map(_row, found)]
    screen.rows(rows, indent=0, max_lines=1)
    if not workers and any(info.status == "queued" for info in found):
        screen.note("no worker executes runs now; start one: toolbus worker")
    return 0


def _row(info: "RunInfo") -> list[Text]:
    about = info.question.message if info.question else info.error or info.output or info.prompt
    return [
        Text(visible(info.id), style="bold"),
        Text(info.status, style=STYLES[info.status]),
        Text(visible(info.agent)),
        Text(_time(info.updated)),
        Text(one_line(about)),
    ]


def _time(when: float) -> str:
    return datetime.fromtimestamp(when).astimezone().strftime("%Y-%m-%d %H:%M:%S")


@async_command
async def show(settings: Settings, store: str | None, run: str) -> int:
    """Print all that the store has of a run."""
    screen = Screen(settings)
    async with open_runs(screen, store) as runs:
        info, steps = await runs.get(run), await runs.steps(run)
    if screen.as_json:
        screen.json(run_json(info, steps))
        return 0
    facts = [
        ("status", info.status),
        ("agent", info.agent),
        ("prompt", one_line(info.prompt)),
        ("started", _time(info.created)),
        ("worker", info.worker or "none yet"),
        ("workers so far", str(info.attempts)),
    ]
    if info.is_foreign:
        facts.append(("version", f"{info.version}: only workers of that version of toolbus continue it"))
    screen.rows([[Text(name, style="dim"), Text(visible(value))] for name, value in facts], indent=0)
    screen.rows([step_row(step) for step in steps], indent=2, max_lines=1)
    for name in sorted(info.held):
        screen.print(Text(visible(f"held: {name} changed since the run began"), style="yellow"))
    if info.held:
        screen.note(f"to use the changed tools, run: toolbus runs resume {info.id} --accept-changes")
    if info.question is not None:
        for line in question_lines(info.question):
            screen.print(Text(visible(line)))
        screen.note(f"to answer, run: toolbus runs resume {info.id}")
    if info.output is not None:
        screen.print(Text(visible(info.output)))
    if info.error is not None:
        screen.print(Text(visible(info.error), style="red"))
        screen.note(f"to continue it from there, run: toolbus runs resume {info.id}")
    return 0


@async_command
async def watch(settings: Settings, store: str | None, run: str) -> int:
    """Print events until the run ends; exit code 1 if it failed or was cancelled."""
    screen = Screen(settings)
    async with open_runs(screen, store) as runs:
        from toolbus.agent.durable.codec import event_json

        events = runs.events(run)
        try:
            async for event in events:
                if screen.as_json:
                    print(escaped_json(event_json(event)), flush=True)
                else:
                    screen.print(event_line(event))
        finally:
            await events.aclose()
        info = await runs.wait(run)
    return _print_end(screen, info, {"event": "RunEnded"})


def _print_end(screen: Screen, info: "RunInfo", facts: dict[str, Any]) -> int:
    if screen.as_json:
        print(escaped_json({**facts, **run_json(info)}), flush=True)
    elif info.status != "done":
        screen.note(
            f"run {info.id!r} {'was cancelled' if info.status == 'cancelled' else f'failed: {info.error}'}"
        )
    return 0 if info.status == "done" else FAILED


@async_command
async def cancel(settings: Settings, store: str | None, run: str) -> int:
    """Cancel a run."""
    screen = Screen(settings)
    async with open_runs(screen, store) as runs:
        await runs.cancel(run)
    if screen.as_json:
        screen.json({"cancelled": run})
    else:
        screen.print(Text(visible(f"cancelled {run}")))
    return 0


@async_command
async def start(
    settings: Settings, store: str | None, prompt: str, *, key: str | None, agent: str, wait: bool
) -> int:
    """Add a run; print its id, or with `wait` its output."""
    if not prompt.strip():
        raise Usage("the prompt is empty; write one")
    screen = Screen(settings)
    async with open_runs(screen, store, agent, create=True) as runs:
        run = await runs.start(prompt, key=key)
        info = await (runs.wait(run) if wait else runs.get(run))
        workers = await runs.workers()
    if not workers and info.is_open:
        screen.note("no worker executes runs now; start one: toolbus worker")
    if screen.as_json:
        screen.json(run_json(info))
    else:
        screen.print(Text(visible((info.output or "") if wait else run)))
        if wait and info.status != "done":
            return _print_end(screen, info, {})
    return 0 if info.is_open or info.status == "done" else FAILED
