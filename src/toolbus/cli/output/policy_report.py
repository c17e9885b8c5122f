"""The effects of a policy on the tools that are listed, and its decisions; for a person or as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from toolbus.bus.rules.effects import Effects, RuleFacts
from toolbus.cli.output.review import rule_json
from toolbus.cli.output.screen import Cell, Screen, escaped_json, visible
from toolbus.config.settings.policy import SELECTORS, Action, Hint, PolicyRule, rate_words, rule_words
from toolbus.config.settings.quotas import CallQuota, quota_words
from toolbus.core.text.display import counted
from toolbus.core.text.text import exact
from toolbus.core.values.records import JSON, ToolSpec
from toolbus.policy.answers import StoredAnswer
from toolbus.policy.dead import DeadRule
from toolbus.policy.rule import holds, label
from toolbus.policy.rules import ExplainedStep, PolicyTarget

STYLES: Mapping[Action, str] = {"allow": "green", "ask": "yellow", "deny": "red"}
DONE: Mapping[Action, str] = {"allow": "allowed by {}", "ask": "{} asks a person", "deny": "denied by {}"}
_EXAMPLE = 'policy: [{tools: "notes/forget", do: deny}, {hint: destructive, do: ask}]'
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFacts:
    """A stored answer, and whether it still counts."""

    stored: StoredAnswer
    rule: str | None
    """The rule that asked; None if it was changed or removed."""
    expired: str | None
    """The reason why it has expired."""

    @property
    def since(self) -> str:
        """The time when it was given."""
        return datetime.fromtimestamp(self.stored.time, UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A whole policy, for the tools that are listed."""

    rules: Sequence[RuleFacts]
    tools: int
    effects: Effects
    answers: Sequence[AnswerFacts]
    quotas: Sequence[CallQuota]
    down: Mapping[str, str | None]
    """Servers that could not be listed, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One decision."""

    target: PolicyTarget | None
    """None for a tool of the bus itself, which is always allowed."""
    spec: ToolSpec | None
    arguments: Mapping[str, JSON] | None
    """As they would be sent; None if none were given."""
    action: Action
    rule: PolicyRule | None
    """The rule that decides."""
    steps: Sequence[ExplainedStep]
    answers: Sequence[AnswerFacts]
    depends: bool
    """Whether arguments, which are not known, may lead to another decision."""

    @property
    def settled(self) -> AnswerFacts | None:
        """The stored answer to the rule that asks; answers of a program's users are ignored."""
        return next((one for one in self.answers if self.action == "ask" and self._counts(one)), None)

    def _counts(self, answer: AnswerFacts) -> bool:
        return answer.expired is None and answer.rule == self.label and not answer.stored.about.user

    @property
    def label(self) -> str | None:
        """The rule that decides, such as `policy[2]`."""
        return next((step.label for step in self.steps if step.decides), None)

    @property
    def name(self) -> str:
        """The target, as rules name it."""
        if self.target is not None:
            return f"{self.target.server}/{self.target.name}"
        return "" if self.spec is None else str(self.spec.origin)


def for_user(user: str) -> str:
    """The user who answered, for the end of a sentence."""
    return f" by {visible(user)}" if user else ""


# The whole policy


def print_overview(screen: Screen, overview: Overview) -> None:
    """Print the rules in order, what they do to the tools, and the stored answers."""
    if not overview.rules:
        screen.line("no policy: every call is allowed; to change that, add rules to the config, such as:")
        screen.line(_EXAMPLE)
    rules: list[list[Cell]] = [
        [label(index), (one.rule.do, STYLES[one.rule.do]), (_count(one), "dim"), exact(rule_words(one.rule))]
        for index, one in enumerate(overview.rules)
    ]
    screen.rows(rules, indent=0, max_lines=None)
    for one in overview.rules:
        for dead in one.dead:
            kind, style = ("note", "dim") if dead.is_note else ("error", "red")
            screen.line((exact(f"{kind}: {dead}"), style))
    if overview.rules:
        screen.line(_effects_line(overview))
    if denied := overview.effects.denied:
        screen.line(f"denied: {', '.join(exact(str(spec.origin)) for spec in denied)}")
    if overview.quotas:
        screen.line(("quotas", "bold"))
        screen.rows([[f"quotas[{n}]", exact(quota_words(one))] for n, one in enumerate(overview.quotas)])
    if overview.answers:
        screen.line(("stored answers", "bold"))
        screen.rows([_answer_row(one) for one in overview.answers], max_lines=None)
    for alias, reason in overview.down.items():
        screen.note(f"the tools of {alias!r} are not counted: {reason or 'it is not connected'}")


def overview_json(overview: Overview) -> JSON:
    """The same as JSON."""
    return {
        "rules": [
            {
                "label": label(index),
                "rule": rule_json(one.rule),
                "tools": one.decides,
                "depends_on_arguments": one.depends,
                "problems": [dead_json(dead) for dead in one.dead],
            }
            for index, one in enumerate(overview.rules)
        ],
        "tools": overview.tools,
        "denied": [str(spec.origin) for spec in overview.effects.denied],
        "asked": [str(spec.origin) for spec in overview.effects.asked],
        "quotas": [one.model_dump(mode="json", exclude_defaults=True) for one in overview.quotas],
        "answers": [answer_json(one) for one in overview.answers],
        "not_listed": dict(overview.down),
    }


def dead_json(dead: DeadRule) -> JSON:
    """A rule without effect, as JSON."""
    return {
        "severity": "info" if dead.is_note else "error",
        "problem": dead.problem,
        "near_misses": list(dead.near_misses),
    }


def answer_json(answer: AnswerFacts) -> JSON:
    """A stored answer as JSON."""
    about = answer.stored.about
    return {
        "answer": answer.stored.answer,
        "kind": about.kind,
        "name": about.target,
        "user": about.user,
        "rule": answer.rule,
        "since": datetime.fromtimestamp(answer.stored.time, UTC).isoformat(),
        "expired": answer.expired,
    }


def _effects_line(overview: Overview) -> str:
    denied, asked = len(overview.effects.denied), len(overview.effects.asked)
    allowed = overview.tools - denied - asked
    return f"{counted(overview.tools, 'tool')}: {denied} denied, {asked} asked about, {allowed} allowed"


def _count(one: RuleFacts) -> str:
    """The number of tools that a rule decides about, or its other targets."""
    about = [key for key in SELECTORS if getattr(one.rule, key)]
    if about and "tools" not in about and not one.decides and not one.depends:
        return " and ".join(about)
    certain = [counted(one.decides, "tool")] if one.decides or not one.depends else []
    possible = [f"up to {counted(one.depends, 'tool')}"] if one.depends else []
    return ", ".join(certain + possible)


def _answer_row(one: AnswerFacts) -> list[Cell]:
    about = one.stored.about
    state = "" if one.expired is None else f", expired: {one.expired}"
    said = f"since {one.since}{for_user(about.user)}{state}"
    return [one.stored.answer, exact(about.target), (one.rule or "", "dim"), (said, "dim")]


# One decision


def print_explanation(screen: Screen, found: Explanation) -> None:
    """Print the decision, and each rule up to the one that decides."""
    decision, style = _decision(found)
    has_reason = found.rule is not None and found.rule.reason and not found.depends and not found.settled
    reason = f": {exact(found.rule.reason or '')}" if has_reason and found.rule is not None else ""
    screen.line((exact(found.name), "bold"), ": ", (decision, style), reason)
    rows: list[list[Cell]] = [
        [(step.label, "bold" if step.decides else "dim"), exact(step.text)] for step in found.steps
    ]
    rows.extend([(name, "dim"), exact(text)] for name, text in _remarks(found))
    screen.rows(rows, max_lines=None)


def _decision(found: Explanation) -> tuple[str, str]:
    """The decision about the call, and its style."""
    if found.depends:
        return "depends on its arguments", STYLES["ask"]
    if (settled := found.settled) is not None:
        if settled.stored.answer == "never":
            return f"denied: you answered never on {settled.since}", STYLES["deny"]
        return f"allowed: you answered always on {settled.since}", STYLES["allow"]
    if found.label is not None:
        return DONE[found.action].format(found.label), STYLES[found.action]
    why = "no rule matches" if found.target else "it is part of toolbus"
    return f"allowed: {why}", STYLES["allow"]


def explanation_json(found: Explanation) -> JSON:
    """The same as JSON."""
    target, rule = found.target, found.rule
    return {
        "kind": "tool" if target is None else target.kind,
        "name": found.name,
        "tool": None if found.spec is None else found.spec.name,
        "arguments": None if found.arguments is None else dict(found.arguments),
        "decision": found.action,
        "depends_on_arguments": found.depends,
        "rule": found.label,
        "reason": None if rule is None else rule.reason,
        "steps": [
            {"rule": step.label, "matches": step.matched, "decides": step.decides, "why": step.text}
            for step in found.steps
        ],
        "hints": _hints_json(target),
        "per_minute": None if rule is None else rule.per_minute,
        "per_run": None if rule is None else rule.per_run,
        "answers": [answer_json(one) for one in found.answers],
    }


def _remarks(found: Explanation) -> Iterator[tuple[str, str]]:
    if found.arguments is None and any(step.matched is None for step in found.steps):
        yield "arguments", "none given; pass them to see which rules match them"
    elif found.arguments is not None and found.spec is not None:
        yield "arguments", escaped_json(dict(found.arguments))
    if found.target is not None and found.target.kind == "tool":
        yield "hints", _hint_words(found.target)
    if found.rule is not None and (limits := rate_words(found.rule)):
        yield "limits", limits
    for one in found.answers:
        user = for_user(one.stored.about.user)
        state = "" if one.expired is None else f"; expired: {one.expired}"
        yield "answer", f"{one.stored.answer}, stored {one.since}{user}{state}"


def _hint_words(target: PolicyTarget) -> str:
    spec = target.spec
    counts = ", ".join(_counts_as(target))
    if spec is not None and spec.trusted:
        return f"{counts or 'none'}; the config vouches for them (trust_annotations or hints)"
    sent = ", ".join(f"{name}: {escaped_json(value)}" for name, value in _sent(spec).items())
    claims = f"its server says {sent}, but is not trusted" if sent else "its server is not trusted"
    return f"{counts}; {claims}"


def _counts_as(target: PolicyTarget) -> list[str]:
    hints: tuple[Hint, ...] = get_args(Hint)
    return [hint for hint in hints if holds(hint, target.spec) == "yes"]


def _sent(spec: ToolSpec | None) -> dict[str, JSON]:
    return (
        {} if spec is None else {name: spec.annotations[name] for name in _HINTS if name in spec.annotations}
    )


def _hints_json(target: PolicyTarget | None) -> JSON:
    if target is None or target.kind != "tool":
        return None
    is_trusted = target.spec is not None and target.spec.trusted
    return {"trusted": is_trusted, "sent": _sent(target.spec), "counts_as": list[JSON](_counts_as(target))}
