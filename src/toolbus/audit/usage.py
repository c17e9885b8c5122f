"""Statistics of tools: calls, failures, durations and the size of results, counted from a trail.

A trail of any length is counted in bounded memory: durations are kept as a histogram, and only so many
different tools are told apart.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from math import exp, log
from pathlib import Path
from typing import NamedTuple

from toolbus.audit.history.read import recorded_calls
from toolbus.audit.history.record import CallFilter
from toolbus.audit.lines import chains, fields_of
from toolbus.audit.read import Recorded
from toolbus.audit.trail import REQUESTS

MOST_TOOLS = 5_000
"""The number of tools that are told apart; all others are counted together."""
OTHERS = "(others)"
CALLS = "tools/call"
BYTES_PER_TOKEN = 4
"""As text in English has them; other languages and data have fewer."""
_FINE = frozenset(("ok", "pending"))
_SLACK = 86_400
_WIDTH = log(1.04)
"""The width of a bucket of durations: percentiles are right to within two percent."""


class UsedCall(NamedTuple):
    """One call, from any record of calls."""

    server: str
    tool: str
    route: str = CALLS
    outcome: str = "ok"
    ms: float | None = None
    bytes: int = 0
    is_over_quota: bool = False


@dataclass(slots=True)
class Durations:
    """A histogram of durations in milliseconds."""

    _buckets: Counter[int] = field(default_factory=Counter[int])

    def add(self, ms: float) -> None:
        """Count one."""
        self._buckets[round(log(max(ms, 0.001)) / _WIDTH)] += 1

    def percentile(self, share: float) -> float | None:
        """The duration that this share of them does not exceed; None if there is none."""
        left = share * self._buckets.total()
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return exp(bucket * _WIDTH)
        return None


@dataclass(slots=True, kw_only=True)
class ToolUsage:
    """The use of one tool of a server; or of its resources, prompts and other requests, by method."""

    server: str
    tool: str
    """The server's own name; a method such as `resources/read` for other requests."""
    is_tool: bool = True
    calls: int = 0
    """Calls that were made."""
    errors: int = 0
    """Calls that failed."""
    refused: int = 0
    """Calls that were not made."""
    over_quota: int = 0
    """Refused calls for which a quota had nothing left."""
    bytes: int = 0
    durations: Durations = field(default_factory=Durations)

    @property
    def tokens(self) -> int:
        """About how many tokens its results took."""
        return self.bytes // BYTES_PER_TOKEN

    def add(self, call: UsedCall) -> None:
        """Count a call."""
        if call.outcome == "refused":
            self.refused += 1
            self.over_quota += call.is_over_quota
            return
        self.calls += 1
        self.bytes += call.bytes
        if call.outcome not in _FINE:
            self.errors += 1
        if call.ms is not None:
            self.durations.add(call.ms)


@dataclass(slots=True)
class UsageCounts:
    """The use of all tools."""

    tools: dict[tuple[str, str], ToolUsage] = field(default_factory=dict[tuple[str, str], ToolUsage])
    """The counts, by server and tool."""

    def add(self, call: UsedCall) -> None:
        """Count a call."""
        is_tool = call.route == CALLS
        key = call.server, call.tool if is_tool else call.route
        if key not in self.tools and len(self.tools) >= MOST_TOOLS:
            key = "", OTHERS
        used = self.tools.get(key)
        if used is None:
            used = self.tools[key] = ToolUsage(server=key[0], tool=key[1], is_tool=is_tool)
        used.add(call)

    @property
    def total(self) -> int:
        """The number of calls that were made."""
        return sum(one.calls for one in self.tools.values())

    @property
    def most_used(self) -> list[ToolUsage]:
        """The tools by the number of calls."""
        return sorted(self.tools.values(), key=lambda one: (-one.calls, one.server, one.tool))


def calls_in(path: Path, since: str | None, until: str | None) -> Iterator[UsedCall]:
    """The calls in a trail and all its full files, in no order; times are as in the trail."""
    for files in chains(path).values():
        for event in _ends(file for file in files if not _is_older(file, since)):
            time = str(event.get("time", ""))
            is_wanted = (since is None or time >= since) and (until is None or time < until)
            if is_wanted and (call := _call(event)) is not None:
                yield call


def _ends(files: Iterable[Path]) -> Iterator[Recorded]:
    """The events of these files that may be the end of a call; most others are not even parsed."""
    for path in files:
        with suppress(FileNotFoundError), path.open("rb") as file:  # removed, or full and renamed, meanwhile
            for line in file:
                if (b"ended" in line or b"deny" in line) and (event := fields_of(line)) is not None:
                    yield event


def remembered_calls(file: Path, since: str | None, until: str | None) -> Iterator[UsedCall]:
    """The calls in the console's history; times are as in a trail."""
    wanted = CallFilter(since=_seconds(since), until=_seconds(until))
    for call in recorded_calls(file, wanted):
        if call.route not in REQUESTS:
            ms = call.seconds * 1000
            yield UsedCall(call.server, call.tool, call.route, call.outcome, ms, call.size)


def _seconds(time: str | None) -> float | None:
    return None if time is None else datetime.fromisoformat(time).timestamp()


def _is_older(file: Path, since: str | None) -> bool:
    """Whether a file was last written long before that time; a clock may have been set back since."""
    try:
        begin = _seconds(since)
        return begin is not None and file.stat().st_mtime + _SLACK < begin
    except OSError:
        return False


def _call(event: Recorded) -> UsedCall | None:
    """The call that has ended or was refused with this event; None for any other event."""
    kind, route, server = event.get("event"), event.get("route", CALLS), event.get("server", "")
    is_refused = kind == "decided" and event.get("decision") == "deny"
    if not (is_refused or kind == "ended") or route in REQUESTS:
        return None
    size, ms = event.get("bytes", 0), event.get("ms")
    return UsedCall(
        server=str(server),
        tool=str(event.get("tool", "")),
        route=str(route),
        outcome="refused" if is_refused else str(event.get("outcome", "ok")),
        ms=ms if isinstance(ms, int | float) else None,
        bytes=size if isinstance(size, int) else 0,
        is_over_quota=event.get("by") == "quota",
    )
