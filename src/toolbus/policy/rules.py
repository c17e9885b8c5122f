"""Decide by ordered rules, of which the first that matches counts.

A rule that matches only by the word of an untrusted server does not end the search. It counts if it is
stricter than what the other rules decide, so a server cannot loosen the policy with what it claims.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolbus.config.settings.policy import Hint, PolicyRule
from toolbus.core.values.argument_restore import EMPTY
from toolbus.core.values.records import JSON, JSONObject
from toolbus.policy.dead import DeadRule, dead_rules
from toolbus.policy.rule import (
    SELECTOR,
    STRICTNESS,
    UNMATCHED,
    Kind,
    PolicyTarget,
    Rule,
    Verdict,
    holds,
    label,
)

__all__ = ["DeadRule", "ExplainedStep", "Kind", "Policy", "PolicyTarget", "Verdict"]

_MOST_KNOWN = 2_000
_LONGEST_NAME = 500
"""Longer names are not remembered."""


class _Candidates(NamedTuple):
    """The rules that may decide about one target."""

    annotations: JSONObject
    trusted: bool
    verdict: Verdict | None
    """The decision, if it does not depend on arguments."""
    rules: tuple[Rule, ...]
    """The matching rules, up to the first that matches with any arguments."""
    claimed: tuple[Rule, ...]
    """Those that match by the word of the server, the strictest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedStep:
    """The effect of one rule on a target."""

    rule: int
    matched: bool | None
    """None if that depends on arguments that are not known."""
    decides: bool
    """Whether it is the rule that decides, as far as that is known."""
    text: str

    @property
    def label(self) -> str:
        return label(self.rule)

    def __str__(self) -> str:
        return f"{self.label}: {self.text}"


class Policy:
    """The rules of a config, a view or an administrator."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self.rules = tuple(rules)
        self._compiled = tuple(Rule(index, rule) for index, rule in enumerate(self.rules))
        self._known: dict[tuple[Kind, str, str], _Candidates] = {}

    def decide(self, target: PolicyTarget, arguments: Mapping[str, JSON]) -> Verdict:
        """The decision about a call with these arguments."""
        spec = target.spec
        found = self._known.get((target.kind, target.server, target.name))
        if (
            found is None
            or found.annotations is not (EMPTY if spec is None else spec.annotations)
            or found.trusted is not (spec is not None and spec.trusted)
        ):
            found = self._candidates(target)
        return found.verdict or _decided(found, arguments)

    def removes(self, target: PolicyTarget) -> Verdict | None:
        """The denial that applies to all arguments; None if there is none."""
        found = self._candidates(target)
        for rule in found.claimed:
            if rule.config.do == "deny" and rule.validator is None:
                return rule.verdict
        last = _last(found)
        denies = last.action == "deny" and all(rule.config.do == "deny" for rule in found.rules)
        return last if denies else None

    def may_ask(self, target: PolicyTarget) -> bool:
        """Whether there may be arguments about which a person has to be asked."""
        if self.removes(target) is not None:
            return False
        found = self._candidates(target)
        actions = {_last(found).action, *(rule.config.do for rule in found.rules)}
        claims_ask = any(rule.config.do == "ask" for rule in found.claimed)
        return "ask" in actions or (claims_ask and "allow" in actions)

    def explain(self, target: PolicyTarget, arguments: Mapping[str, JSON] | None) -> list[ExplainedStep]:
        """The effect of each rule, up to the one that ends the search; None for any arguments."""
        by_default = arguments is None
        verdict = _default(self._candidates(target)) if by_default else self.decide(target, arguments)
        return explained(self._compiled, target, arguments, verdict.rule)

    def dead(self, offered: Mapping[str, Sequence[PolicyTarget]], servers: Collection[str]) -> list[DeadRule]:
        """The rules, or patterns of rules, that have no effect.

        `offered` has what each listed server offers, before anything is removed; `servers` are the aliases
        of all servers.
        """
        return dead_rules(self._compiled, offered, servers)

    def _candidates(self, target: PolicyTarget) -> _Candidates:
        """The rules for a target; remembered, because every call asks for them."""
        key = (target.kind, target.server, target.name)
        spec = target.spec
        annotations, trusted = (EMPTY, False) if spec is None else (spec.annotations, spec.trusted)
        found = self._known.get(key)
        if found is not None and found.annotations is annotations and found.trusted is trusted:
            return found
        found = self._compare(target, annotations, trusted)
        if len(target.name) <= _LONGEST_NAME:
            # A server may offer new names without end, and a model may read any URI.
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _compare(self, target: PolicyTarget, annotations: JSONObject, trusted: bool) -> _Candidates:
        rules: list[Rule] = []
        claimed: list[Rule] = []
        for rule in self._compiled:
            match rule.holds(target):
                case "no":
                    continue
                case "word":
                    if not rule.loosens:
                        claimed.append(rule)
                case "yes":
                    rules.append(rule)
                    if rule.validator is None:
                        break
        claimed.sort(key=lambda rule: -STRICTNESS[rule.config.do])
        found = _Candidates(annotations, trusted, None, tuple(rules), tuple(claimed))
        if any(rule.validator is not None for rule in (*rules, *claimed)):
            return found
        return found._replace(verdict=_decided(found, EMPTY))


def _decided(candidates: _Candidates, arguments: Mapping[str, JSON]) -> Verdict:
    verdict = UNMATCHED
    for rule in candidates.rules:
        if rule.accepts(arguments):
            verdict = rule.verdict
            break
    for rule in candidates.claimed:
        if STRICTNESS[rule.verdict.action] <= STRICTNESS[verdict.action]:
            break  # the others are not stricter, either
        if rule.accepts(arguments):
            return rule.verdict
    return verdict


def _last(candidates: _Candidates) -> Verdict:
    """The decision if no condition on arguments holds."""
    rules = candidates.rules
    return rules[-1].verdict if rules and rules[-1].validator is None else UNMATCHED


def _default(candidates: _Candidates) -> Verdict:
    """The same, with what the server claims."""
    last = _last(candidates)
    for rule in candidates.claimed:
        if rule.validator is None and STRICTNESS[rule.config.do] > STRICTNESS[last.action]:
            return rule.verdict
    return last


# Why a rule matches or not, in words

_ABSENT: Mapping[Hint, str] = {
    "destructive": "its server says that it is not destructive",
    "writes": "its server says that it is read-only",
    "open-world": "its server says that it is not open-world",
    "read-only": "it is not marked read-only",
    "idempotent": "it is not marked idempotent",
}


def explained(
    rules: Sequence[Rule], target: PolicyTarget, arguments: Mapping[str, JSON] | None, decisive: int | None
) -> list[ExplainedStep]:
    """A step for each rule, up to the one that ends the search; `decisive` is the one that decides."""
    steps: list[ExplainedStep] = []
    for rule in rules:
        found = rule.holds(target)
        matched, text = _comparison(rule, target, arguments)
        decides = rule.index == decisive
        ends = matched is True and found == "yes"
        if ends and not decides and decisive is not None:
            text += f"; {label(decisive)} is stricter"
        steps.append(ExplainedStep(rule=rule.index, matched=matched, decides=decides, text=text))
        if ends:
            break
    return steps


def _comparison(
    rule: Rule, target: PolicyTarget, arguments: Mapping[str, JSON] | None
) -> tuple[bool | None, str]:
    action = rule.config.do
    if not rule.selects(target):
        return False, _other_target(rule, target)
    hint = rule.config.hint
    found = "yes" if hint is None else holds(hint, target.spec)
    if hint is not None and found == "no":
        return False, f"the hint {hint!r} does not match: {_ABSENT[hint]}"
    matched, condition = _condition(rule, arguments)
    if matched is False:
        return False, condition
    if found == "word":
        if rule.loosens:
            return (
                False,
                "matches only by the word of a server that is not trusted, which cannot allow anything",
            )
        return matched, (
            f"matches by the word of a server that is not trusted, which can only make it stricter: {action}"
            + condition
        )
    return matched, f"{_selection(rule, target)}{condition}: {action}"


def _other_target(rule: Rule, target: PolicyTarget) -> str:
    key = SELECTOR[target.kind]
    if not rule.config.selects:
        return f"is about {'tools' if rule.config.hint else 'what is asked of servers'}"
    if rule.patterns[target.kind]:
        return f"{key} do not match"
    about = [other for kind, other in SELECTOR.items() if rule.patterns[kind]]
    return f"is about {' and '.join(about)}"


def _selection(rule: Rule, target: PolicyTarget) -> str:
    if rule.config.selects:
        pattern = next(each for each in rule.patterns[target.kind] if each.matches(target))
        alike = "" if pattern.matches_as_written(target) else ", which it resembles"
        chosen = f"matches {pattern.text!r}{alike}"
    else:
        chosen = "matches"
    hint = rule.config.hint
    return chosen if hint is None else f"{chosen}, with the hint {hint!r}"


def _condition(rule: Rule, arguments: Mapping[str, JSON] | None) -> tuple[bool | None, str]:
    """Whether the condition on arguments holds, and the end of a sentence about that."""
    if rule.validator is None:
        return True, ""
    if arguments is None:
        return None, ", if its arguments do"
    accepted = rule.checked(arguments)
    if accepted is None:
        if rule.loosens:
            return False, "its arguments cannot be checked (too large or too deep), so it does not allow them"
        return True, ", as its arguments cannot be checked (too large or too deep)"
    return (True, ", and its arguments") if accepted else (False, _fault(rule, arguments))


def _fault(rule: Rule, arguments: Mapping[str, JSON]) -> str:
    """The place where the arguments do not match; without their values, which may be secret."""
    faults = rule.validator.faults(dict(arguments)) if rule.validator else []
    if not faults:
        return "its arguments do not match"
    first = min(faults, key=lambda fault: len(fault.path))
    where = f" at /{'/'.join(map(str, first.path))}" if first.path else ""
    keyword = "" if first.keyword is None else f" ({first.keyword})"
    return f"its arguments do not match{where}{keyword}"
