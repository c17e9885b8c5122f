"""The policies that decide about one operation: the policy of the bus and the policies of its views.

All of them decide, and the strictest decision wins.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from toolbus.config.settings.policy import Action, PolicyRule
from toolbus.core.operation.operation import Caller
from toolbus.core.text.canonical import digest_of
from toolbus.core.values.records import JSON
from toolbus.policy.answers import rule_digest
from toolbus.policy.rule import STRICTNESS
from toolbus.policy.rules import Policy, PolicyTarget, Verdict

_MOST_USERS = 10_000
"""Users whose calls are counted; the one that came first is forgotten first."""


class Layer:
    """A policy, with the rates of its rules.

    Layers with the same rules are equal: they decide alike, though each one counts its own calls.
    """

    def __init__(self, rules: Sequence[PolicyRule], prefix: str = "") -> None:
        """`prefix` distinguishes its rules from the bus's own: `view.policy[2]`."""
        self.policy = Policy(rules)
        self._rates: OrderedDict[str, Rates] = OrderedDict()
        """By user; each has as many calls as a rule allows."""
        self.prefix = prefix
        self._limited = {n for n, rule in enumerate(rules) if rule.per_minute or rule.per_run}
        self._digests: dict[int, str] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layer):
            return NotImplemented
        if self is other:
            return True
        # By the digest as well: for Python, `const: true` and `const: 1` are equal rules.
        rules = (self.prefix, self.policy.rules) == (other.prefix, other.policy.rules)
        return rules and self.content == other.content

    def __hash__(self) -> int:
        return hash((self.prefix, self.content))

    def label(self, verdict: Verdict) -> str | None:
        return None if verdict.rule is None else f"{self.prefix}{verdict.label}"

    @cached_property
    def content(self) -> str:
        """The digest of all its rules."""
        return digest_of([rule_digest(rule) for rule in self.policy.rules])

    def limits(self, verdict: Verdict) -> bool:
        """Whether the rule that decided has a rate."""
        return verdict.rule in self._limited

    def over(self, verdict: Verdict, caller: Caller) -> str | None:
        """Count a call that a rule lets through; why it is one too many, or None."""
        if verdict.rule is None or verdict.rule not in self._limited:
            return None
        rates = self._rates.get(caller.user)
        if rates is None:
            rates = self._rates[caller.user] = Rates()
            if len(self._rates) > _MOST_USERS:
                self._rates.popitem(last=False)
        return rates.over(self.policy.rules[verdict.rule], self.label(verdict) or "", caller)

    def digest(self, verdict: Verdict) -> str:
        assert verdict.rule is not None, "without a rule, nobody is asked"
        if verdict.rule not in self._digests:
            self._digests[verdict.rule] = rule_digest(self.policy.rules[verdict.rule])
        return self._digests[verdict.rule]


@dataclass(frozen=True, slots=True)
class LayerDecision:
    """The decision of one layer."""

    layer: Layer
    verdict: Verdict

    @property
    def action(self) -> Action:
        return self.verdict.action

    @property
    def label(self) -> str | None:
        return self.layer.label(self.verdict)

    @property
    def denial(self) -> str:
        """The reason for denying a call, for the model and the person."""
        reason = f": {self.verdict.reason}" if self.verdict.reason else ""
        return f"rule {self.label} denies it{reason}"


def rulings(
    layers: Iterable[Layer], target: PolicyTarget, arguments: Mapping[str, JSON]
) -> list[LayerDecision]:
    """The decisions of all layers about an operation, the strictest first; the bus before its views."""
    found = [LayerDecision(layer, layer.policy.decide(target, arguments)) for layer in layers]
    return sorted(found, key=lambda one: (-STRICTNESS[one.action], one.label is None))


def removal(layers: Iterable[Layer], target: PolicyTarget) -> LayerDecision | None:
    """The rule that denies something with any arguments."""
    for layer in layers:
        if (verdict := layer.policy.removes(target)) is not None:
            return LayerDecision(layer, verdict)
    return None


def layers_of(policies: Iterable[object]) -> tuple[Layer, ...]:
    """The policies of the views of an operation."""
    found = tuple(policies)
    for one in found:
        if not isinstance(one, Layer):
            raise TypeError(f"Operation.policies must come from a view, not {type(one).__name__}")
    return found  # pyright: ignore[reportReturnType]  # each was checked


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
        """The limit that the call exceeds; None if it does not, and then it is counted."""
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
