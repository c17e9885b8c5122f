"""A call as it is remembered, and which of them a reader wants."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from typing import NamedTuple

from toolbus.core.operation.phases import CallPhase

FINE = ("ok", "pending")
"""The outcomes that are no failure."""
FAILED = "failed"
"""In a filter: every outcome that is a failure."""


class CallProgress(NamedTuple):
    """A report of the server."""

    at: float
    """Seconds since the call began."""
    progress: float
    total: float | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCall:
    """One call of a tool, or another request to a server. Its texts contain no known secret."""

    id: str
    """Unique, also among processes."""
    at: float
    """The time of its begin, in seconds since the epoch."""
    ended: float | None
    """The time of its end; None while it is in flight. A history contains calls that ended."""
    route: str
    """The MCP method, such as `tools/call`."""
    server: str
    """Empty for an unknown tool."""
    tool: str
    """The server's own name for it."""
    name: str
    """The public name."""
    face: str = ""
    user: str = ""
    session: str = ""
    """The beginning of its name, which lets nobody use it."""
    run: str = ""
    outcome: str = "ok"
    """`ok`, `pending`, or the reason of a failure, such as `timed_out`; empty while it is in flight."""
    error: str | None = None
    """The message of a failure, or the beginning of what the tool reported."""
    seconds: float = 0.0
    """Its duration, without the time of people."""
    server_seconds: float | None = None
    """The time of its server; None if nothing was sent."""
    phases: tuple[CallPhase, ...] = ()
    """The phases of its time, in order."""
    progress: tuple[CallProgress, ...] = ()
    """The last reports of the server, if the caller asked for them."""
    size: int = 0
    """The bytes of the texts and data in its result."""
    arguments: str | None = None
    """As JSON; None if they are not kept."""
    result: str | None = None
    """As JSON, of which the end may be missing; None if it is not kept."""

    @property
    def is_error(self) -> bool:
        return self.outcome not in ("", *FINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """The calls that a reader wants; an empty field matches every call."""

    server: str = ""
    tool: str = ""
    """A part of its name, or a pattern with `*`; of the public name, or of `server/tool`."""
    caller: str = ""
    """Likewise, of the user, the face, the run or the session."""
    outcome: str = ""
    """An outcome, or `failed` for every failure."""
    since: float | None = None
    """By when calls ended."""
    until: float | None = None

    def matches(self, call: HistoryCall) -> bool:
        ended = call.ended or call.at
        return (
            (not self.server or call.server == self.server)
            and (not self.outcome or self.outcome == call.outcome or self._is_failure(call))
            and (self.since is None or ended >= self.since)
            and (self.until is None or ended < self.until)
            and (not self.tool or _any(self.tool, call.name, f"{call.server}/{call.tool}"))
            and (not self.caller or _any(self.caller, call.user, call.face, call.run, call.session))
        )

    def _is_failure(self, call: HistoryCall) -> bool:
        return self.outcome == FAILED and call.is_error


def like(wanted: str) -> str:
    """A pattern for LIKE of SQL, with a backslash to escape."""
    escaped = re.sub(r"([\\%_])", r"\\\1", wanted)
    return escaped.replace("*", "%") if "*" in wanted else f"%{escaped}%"


@lru_cache(maxsize=64)
def _matcher(wanted: str) -> Callable[[str], object]:
    # As LIKE does: only ASCII in any case.
    parts = map(re.escape, wanted.split("*"))
    pattern = re.compile(".*".join(parts), re.IGNORECASE | re.ASCII | re.DOTALL)
    return pattern.fullmatch if "*" in wanted else pattern.search


def _any(wanted: str, *texts: str) -> bool:
    matches = _matcher(wanted)
    return any(matches(text) for text in texts)


BUCKETS = 128
_PER_DOUBLING = 4
"""A bucket of durations is 19 % wider than the one before; the first ends after a microsecond."""


def bucket_of(seconds: float) -> int:
    """The bucket of a duration."""
    microseconds = seconds * 1e6
    return min(BUCKETS - 1, int(_PER_DOUBLING * log2(microseconds)) + 1) if microseconds > 1 else 0


def seconds_of(bucket: int) -> float:
    """The middle of a bucket."""
    return 2 ** ((bucket - 0.5) / _PER_DOUBLING) / 1e6
