"""`toolbus audit`: show what was decided and called, and check that the record is unchanged."""

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from toolbus.audit.lines import chains, is_trail
from toolbus.audit.read import Query, Recorded, decision_of, read_events, target_of, what_happened
from toolbus.audit.verify import ChainReport, verify
from toolbus.cli.command import CommandResult, Invocation, LazyGroup, group
from toolbus.cli.completion import tool_origins
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.output.screen import Cell, Screen, escaped_json, picked, short_path
from toolbus.cli.parameters import seconds_in
from toolbus.core.text.display import counted
from toolbus.core.text.text import exact
from toolbus.core.values.errors import AuditFailed
from toolbus.core.values.records import JSON
from toolbus.shape.render import human_size

LAST_EVENTS = 50
"""The number of audit events shown by default."""
_HASH = re.compile(r"[0-9a-f]{64}")
_STYLES = {"allow": "green", "ok": "green", "accept": "green", "started": "dim", "removed": "dim"}


class _AuditGroup(LazyGroup):
    """Accepts `--tail` without a number, which typer has no way to say."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for place in [n for n, word in enumerate(args) if word == "--tail"]:
            if not args[place + 1 : place + 2] or not args[place + 1].isdigit():
                args[place] = f"--tail={LAST_EVENTS}"
        return super().parse_args(ctx, args)


@partial(group, runs_alone=True, cls=_AuditGroup)
def audit(
    own: Invocation,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Trail to read; default: the config's.")
    ] = None,
    tail: Annotated[
        int, typer.Option("--tail", metavar="[N]", min=0, help="Show the last N events; 0 for all.")
    ] = LAST_EVENTS,
    tool: Annotated[
        str | None,
        typer.Option(
            "--tool",
            metavar="PATTERN",
            help="Show only events of these tools: a glob on SERVER/TOOL.",
            autocompletion=tool_origins,
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="Show only events of this user.")
    ] = None,
    decision: Annotated[
        Literal["allow", "deny"] | None, typer.Option("--decision", help="Show only these decisions.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Show only events since: 2h, 7d, 2026-11-16."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check that nothing was changed: exit 1 if something was.")
    ] = False,
    expect: Annotated[
        list[str] | None,
        typer.Option("--expect", metavar="HASH", help="As --verify, and this line must be there."),
    ] = None,
) -> CommandResult:
    """Show the recorded calls, or check that nobody changed them.

    \b
    toolbus audit usage --since 7d
    """
    if verify or expect:
        return _checked(own, file, expect or ())
    query = Query(tool=tool, user=user, decision=decision, since=trail_time(since))
    screen, path = own.screen, trail_path(own, file)
    with readable(path):
        files = [str(one) for chain in chains(path).values() for one in chain]
        events = read_events(path, query, tail or None)

    def lines() -> None:
        if not files:
            screen.note(nothing_in(path, file))
        screen.rows([_row(event) for event in events], indent=0, max_lines=None)
        if tail and len(events) == tail:
            screen.note(f"the last {counted(tail, 'event')}; --tail 0 shows all")

    document = {"files": files, "events": [dict(event) for event in events]}
    return CommandResult(document, lines, FAILED if file is not None and not files else 0)


def _checked(own: Invocation, file: Path | None, expect: Sequence[str]) -> CommandResult:
    """Whether the trail is intact, and contains the lines with the expected digests."""
    screen, path = own.screen, trail_path(own, file)
    for text in expect:
        if not _HASH.fullmatch(text):
            raise Usage(f"--expect {exact(text)}: not a hash; it has 64 digits, as --verify prints them")
    with readable(path):
        reports = verify(path, frozenset(expect))
    found = {text for report in reports for text in report.contains}
    missing = [text for text in expect if text not in found]
    nothing = None if any(report.lines or report.problems for report in reports) else nothing_in(path, file)
    is_intact = not (nothing or missing or any(report.problems for report in reports))

    def lines() -> None:
        if nothing:
            screen.note(nothing)
        for report in reports if not nothing else ():
            _print_report(screen, report)
        for text in missing:
            screen.line((f"{text} is not in the audit log: lines at its end are missing", "red"))

    problem = {"problem": nothing} if nothing else {}
    document = {"intact": is_intact, "chains": list(map(_chain_json, reports)), "missing": missing, **problem}
    return CommandResult(document, lines, 0 if is_intact else FAILED)


def moment(text: str, *, ahead: bool = False) -> datetime:
    """The time of `2h`, `2026-11-16` or `2026-11-16 15:04`; a span ends, or with `ahead` begins, now."""
    with suppress(ValueError):  # first, because 20261116 is a date
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    if (seconds := seconds_in(text)) is None:
        raise ValueError("neither a date nor a duration")
    return datetime.now(UTC) + timedelta(seconds=seconds if ahead else -seconds)


def trail_time(text: str | None, option: str = "--since") -> str | None:
    """The time of an option as the trail has it; `Usage` if it is none."""
    if text is None:
        return None
    try:
        then = moment(text)
    except ValueError:
        step = "write such as 30m, 2h, 7d, 2026-11-16 or '2026-11-16 15:04'"
        raise Usage(f"{option} {exact(text)}: not a time; {step}") from None
    return then.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def trail_path(own: Invocation, file: Path | None) -> Path:
    """The trail that is named, or else the config's trail; `Usage` if there is none, or it is no trail."""
    if file is not None:
        with readable(file):
            if file.is_file() and not is_trail(file):
                step = "name the file that 'audit' in a config names, or a copy of it"
                raise Usage(f"{short_path(file)} is not an audit log; {step}")
        return file
    config = own.untrusted_config  # nothing in it is run
    if config.audit is None:
        where = short_path(config.file) if config.file else "the config"
        step = f"add 'audit: audit.jsonl' to {where}, or name the file of an audit log"
        raise Usage(f"nothing is recorded; {step}")
    return Path(config.audit.file)


def nothing_in(path: Path, named: Path | None) -> str:
    """The problem with a trail without lines: a trail that somebody names should exist."""
    if named is not None and not chains(path):
        return f"there is no audit log at {short_path(path)}"
    return f"nothing is recorded yet in {short_path(path)}"


@contextmanager
def readable(path: Path) -> Generator[None]:
    """A trail that cannot be read is an error with the next step."""
    try:
        yield
    except OSError as error:
        problem = f"cannot be read: {error.strerror or type(error).__name__}"
        raise AuditFailed(error.filename or path, problem, "run this as the user who owns it") from error


def _row(event: Recorded) -> list[Cell]:
    """The time, the event, its target and the other facts."""
    what = what_happened(event)
    style = _STYLES.get(what, "red" if what in ("deny", "recovered") else "yellow")
    return [
        (_local(event["time"]), "dim"),
        (exact(what), style),
        (exact(target_of(event)), "cyan"),
        exact(", ".join(_facts(event))),
    ]


def _local(time: str) -> str:
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return exact(time)


def _facts(event: Recorded) -> Iterable[str]:
    yield from decision_of(event)
    for key in ("error", "file"):
        if key in event:
            yield str(event[key])
    if "ms" in event:
        yield f"{event['ms']:,.1f} ms" if isinstance(event["ms"], int | float) else str(event["ms"])
    if isinstance(event.get("bytes"), int):
        yield human_size(event["bytes"])
    for key, word in (("user", "for"), ("face", "via"), ("run", "run"), ("during", "during")):
        if key in event:
            yield f"{word} {event[key]}"
    for key in ("arguments", "answer"):
        if key in event and not str(event[key]).startswith(("sha256:", "json-sha256:")):
            yield f"{key} {escaped_json(event[key])}"


def _print_report(screen: Screen, report: ChainReport) -> None:
    for found in report.problems:
        screen.line((exact(f"{found.file.name}:{found.line}: {found.problem}"), "red"))
    for note in report.notes:
        screen.line((exact(note), "yellow"))
    state = counted(len(report.problems), "problem") if report.problems else "intact"
    lines = f"{counted(report.lines, 'line')} in {counted(len(report.files), 'file')}"
    head = f"head {report.end.seq} {report.end.hash}" if report.lines else "no head"
    style = "red" if report.problems else "green"
    screen.line((exact(f"{report.file.name}: {state}, {lines}, {head}"), style))


def _chain_json(report: ChainReport) -> JSON:
    return {
        "file": str(report.file),
        "files": [str(file) for file in report.files],
        **picked(report, "lines first"),
        "head": picked(report.end, "seq hash") if report.lines else None,
        "problems": [{"file": str(found.file), **picked(found, "line problem")} for found in report.problems],
        "notes": report.notes,
    }
