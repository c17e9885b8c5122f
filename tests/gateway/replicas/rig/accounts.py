"""The answers to clients, compared with the server's journal."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
Window = tuple[float, float]
GOOD = (200, 202)
LOST = 404
IN_FLIGHT = "in flight at a replica that ended or froze"
UNKNOWN_TOOL = "unknown tool"
LOST_SESSION = "session lost"
_KINDS = (
    (r"^TimeoutError", "no answer until the client gave up"),
    (r"ConnectionRefused", "connection refused"),
    (r"Connection|RemoteDisconnected|BrokenPipe|IncompleteRead|BadStatusLine", "connection reset"),
    (r"took effect is not known", IN_FLIGHT),
    (r"<h1>(50\d) ", r"\1 of the balancer"),
    (r"database of this gateway|\bstore\b", "503 of the store"),
    (r"(?i)unknown tool|no tool|not a tool", UNKNOWN_TOOL),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The requirements of a scenario, in addition to the general ones."""

    silence: float
    """Seconds that a client waits for an answer at most."""
    excused: Sequence[Window] = ()
    """The times when operations may fail."""
    eras: Collection[str] = ("legacy", "modern")
    """The eras whose operations may fail then."""
    gone: Mapping[str, Window] = field(default_factory=dict[str, Window])
    """Tools that not all replicas have, and when: then they may be unknown."""


@dataclass(kw_only=True)
class Report:
    """The outcome of a scenario."""

    calls: int = 0
    sessions: int = 0
    """Sessions that were opened."""
    failed: Counter[str] = field(default_factory=Counter[str])
    """Operations that failed, by kind; streams, which are opened again, are not among them."""
    repeated: int = 0
    """Effects of a call beyond its first."""
    unanswered_effects: int = 0
    """Calls that took effect, and whose client was not told."""
    missing_effects: int = 0
    """Calls that were answered, and took no effect."""
    lost_sessions: int = 0
    silence: float = 0.0
    """The longest time in which a client that waited got no answer of any kind."""
    without_success: float = 0.0
    """The longest time between two successful operations of a client."""
    reopened_streams: int = 0
    slowest_stop: float = 0.0
    """Seconds from a SIGTERM to the end of its process."""
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list[str])
    """Violations of the requirements."""


def records(folder: Path) -> list[JSON]:
    """The records of the clients."""
    lines = (line for file in sorted(folder.glob("client-*")) for line in file.read_text().splitlines())
    return [json.loads(line) for line in lines]


def kind_of(record: JSON) -> str:
    """The kind of a failure."""
    text = record["text"]
    for pattern, kind in _KINDS:
        if (found := re.search(pattern, text)) is not None:
            return found.expand(kind)
    if record["status"] == LOST:
        return LOST_SESSION
    if record["status"] == 502 and not text:  # no message of the client could be answered with an error
        return IN_FLIGHT
    words = re.sub(r"\b[0-9a-f]{8,}\b|\d+", "N", text)
    return f"{record['status']} {words[:70]}".strip()


def account(found: Sequence[JSON], written: Counter[str], expected: Expected) -> Report:
    """The report of a scenario; `written` has how often the server executed each call."""
    ended = [one for one in found if one["event"] == "ended" and one["what"] != "stream"]
    calls = {one["token"]: one for one in ended if one["what"] == "call"}
    report = Report(
        calls=len(calls),
        sessions=sum(one["what"] == "open" and one["status"] in GOOD for one in ended),
        repeated=sum(times - 1 for times in written.values()),
        reopened_streams=sum(one["what"] == "stream" and one["status"] in GOOD for one in found),
    )
    failures = [one for one in ended if one["status"] not in GOOD]
    report.failed = Counter(kind_of(one) for one in failures)
    answered = {token for token, one in calls.items() if one["status"] in GOOD}
    report.missing_effects = len(answered - written.keys())
    report.unanswered_effects = len(written.keys() - answered)
    report.lost_sessions = len(_lost(found))
    report.silence = max((one["at"] - one["began"] for one in ended), default=0.0)
    report.without_success = max(_gaps(ended), default=0.0)
    wrong = [one for token, one in calls.items() if token in answered and one["text"] != token]
    begun = {one["token"] for one in found if one["what"] == "call"}
    unexcused = [one for one in failures if not _is_excused(one, expected)]
    report.broken = [
        *_broken(report.repeated, "effects were repeated"),
        *_broken(report.missing_effects, "calls were answered without an effect"),
        *_broken(report.lost_sessions, "sessions were lost"),
        *_broken(len(wrong), "calls got the answer of another one", wrong),
        *_broken(len(begun - calls.keys()), "calls were never answered"),
        *_broken(len(written.keys() - begun), "effects had no call"),
        *_broken(len(unexcused), "operations failed that must not", unexcused),
    ]
    if report.silence > expected.silence:
        report.broken.append(
            f"a client waited {report.silence:.1f} s for an answer, which may take {expected.silence:g} s"
        )
    return report


def _broken(count: int, words: str, examples: Sequence[JSON] = ()) -> Iterable[str]:
    if count:
        shown = [
            f"{one['what']} {one.get('token', '')} {one.get('tool', '')}: {kind_of(one)}"
            for one in examples[:3]
        ]
        yield f"{count} {words}" + (f", such as {'; '.join(shown)}" if shown else "")


def _is_excused(failure: JSON, expected: Expected) -> bool:
    gone = expected.gone.get(failure.get("tool", ""))
    if gone is not None and kind_of(failure) == UNKNOWN_TOOL:
        return _is_within(failure, gone)
    if ("legacy" if failure["client"] % 2 else "modern") not in expected.eras:
        return False
    return any(_is_within(failure, window) for window in expected.excused)


def _is_within(record: JSON, window: Window) -> bool:
    return record["began"] <= window[1] and record["at"] >= window[0]


def _lost(found: Sequence[JSON]) -> set[str]:
    """The sessions that the gateways did not know any more, but for those that their client had ended."""
    closed = {one["session"] for one in found if one["what"] == "close"}
    refused = [one for one in found if one["event"] == "ended" and one["status"] == LOST and one["session"]]
    streams = {one["session"] for one in refused if one["what"] == "stream"}
    return {one["session"] for one in refused if one["what"] != "stream"} | (streams - closed)


def _gaps(ended: Sequence[JSON]) -> Iterable[float]:
    last: dict[int, float] = {}
    for one in sorted(ended, key=lambda one: one["at"]):
        if one["status"] in GOOD:
            yield one["at"] - last.get(one["client"], one["began"])
            last[one["client"]] = one["at"]
