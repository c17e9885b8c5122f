"""Counts of the decisions of each rule; nothing is counted until somebody looks at them."""

import time
from dataclasses import dataclass
from threading import Lock

from toolbus.core.operation.operation import Decision, Operation, Trail


@dataclass(slots=True, kw_only=True)
class RuleCount:
    """The decisions of one rule."""

    allowed: int = 0
    denied: int = 0
    last: float = 0.0
    """The time of the last one, in seconds since the epoch."""

    @property
    def decisions(self) -> int:
        return self.allowed + self.denied


class RuleCounts:
    """Counts the decisions of the guards of a bus, by the labels of the rules. Any thread may use it."""

    def __init__(self) -> None:
        self.since = time.time()
        """The time of the first count."""
        self._by_rule: dict[str | None, RuleCount] = {}
        self._lock = Lock()

    def begin(self) -> None:
        """Begin again: the rules are others."""
        with self._lock:
            self.since, self._by_rule = time.time(), {}

    def add(self, decision: Decision) -> None:
        with self._lock:
            found = self._by_rule.get(decision.rule)
            if found is None:
                found = self._by_rule[decision.rule] = RuleCount()
            if decision.action == "allow":
                found.allowed += 1
            else:
                found.denied += 1
            found.last = time.time()

    def of(self, rule: str | None) -> RuleCount:
        """The decisions of a rule, by its label; None for the calls that no rule matched."""
        with self._lock:
            return self._by_rule.get(rule) or RuleCount()

    @property
    def of_views(self) -> int:
        """The decisions by rules of views."""
        with self._lock:
            return sum(one.decisions for rule, one in self._by_rule.items() if rule and "." in rule)


class CountedDecisions:
    """Counts the decisions that a trail records."""

    def __init__(self, counts: RuleCounts, trail: Trail | None) -> None:
        """Without a trail, they are only counted."""
        self._counts = counts
        self._trail = trail

    def decided(self, operation: Operation, decision: Decision, /) -> None:
        """Record a decision, and count it: one that cannot be recorded is a denial of another kind."""
        if self._trail is not None:
            self._trail.decided(operation, decision)
        self._counts.add(decision)
