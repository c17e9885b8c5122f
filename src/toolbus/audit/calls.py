"""A trail as one entry for each call: its decision and its outcome together, newest first."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolbus.audit.read import Query, Recorded, newest_events

NO_END = "no end"
"""The outcome of a call that was allowed and whose end is not recorded: it runs, or was cut off."""


@dataclass(slots=True, kw_only=True)
class AuditedCall:
    """One call, or another event of the trail itself, which is neither decided nor ended."""

    decided: Recorded | None = None
    ended: Recorded | None = None
    other: Recorded | None = None
    """The trail was started, recovered, or a full file was removed."""

    @property
    def first(self) -> Recorded:
        """Its first line."""
        found = self.decided or self.ended or self.other
        assert found is not None, "it has a line"
        return found

    @property
    def at(self) -> str:
        """The time of the decision, or of the end if there was none."""
        return str(self.first["time"])

    @property
    def id(self) -> str:
        return str(self.first.get("id", ""))

    @property
    def decision(self) -> str:
        """`allow` or `deny`; empty if it failed before anything was decided, or is no call."""
        return "" if self.decided is None else str(self.decided.get("decision", ""))

    @property
    def outcome(self) -> str:
        """`ok`, or the reason of a failure; empty for a denied call and for other events."""
        if self.ended is not None:
            return str(self.ended.get("outcome", ""))
        return NO_END if self.decision == "allow" else ""

    def get(self, key: str) -> object:
        """A field of either line."""
        for event in (self.decided, self.ended, self.other):
            if event is not None and key in event:
                return event[key]
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """The calls that a reader wants; an empty field matches every call."""

    tool: str = ""
    """A glob on `server/tool`; without a slash, on the server or the tool."""
    server: str = ""
    caller: str = ""
    """A user, face, run or session."""
    decision: str = ""
    outcome: str = ""
    """`failed` for every outcome that is a failure."""
    since: str = ""
    """The time of the earliest, as in the trail; a beginning such as `2026-11-16T15` will do."""
    until: str = ""

    def matches(self, call: AuditedCall) -> bool:
        """Whether a call matches."""
        about = Query(tool=self.tool or None)
        return (
            (not self.tool or about.matches(call.first))
            and self.server in ("", call.get("server"))
            and (not self.caller or any(call.get(key) == self.caller for key in _CALLERS))
            and self.decision in ("", call.decision)
            and self._has_outcome(call)
            and call.at >= self.since
            and (not self.until or call.at[: len(self.until)] <= self.until)
        )

    def _has_outcome(self, call: AuditedCall) -> bool:
        if self.outcome == "failed":
            return call.outcome not in ("", NO_END, *_FINE)
        return self.outcome in ("", call.outcome)


_CALLERS = ("user", "face", "run", "session")
_FINE = ("ok", "pending", "accept")


@dataclass(slots=True, kw_only=True)
class AuditPage:
    """Some calls of a trail."""

    calls: list[AuditedCall]
    has_older: bool = False
    was_cut: bool = False
    """Whether there are lines that were not searched."""


def audited_calls(path: Path, query: AuditQuery, *, skip: int, most: int, lines: int) -> AuditPage:
    """Some calls of a trail, newest first, without the first `skip`; at most so many `lines` are read."""
    wanted = skip + most
    found: list[AuditedCall] = []
    reading = _Reading(query)
    for number, event in enumerate(newest_events(path)):
        if number == lines:
            return AuditPage(calls=[*found, *reading.rest()][skip:wanted], was_cut=True)
        if query.since and event["time"] < query.since:
            break  # what was decided before is not wanted
        found += reading.add(event)
        if len(found) > wanted:
            return AuditPage(calls=found[skip:wanted], has_older=True)
    found += reading.rest()
    return AuditPage(calls=found[skip:wanted], has_older=len(found) > wanted)


class _Reading:
    """Joins the lines of calls, which come newest first, and gives the calls in the order of their ends."""

    def __init__(self, query: AuditQuery) -> None:
        self._query = query
        self._waiting: dict[str, AuditedCall] = {}
        """The calls whose decision is yet to come, by id."""
        self._ordered: list[AuditedCall] = []

    def add(self, event: Recorded) -> Iterator[AuditedCall]:
        """Take a line; give the calls that are complete, and that no incomplete one is before."""
        name = str(event.get("id", ""))
        match event.get("event"):
            case "ended":
                call = AuditedCall(ended=event)
                self._ordered.append(call)
                # One without a duration was never decided: it failed before.
                if name and "ms" in event:
                    self._waiting[name] = call
            case "decided":
                call = self._waiting.pop(name, None)
                if call is None:
                    self._ordered.append(AuditedCall(decided=event))
                else:
                    call.decided = event
            case _:
                self._ordered.append(AuditedCall(other=event))
        return self._complete()

    def rest(self) -> list[AuditedCall]:
        """The calls that were left, whose decision is in a line that was not read."""
        self._waiting.clear()
        return list(self._complete())

    def _complete(self) -> Iterator[AuditedCall]:
        waiting = {id(call) for call in self._waiting.values()} if self._waiting else set[int]()
        count = 0
        for call in self._ordered:
            if id(call) in waiting:
                break
            count += 1
        complete, self._ordered = self._ordered[:count], self._ordered[count:]
        return filter(self._query.matches, complete)
