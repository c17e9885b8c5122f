"""The filter of a reader of calls, as it stands in the URL, and the calls that match."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import get_args
from urllib.parse import urlencode

from toolbus.audit.history.read import CallPosition
from toolbus.audit.history.record import FAILED, CallFilter, HistoryCall
from toolbus.console.console import Console
from toolbus.console.page import Fields
from toolbus.console.record.counts import DEFAULT_RANGE, IN_MEMORY, RANGES
from toolbus.core.operation.events import Reason

LONGEST_FIELD = 200
MOST_AT_ONCE = 1_000
"""The most calls that are sorted without a thread."""
OUTCOMES: Mapping[str, str] = {
    "": "every outcome",
    "ok": "ok",
    FAILED: "failed, for any reason",
    "pending": "pending",
    **{reason: reason.replace("_", " ").replace("cancelled", "canceled") for reason in get_args(Reason)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCalls:
    """The calls that a reader wants, and how far the charts go back."""

    filter: CallFilter
    range: str = ""
    """The key of a range; empty for the charts' default, and calls of any time."""
    since: str = ""
    """As it was typed, in UTC; it comes before the range."""
    until: str = ""
    before: CallPosition | None = None

    @classmethod
    def of(cls, query: Fields) -> "WantedCalls":
        """The filter in a URL; a field that makes no sense is ignored."""
        fields = {name: query.get(name).strip()[:LONGEST_FIELD] for name in ("server", "tool", "caller")}
        outcome, range_ = query.get("outcome"), query.get("range")
        since, until = query.get("from")[:LONGEST_FIELD], query.get("to")[:LONGEST_FIELD]
        began = _seconds(since)
        if began is None and range_ in RANGES:
            began = time.time() - RANGES[range_].seconds
        return cls(
            filter=CallFilter(
                **fields,
                outcome=outcome if outcome in OUTCOMES else "",
                since=began,
                until=_seconds(until),
            ),
            range=range_ if range_ in RANGES else "",
            since=since if _seconds(since) is not None else "",
            until=until if _seconds(until) is not None else "",
            before=_position(query.get("before")),
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether some calls do not match."""
        return self.filter != CallFilter()

    def url(self, page: str = "calls", **changed: str) -> str:
        """The URL of the same, with some fields changed."""
        wanted = self.filter
        before = "" if self.before is None else f"{self.before.ended!r}~{self.before.id}"
        fields = {
            "server": wanted.server,
            "tool": wanted.tool,
            "caller": wanted.caller,
            "outcome": wanted.outcome,
            "range": self.range,
            "from": self.since,
            "to": self.until,
            "before": before,
        } | changed
        given = urlencode({name: value for name, value in fields.items() if value})
        return f"{page}?{given}" if given else page


def shown_range(console: Console, wanted: WantedCalls) -> str:
    """The range of the charts; a week needs a history."""
    return wanted.range if wanted.range in ranges_of(console) else DEFAULT_RANGE


def ranges_of(console: Console) -> list[str]:
    """The ranges that there is something to show for."""
    return [key for key in RANGES if key in IN_MEMORY or console.history is not None]


async def matching(console: Console, wanted: WantedCalls, limit: int) -> list[HistoryCall]:
    """The newest calls that match, of memory and of the history."""
    before, earlier = wanted.before, list[HistoryCall]()
    remembered = [one.recorded() for one in console.calls.ended]
    if console.history is not None:
        # By whole seconds, so that the same question is asked again.
        since = wanted.filter.since
        asked = replace(wanted.filter, since=since if since is None or wanted.since else float(int(since)))
        earlier = await console.history.calls(asked, limit, before)

    def merged() -> list[HistoryCall]:
        found = {call.id: call for call in earlier}
        for call in remembered:
            if wanted.filter.matches(call) and (before is None or _position_of(call) < before):
                found[call.id] = call
        return sorted(found.values(), key=_position_of, reverse=True)[:limit]

    return merged() if limit <= MOST_AT_ONCE else await asyncio.to_thread(merged)


def position_after(calls: list[HistoryCall]) -> str:
    """The position where the next page begins, as it stands in a URL."""
    last = _position_of(calls[-1])
    return f"{last.ended!r}~{last.id}"


def _position_of(call: HistoryCall) -> CallPosition:
    return CallPosition(call.ended or call.at, call.id)


def _position(text: str) -> CallPosition | None:
    ended, _, id_ = text.partition("~")
    with suppress(ValueError):
        return CallPosition(float(ended), id_[:LONGEST_FIELD])
    return None


def _seconds(text: str) -> float | None:
    """A time such as `2026-11-19T04:05`, in UTC unless it says otherwise."""
    with suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    return None
