"""One rule of a policy, ready to be compared with targets."""

from collections.abc import Mapping
from typing import cast

from toolbus.config.settings.policy import PolicyRule
from toolbus.core.values.records import JSON, JSONObject
from toolbus.policy.hints import Holds, holds
from toolbus.policy.patterns import Pattern
from toolbus.policy.target import Kind, Target, Verdict
from toolbus.schema.validator import Validator
from toolbus.schema.values import entries_of, items_of

SELECTOR: Mapping[Kind, str] = {
    "tool": "tools",
    "resource": "resources",
    "prompt": "prompts",
    "request": "requests",
}
"""The key of a rule for each kind of target."""
_BY_NAME = frozenset(["type", "properties", "required", "title", "description"])
"""Keywords that are about arguments of given names only."""


class Rule:
    """One rule, with its patterns and schema compiled."""

    def __init__(self, index: int, rule: PolicyRule) -> None:
        self.index = index
        self.config = rule
        self.verdict = Verdict(action=rule.do, rule=index, reason=rule.reason or "")
        self.loosens = rule.do == "allow"
        self.patterns: dict[Kind, tuple[Pattern, ...]] = {
            kind: tuple(Pattern(text, loosens=self.loosens) for text in getattr(rule, key))
            for kind, key in SELECTOR.items()
        }
        self.validator = Validator(rule.arguments) if rule.arguments else None
        """The condition on arguments; None if there is none."""
        self._named = _named(rule.arguments)

    def selects(self, target: Target) -> bool:
        """Whether it is about this target, by its patterns."""
        if self.config.selects:
            return any(pattern.matches(target) for pattern in self.patterns[target.kind])
        return target.kind == "tool" if self.config.hint else target.kind != "request"

    def holds(self, target: Target) -> Holds:
        """Whether its patterns and its hint match."""
        if not self.selects(target):
            return "no"
        hint = self.config.hint
        return "yes" if hint is None else holds(hint, target.spec)

    def accepts(self, arguments: Mapping[str, JSON]) -> bool:
        """Whether its condition on arguments holds; what cannot be checked is decided the strict way."""
        found = self.checked(arguments)
        return not self.loosens if found is None else found

    def checked(self, arguments: Mapping[str, JSON]) -> bool | None:
        """Whether its condition on arguments holds; None if that cannot be checked."""
        if self.validator is None:
            return True
        given = cast("JSON", arguments if isinstance(arguments, dict) else dict(arguments))
        found = self.validator.accepts(given)
        if found is None and self._named is not None:
            # Too large, perhaps only because of an argument that the condition is not about.
            return self.validator.accepts({name: given[name] for name in self._named if name in given})
        return found


def _named(schema: JSONObject | None) -> frozenset[str] | None:
    """The arguments that a condition is about; None if it may be about any."""
    if schema is None or not _BY_NAME.issuperset(schema):
        return None
    return frozenset([*entries_of(schema.get("properties")), *items_of(schema.get("required"))])
