"""Read a trail: the events of all its chains, merged by time, newest or oldest first."""

import heapq
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from toolbus.audit.lines import chains, fields_of, read_at

Recorded: TypeAlias = Mapping[str, Any]
"""One event: the fields of its line."""
_BLOCK = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A selection of events to read; all of them by default."""

    tool: str | None = None
    """A glob on `server/tool`; without a slash, on the server or the tool."""
    user: str | None = None
    decision: str | None = None
    since: str | None = None
    """The time of the earliest, as in the trail: `2026-11-16T15:04:05Z`."""

    def matches(self, event: Recorded) -> bool:
        """Whether an event is one of them."""
        if self.tool is not None and not _is_about(event, self.tool):
            return False
        if self.since is not None and _time(event) < self.since:
            return False
        wanted = (("user", self.user), ("decision", self.decision))
        return all(value is None or event.get(key) == value for key, value in wanted)


def read_events(path: Path, query: Query, last: int | None = None) -> list[Recorded]:
    """The events of a trail, oldest first; only the last ones, if so many are given."""
    found = list(islice(filter(query.matches, newest_events(path)), last))
    found.reverse()
    return found


def newest_events(path: Path) -> Iterator[Recorded]:
    """All events of a trail, newest first; a file is read as far as its events are taken."""
    return heapq.merge(*map(_newest_first, chains(path).values()), key=_time, reverse=True)


def _newest_first(files: Iterable[Path]) -> Iterator[Recorded]:
    """The events of one chain, without damaged lines."""
    for file in reversed(list(files)):
        for line in _lines_backward(file):
            event = fields_of(line)
            if event is not None and isinstance(event.get("time"), str):
                yield event


def _lines_backward(file: Path) -> Iterator[bytes]:
    try:
        fd = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:  # removed, or full and renamed, meanwhile
        return
    try:
        end, rest, length = os.fstat(fd).st_size, b"", _BLOCK
        while end > 0:
            start = max(0, end - length)
            rest, *lines = (read_at(fd, start, end - start) + rest).split(b"\n")
            yield from reversed(lines)
            end, length = start, _BLOCK if lines else 2 * length
        yield rest
    finally:
        os.close(fd)


def _time(event: Recorded) -> str:
    return event["time"]


def _is_about(event: Recorded, pattern: str) -> bool:
    server, tool = str(event.get("server", "")), str(event.get("tool", ""))
    if "/" in pattern:
        return fnmatchcase(f"{server}/{tool}", pattern)
    return fnmatchcase(server, pattern) or fnmatchcase(tool, pattern)


def what_happened(event: Recorded) -> str:
    """The decision, the outcome, or the name of an event that has neither."""
    return str(event.get("decision") or event.get("outcome") or event.get("event"))


def target_of(event: Recorded) -> str:
    """The target of an event: `server/tool`, with the method in front if it is not a tool call."""
    route = str(event.get("route", ""))
    name = "/".join(str(event[key]) for key in ("server", "tool") if key in event)
    return name if route in ("", "tools/call") else f"{route} {name}"


def decision_of(event: Recorded) -> Iterable[str]:
    """The decider and the reason; a rule that the reason names is not repeated."""
    by, rule, reason = event.get("by"), event.get("rule"), str(event.get("reason", ""))
    denial = f"rule {rule} denies it"
    if rule and reason.startswith(denial):
        reason = f"{rule}{reason.removeprefix(denial)}"
    if by and not (rule and str(rule) in reason):
        yield f"{rule} by {by}" if rule and by != "policy" else str(rule or by)
    if reason:
        yield reason
