"""The health of a server: its calls, crash loops, and last 24 hours."""

import time

from toolbus.bus.inner import tenant_of
from toolbus.console.call_log import Counts
from toolbus.console.console import Console
from toolbus.console.elements import Child

HOUR = 3600.0
LOOP_SECONDS = 300.0
LOOP_ENDS = 3
"""Ends of a session within `LOOP_SECONDS` that make a crash loop."""


def counts_of(console: Console, alias: str) -> Counts:
    """The last calls of a server."""
    own = [one for one in console.calls.ended if one.server == alias]
    times = sorted(one.elapsed for one in own if one.elapsed is not None)
    p95 = times[min(len(times) - 1, int(len(times) * 0.95))] if times else None
    return Counts(calls=len(own), errors=sum(one.is_error for one in own), p95=p95)


def is_looping(console: Console, alias: str) -> bool:
    """Whether a server ends again and again."""
    return _ends_since(console, alias, time.time() - LOOP_SECONDS) >= LOOP_ENDS


def restarts_per_hour(console: Console, alias: str) -> int:
    """The number of sessions that were lost within an hour."""
    return _ends_since(console, alias, time.time() - HOUR)


def strip_of(console: Console, alias: str) -> Child:
    """The states of a server in the last 24 hours."""
    return None


def _ends_since(console: Console, alias: str, since: float) -> int:
    link = tenant_of(console.bus).servers.links.get(alias)
    return 0 if link is None else sum(end.was_ready and end.at >= since for end in link.ends)
