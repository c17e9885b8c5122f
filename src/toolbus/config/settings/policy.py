"""The `policy` of a bus: ordered rules, of which the first that matches decides about a call."""

import json
import re
import warnings
from collections.abc import Collection
from typing import Annotated, Literal, TypeAlias

from pydantic import Strict, WithJsonSchema

from toolbus.config.base import TEXT_SCHEMA, ConfigModel, Count, TextOrTexts
from toolbus.config.location import Location, near_miss
from toolbus.core.values.records import JSON, JSONObject
from toolbus.schema.keywords import ANNOTATIONS, CHECKS, IDENTITY, REFERENCES, SCHEMA_KEYWORDS, subschemas
from toolbus.schema.patterns import MOST_STATES, state_count, usable
from toolbus.schema.validator import InvalidSchema, Validator
from toolbus.schema.values import entries_of, is_object

Action: TypeAlias = Literal["allow", "ask", "deny"]
Hint: TypeAlias = Literal["destructive", "read-only", "writes", "idempotent", "open-world"]
SELECTORS = ("tools", "resources", "prompts", "requests")
"""The keys that name what a rule is about."""
REQUESTS = ("elicitation", "sampling", "roots")
"""Requests that a server may send to its client."""

_Patterns = Annotated[
    TextOrTexts,
    WithJsonSchema({"anyOf": [TEXT_SCHEMA, {"type": "array", "items": TEXT_SCHEMA, "minItems": 1}]}),
]


class PolicyRule(ConfigModel):
    """One rule: which operations it is about, and what happens to them; all conditions must hold."""

    _keeps_null = True

    tools: _Patterns = ()
    """Globs on `server/tool`, with the server's own names; one or a list."""
    resources: _Patterns = ()
    """Globs on `server/uri`."""
    prompts: _Patterns = ()
    """Globs on `server/prompt`."""
    requests: _Patterns = ()
    """Globs on what a server asks of you: `server/elicitation`, `server/sampling`, `server/roots`."""
    hint: Hint | None = None
    """Tools that their server marks so; a mark only tightens the policy without `trust_annotations: true`."""
    arguments: dict[str, object] | None = None
    """A JSON Schema that the arguments match, as they are sent."""
    do: Action
    """Allow it, ask a person, or deny it."""
    reason: str | None = None
    """The reason, for the model and the person who is asked."""
    per_minute: Count | None = None
    """The most calls per minute that the rule lets through."""
    per_run: Count | None = None
    """The most calls that it lets through in one run of an agent; elsewhere, until the bus closes."""

    @property
    def selects(self) -> bool:
        """Whether it names what it is about; otherwise it is about all tools, resources and prompts."""
        return any(getattr(self, key) for key in SELECTORS)

    def _check(self) -> None:
        self._check_patterns(Location())
        self._check_conditions(Location())

    def _check_patterns(self, location: Location) -> None:
        for key in SELECTORS:
            if key in self.model_fields_set and not getattr(self, key):
                raise location.error("is empty; name a pattern, or leave it out", key)
            for pattern in getattr(self, key):
                if "/" not in pattern and pattern != "*":
                    example = "server/tool" if key == "tools" else f"server/{key.removesuffix('s')}"
                    raise location.error(f"{pattern!r} names no server; write {example}, or */{pattern}", key)
        for pattern in self.requests:
            what = pattern.rpartition("/")[2]
            if what not in REQUESTS and not any(sign in what for sign in "*?["):
                raise location.error(f"a server asks for {', '.join(REQUESTS)}, not {what!r}", "requests")

    def _check_conditions(self, location: Location) -> None:
        if self.hint is not None and (self.resources or self.prompts or self.requests):
            raise location.error("is about tools; remove the other patterns", "hint")
        if self.do == "deny" and (self.per_minute or self.per_run):
            raise location.error(
                "a rule that denies has no rate", "per_minute" if self.per_minute else "per_run"
            )
        if self.arguments is not None:
            check_condition(self.arguments, location, "arguments")


def rule_words(rule: PolicyRule) -> str:
    """The subject, conditions, limits and reason of a rule on one line, without its action."""
    about = [f"{key} {', '.join(patterns)}" for key in SELECTORS if (patterns := getattr(rule, key))]
    if not about:
        about = ["every tool" if rule.hint is not None else "every tool, resource and prompt"]
    words = " and ".join(about)
    if rule.hint is not None:
        words += f" marked {rule.hint}"
    if rule.arguments is not None:
        words += f" with arguments that match {json.dumps(rule.arguments, ensure_ascii=False)}"
    limits = rate_words(rule)
    words += f", {limits}" if limits else ""
    return f"{words}: {rule.reason}" if rule.reason else words


def rate_words(rule: PolicyRule) -> str:
    """The rates of the rule; empty if it has none."""
    rates = (rule.per_minute, "minute"), (rule.per_run, "run")
    found = [f"{most:,} per {period}" for most, period in rates if most is not None]
    return f"at most {' and '.join(found)}" if found else ""


RULES_EXPECTED = "expected a list of rules such as {tools: 'files/*', do: ask}"
Rules: TypeAlias = Annotated[tuple[PolicyRule, ...], Strict(False)]


def check_aliases(aliases: Collection[str], location: Location) -> None:
    """ConfigError for aliases like `a` and `a/b`: a rule on `a/b/x` would be about tools of both."""
    for alias in aliases:
        for other in aliases:
            if alias.startswith(f"{other}/"):
                problem = f"patterns on {alias!r} would also match tools of {other!r}; rename one of the two"
                raise location.error(problem, "policy")


_UNCHECKED = ("format", "contentEncoding", "contentMediaType", "contentSchema")
_KNOWN = frozenset([*CHECKS, *ANNOTATIONS, *IDENTITY, *REFERENCES, *SCHEMA_KEYWORDS, "nullable"])


def check_condition(schema: JSONObject, location: Location, key: str) -> None:
    """ConfigError if the schema is invalid, or if part of it would not be checked."""
    try:
        Validator(schema)
    except InvalidSchema as error:
        raise location.error(f"is not a JSON Schema that can be used: {error}", key) from None
    for steps, node in subschemas(schema):
        for keyword, value in node.items():
            problem = _problem(keyword, value, at_top=not steps)
            if problem is not None:
                raise location.error(problem, ".".join((key, *steps, keyword)))


def _problem(keyword: str, value: JSON, *, at_top: bool) -> str | None:
    """The reason why a keyword would not be checked."""
    if keyword in _UNCHECKED:
        return "is not checked; describe the text with 'pattern'"
    patterns = (
        [value] if keyword == "pattern" else entries_of(value) if keyword == "patternProperties" else ()
    )
    for pattern in patterns:
        if isinstance(pattern, str) and usable(pattern) is None:
            if not _is_regular_expression(pattern):
                return f"{pattern!r} is not a regular expression"
            return (
                f"{pattern!r} cannot be checked; use a shorter one, without look-around and back references"
            )
    if keyword in _KNOWN:
        return None
    if at_top and is_object(value):
        return "unknown keyword; the names of arguments belong under 'properties'"
    return f"unknown keyword{near_miss(keyword, _KNOWN)}"


def _is_regular_expression(pattern: str) -> bool:
    """Whether a pattern that cannot be checked may be one all the same."""
    if state_count(pattern) > MOST_STATES:
        return True  # too long to tell
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
