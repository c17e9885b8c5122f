"""`toolbus tape`: what a tape has in it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command, group
from toolbus.cli.output.screen import Cell, Screen, escaped_json, exact, short_path
from toolbus.core.text.display import counted, shortened
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.tape.format import RecordedCall, Tape

TapePath = Annotated[Path, typer.Argument(metavar="FILE", help="A tape, as --record writes it.")]
_ARGUMENTS = 60
"""Characters of the arguments that are shown."""


@group
def tape(own: Invocation) -> None:
    """Show what a tape has in it, or verify it."""


@command
def show(own: Invocation, file: TapePath) -> CommandResult:
    """List the servers and the calls of a tape."""
    from toolbus.tape.format import Tape, to_line

    found = Tape(file)
    calls = list(found.calls())
    document: JSON = {
        "tape": str(file),
        "complete": found.is_complete,
        "toolbus": found.version,
        "servers": {
            alias: {kind: len(items) for kind, items in found.latest(alias).items() if items}
            for alias in found.servers
        },
        "calls": [to_line(call) for call in calls],
    }
    return CommandResult(document, lambda: _print(own.screen, found, calls))


def _print(screen: Screen, found: "Tape", calls: "list[RecordedCall]") -> None:
    state = "" if found.is_complete else ", incomplete"
    servers = counted(len(found.servers), "server")
    screen.summary(f"{short_path(found.path)}: {servers}, {counted(len(calls), 'call')}{state}")
    if calls:
        screen.table(("id", "call", "arguments", "seconds", "outcome"), [_row(call) for call in calls])


def _row(call: "RecordedCall") -> tuple[Cell, ...]:
    name = f"{call.server}/{call.name}" if call.method == "tools/call" else f"{call.method} {call.name}"
    given = shortened(escaped_json(call.arguments), _ARGUMENTS) if call.arguments else ""
    return (str(call.id), exact(name), given, f"{call.seconds:.3f}", _outcome(call))


def _outcome(call: "RecordedCall") -> Cell:
    if call.failure is not None:
        return str(call.failure.get("error", "failed")), "red"
    if call.is_suspended:
        return "waits for an answer", "yellow"
    if (call.result or {}).get("isError"):
        return "tool error", "red"
    asked = len(call.questions)
    return "ok" + (f", {counted(asked, 'question')}" if asked else ""), "green"
