"""The outcome of a call or script, or the pending call if it was suspended; and its progress."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from toolbus.cli.command import CommandResult
from toolbus.cli.errors import FAILED
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen, escaped_json, one_line, picked
from toolbus.core.values.records import JSON, Progress, ToolResult, ToolSpec
from toolbus.schema.values import entries_of


@contextmanager
def call_progress(screen: Screen, name: str) -> Generator[Progress]:
    """Show a progress line; yields the callback that updates it."""
    import asyncio

    with screen.spinner(name) as spinner:
        loop = asyncio.get_running_loop()

        def show(done: float, total: float | None, message: str | None) -> None:
            spinner.set_progress(done, total)
            spinner.set_text(one_line(message or name))

        def progressed(done: float, total: float | None, message: str | None) -> None:
            # Not in the loop of a background bus, which must not wait for a terminal.
            with suppress(RuntimeError):  # the command is over
                loop.call_soon_threadsafe(show, done, total, message)

        yield progressed


def call_outcome(
    screen: Screen, spec: ToolSpec, result: ToolResult, out: Path | None, seconds: float
) -> CommandResult:
    """The result, or the pending call if it was suspended."""
    files: results.SavedFiles = {} if out is None else results.save_blobs(result, out, spec.name)

    def facts() -> dict[str, JSON]:
        content = results.content_json(result, files)
        said = {**picked(result, "is_error text"), "content": content, "structured": result.structured}
        return {**named_json(spec), **said}

    return _suspendable(screen, facts, result, seconds, lambda: results.print_result(screen, result, files))


def script_outcome(screen: Screen, result: ToolResult, seconds: float) -> CommandResult:
    """The result of a script, or the suspended script."""
    # Its text has all that a person reads; the rest is for programs.
    said = replace(result, structured=None)

    def facts() -> dict[str, JSON]:
        return {**picked(result, "is_error text"), **entries_of(result.structured)}

    return _suspendable(screen, facts, result, seconds, lambda: results.print_result(screen, said, {}))


def _suspendable(
    screen: Screen,
    facts: Callable[[], dict[str, JSON]],
    result: ToolResult,
    seconds: float,
    lines: Callable[[], None],
) -> CommandResult:
    """The result that these facts and lines are about, or the pending call if it was suspended."""
    # The same keys as without --json, so that `resume` accepts both.
    waiting: dict[str, JSON] = {} if result.pending is None else json.loads(result.pending.to_json())

    def print_pending() -> None:
        print(escaped_json(waiting), flush=True)
        screen.note(f"{result.pending}; to answer, run: toolbus call --resume FILE")

    def document() -> JSON:
        return {**facts(), "elapsed_ms": round(seconds * 1000, 1), **waiting}

    return CommandResult(document, print_pending if waiting else lines, FAILED if result.is_error else 0)


def named_json(spec: ToolSpec) -> dict[str, JSON]:
    """The names of a tool, for `--json`."""
    return {"name": spec.name, **picked(spec.origin, "server tool")}
