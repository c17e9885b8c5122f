"""`toolbus audit`: show what was decided and called, and check that the record is unchanged."""

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.text import Text

from toolbus.audit.lines import chains
from toolbus.audit.read import Query, Recorded, decision_of, read_events, target_of, what_happened
from toolbus.audit.verify import ChainReport, verify
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen, escaped_json, exact, short_path
from toolbus.cli.session import load_untrusted_config
from toolbus.core.text.display import counted
from toolbus.core.values.errors import AuditFailed
from toolbus.core.values.records import JSON
from toolbus.shape.render import human_size

AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_HASH = re.compile(r"[0-9a-f]{64}")
_STYLES = {"allow": "green", "ok": "green", "accept": "green", "started": "dim", "removed": "dim"}


def run(settings: SharedOptions, file: Path | None, query: Query, tail: int) -> int:
    """Print the last events of the config's trail, or of the one in a file; all of them if `tail` is 0."""
    screen, path = Screen(settings), _path(settings, file)
    with _readable(path):
        files = [str(one) for chain in chains(path).values() for one in chain]
        events = read_events(path, query, tail or None)
    if screen.as_json:
        screen.json({"files": files, "events": [dict(event) for event in events]})
        return FAILED if file is not None and not files else 0
    if not files:
        screen.note(_nothing(path, file))
    screen.rows([_row(event) for event in events], indent=0, max_lines=None)
    if tail and len(events) == tail:
        screen.note(f"the last {counted(tail, 'event')}; --tail 0 shows all")
    return FAILED if file is not None and not files else 0


def check(settings: SharedOptions, file: Path | None, expect: Sequence[str]) -> int:
    """Check the trail, and that it contains the lines with the expected digests; 1 if something is wrong."""
    screen, path = Screen(settings), _path(settings, file)
    for text in expect:
        if not _HASH.fullmatch(text):
            raise Usage(f"--expect {exact(text)}: not a hash; it has 64 digits, as --verify prints them")
    with _readable(path):
        reports = verify(path, frozenset(expect))
    found = {text for report in reports for text in report.contains}
    missing = [text for text in expect if text not in found]
    nothing = None if any(report.lines or report.problems for report in reports) else _nothing(path, file)
    is_intact = not (nothing or missing or any(report.problems for report in reports))
    if screen.as_json:
        found_chains = [_chain_json(one) for one in reports]
        also = {"problem": nothing} if nothing else {}
        screen.json({"intact": is_intact, "chains": found_chains, "missing": missing, **also})
        return 0 if is_intact else FAILED
    if nothing:
        screen.note(nothing)
    for report in reports if not nothing else ():
        _print_report(screen, report)
    for text in missing:
        screen.print(Text(f"{text} is not in the trail: lines at its end are missing", style="red"))
    return 0 if is_intact else FAILED


def since_time(text: str | None) -> str | None:
    """The time of `2h`, `2026-11-16` or `2026-11-16 15:04`, as the trail has it; `Usage` if it is none."""
    if text is None:
        return None
    if (ago := AGO.fullmatch(text.strip())) is not None:
        then = datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: float(ago[1])})
    else:
        try:
            then = datetime.fromisoformat(text.strip()).astimezone(UTC)
        except ValueError:
            step = "write such as 30m, 2h, 7d, 2026-11-16 or '2026-11-16 15:04'"
            raise Usage(f"--since {exact(text)}: not a time; {step}") from None
    return then.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _path(settings: SharedOptions, file: Path | None) -> Path:
    if file is not None:
        return file
    config = load_untrusted_config(settings)  # nothing in it is run
    if config.audit is None:
        where = short_path(config.file) if config.file else "the config"
        raise Usage(f"nothing is recorded; add 'audit: audit.jsonl' to {where}, or name the file of a trail")
    return Path(config.audit.file)


def _nothing(path: Path, named: Path | None) -> str:
    """What is wrong with a trail that has no line: one that somebody names should be there."""
    if named is not None and not chains(path):
        return f"there is no trail at {short_path(path)}"
    return f"nothing is recorded yet in {short_path(path)}"


@contextmanager
def _readable(path: Path) -> Generator[None]:
    """A trail that cannot be read is an error with the next step."""
    try:
        yield
    except OSError as error:
        problem = f"cannot be read: {error.strerror or type(error).__name__}"
        raise AuditFailed(error.filename or path, problem, "run this as the user who owns it") from error


def _row(event: Recorded) -> list[Text]:
    """When, what happened, to what, and the rest of it."""
    what = what_happened(event)
    style = _STYLES.get(what, "red" if what in ("deny", "recovered") else "yellow")
    return [
        Text(_local(event["time"]), style="dim"),
        Text(exact(what), style=style),
        Text(exact(target_of(event)), style="cyan"),
        Text(exact(", ".join(_facts(event)))),
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
        screen.print(Text(exact(f"{found.file.name}:{found.line}: {found.problem}"), style="red"))
    for note in report.notes:
        screen.print(Text(exact(note), style="yellow"))
    state = counted(len(report.problems), "problem") if report.problems else "intact"
    lines = f"{counted(report.lines, 'line')} in {counted(len(report.files), 'file')}"
    head = f"head {report.end.seq} {report.end.hash}" if report.lines else "no head"
    style = "red" if report.problems else "green"
    screen.print(Text(exact(f"{report.file.name}: {state}, {lines}, {head}"), style=style))


def _chain_json(report: ChainReport) -> JSON:
    return {
        "file": str(report.file),
        "files": [str(file) for file in report.files],
        "lines": report.lines,
        "first": report.first,
        "head": {"seq": report.end.seq, "hash": report.end.hash} if report.lines else None,
        "problems": [
            {"file": str(found.file), "line": found.line, "problem": found.problem}
            for found in report.problems
        ],
        "notes": report.notes,
    }
