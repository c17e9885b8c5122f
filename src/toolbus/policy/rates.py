"""How often a rule lets calls through: per minute, and per run of an agent."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from math import ceil

from toolbus.config.settings.policy import PolicyRule
from toolbus.core.operation.operation import Caller

_MINUTE = 60.0
_MOST_RUNS = 10_000
"""Runs that are remembered; the one that was idle longest is forgotten first."""


class Rates:
    """The calls that each rule let through."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: dict[str, deque[float]] = {}
        self._runs: OrderedDict[tuple[str, str, str, str], int] = OrderedDict()

    def over(self, rule: PolicyRule, label: str, caller: Caller) -> str | None:
        """Why the call is one too many; None if it is not, and then it is counted."""
        if rule.per_minute is None and rule.per_run is None:
            return None
        now = self._clock()
        recent = self._of_minute(rule, label)
        if recent is not None and len(recent) == recent.maxlen and now - recent[0] < _MINUTE:
            wait = max(1, ceil(_MINUTE - (now - recent[0])))
            return f"{label} allows {_times(rule.per_minute)} per minute; try again in {wait} s"
        run = (label, caller.user, caller.session, caller.run)
        made = self._runs.get(run, 0)
        if rule.per_run is not None and made >= rule.per_run:
            return f"{label} allows {_times(rule.per_run)} per run, and this run has used them up"
        if recent is not None:
            recent.append(now)  # the oldest one leaves
        if rule.per_run is not None:
            self._count(run, made + 1)
        return None

    def _of_minute(self, rule: PolicyRule, label: str) -> deque[float] | None:
        """The times of the last calls, as many as a minute may have."""
        if rule.per_minute is None:
            return None
        recent = self._recent.get(label)
        if recent is None or recent.maxlen != rule.per_minute:
            recent = self._recent[label] = deque(recent or (), rule.per_minute)
        return recent

    def _count(self, run: tuple[str, str, str, str], made: int) -> None:
        self._runs[run] = made
        self._runs.move_to_end(run)
        if len(self._runs) > _MOST_RUNS:
            self._runs.popitem(last=False)


def _times(count: int | None) -> str:
    return "1 call" if count == 1 else f"{count} calls"
