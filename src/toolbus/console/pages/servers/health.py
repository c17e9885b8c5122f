"""The health of a server: its calls, crash loops, and last 24 hours."""

from toolbus.console.console import Console
from toolbus.console.elements import Child
from toolbus.console.pages.calls.charts import state_strip
from toolbus.console.record.counts import Counts

HOUR = 3600


def counts_of(console: Console, alias: str) -> Counts:
    """The calls of a server in the last hour."""
    return console.calls.counts.last(HOUR, alias)


def is_looping(console: Console, alias: str) -> bool:
    """Whether a server crashes again and again."""
    return console.states.is_crash_looping(alias)


def crashes_per_hour(console: Console, alias: str) -> int:
    """The number of sessions that were lost within an hour; a restart by hand is none."""
    return len(console.states.crashes(alias, HOUR))


def strip_of(console: Console, alias: str) -> Child:
    """The states of a server in the last 24 hours."""
    return state_strip(console.states, alias)
