"""Why a rule matches or not, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolbus.config.settings.policy import Hint
from toolbus.core.values.records import JSON
from toolbus.policy.hints import holds
from toolbus.policy.rule import SELECTOR, Rule
from toolbus.policy.target import Target, label

_ABSENT: Mapping[Hint, str] = {
    "destructive": "its server says that it is not destructive",
    "writes": "its server says that it is read-only",
    "open-world": "its server says that it is not open-world",
    "read-only": "it is not marked read-only",
    "idempotent": "it is not marked idempotent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one rule says about a target."""

    rule: int
    matched: bool | None
    """None if that depends on arguments that are not known."""
    decides: bool
    """Whether it is the rule that decides, as far as that is known."""
    text: str

    @property
    def label(self) -> str:
        """The rule, such as `policy[2]`."""
        return label(self.rule)

    def __str__(self) -> str:
        return f"{self.label}: {self.text}"


def explained(
    rules: Sequence[Rule], target: Target, arguments: Mapping[str, JSON] | None, decisive: int | None
) -> list[Step]:
    """A step for each rule, up to the one that ends the search; `decisive` is the one that decides."""
    steps: list[Step] = []
    for rule in rules:
        found = rule.holds(target)
        matched, text = _comparison(rule, target, arguments)
        decides = rule.index == decisive
        ends = matched is True and found == "yes"
        if ends and not decides and decisive is not None:
            text += f"; {label(decisive)} is stricter"
        steps.append(Step(rule=rule.index, matched=matched, decides=decides, text=text))
        if ends:
            break
    return steps


def _comparison(rule: Rule, target: Target, arguments: Mapping[str, JSON] | None) -> tuple[bool | None, str]:
    """Whether a rule matches, and why."""
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


def _other_target(rule: Rule, target: Target) -> str:
    key = SELECTOR[target.kind]
    if not rule.config.selects:
        return f"is about {'tools' if rule.config.hint else 'what is asked of servers'}"
    if rule.patterns[target.kind]:
        return f"{key} do not match"
    about = [other for kind, other in SELECTOR.items() if rule.patterns[kind]]
    return f"is about {' and '.join(about)}"


def _selection(rule: Rule, target: Target) -> str:
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
    """Where the arguments do not match; without their values, which may be secret."""
    faults = rule.validator.faults(dict(arguments)) if rule.validator else []
    if not faults:
        return "its arguments do not match"
    first = min(faults, key=lambda fault: len(fault.path))
    where = f" at /{'/'.join(map(str, first.path))}" if first.path else ""
    keyword = "" if first.keyword is None else f" ({first.keyword})"
    return f"its arguments do not match{where}{keyword}"
