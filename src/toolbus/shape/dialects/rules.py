"""The limits of each provider, as tables. The sources are listed in tests/shape/providers.py, whose checkers
are written from the same pages but share nothing with this file."""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from hashlib import sha256

from toolbus.core.values.records import JSON
from toolbus.schema.keywords import CHECKS, words
from toolbus.schema.values import is_array, is_object


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
    """The accepted names: `legal` matches a whole name; `illegal` finds the characters to replace."""

    legal: re.Pattern[str]
    illegal: re.Pattern[str]
    longest: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One provider's rules for the schema of a tool."""

    keywords: frozenset[str]
    """The keywords that a schema may have; anything else goes into the description."""
    not_at_top: frozenset[str] = frozenset()
    tool_names: NameRule
    property_names: NameRule | None = None
    subset: bool = False
    """Each place has one type or is a choice of such; otherwise any draft 2020-12 schema is accepted."""
    exact: bool = False
    """Only a conversion without loss is accepted."""
    formats: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """In a subset: the supported formats of each type."""
    nullable_keyword: bool = False
    """Whether `nullable` beside the type replaces the type null."""
    string_enums_only: bool = False
    description_in_choice: bool = True
    """Whether a description may be beside `anyOf`."""
    complete: bool = False
    """Whether an object must have `properties` and an array `items`."""
    longest_description: int | None = None


_NAMES = NameRule(legal=re.compile(r"[a-zA-Z0-9_-]{1,64}"), illegal=re.compile(r"[^a-zA-Z0-9_-]"))
_CHOICES = words("anyOf oneOf allOf")
_EVERYTHING = frozenset(CHECKS)
# OpenAI rejects `propertyNames` even without strict mode. Nothing is published about the other conditional
# keywords; the model can read them in the description, and a rejection would cost the whole request.
_CONDITIONAL = words(
    "propertyNames if then else dependentRequired dependentSchemas contains minContains maxContains "
    "unevaluatedItems unevaluatedProperties contentSchema"
)
_NUMBERS = words("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")

ANTHROPIC = Rules(
    keywords=_EVERYTHING,
    not_at_top=_CHOICES,
    tool_names=_NAMES,
    property_names=NameRule(
        legal=re.compile(r"[a-zA-Z0-9_.-]{1,64}"), illegal=re.compile(r"[^a-zA-Z0-9_.-]")
    ),
)
OPENAI = Rules(
    keywords=_EVERYTHING - _CONDITIONAL,
    not_at_top=_CHOICES | words("enum const not"),
    tool_names=_NAMES,
    complete=True,
    # No longer published by OpenAI, but still enforced by Azure and by compatible gateways.
    longest_description=1024,
)
OPENAI_STRICT = Rules(
    keywords=words("type properties required additionalProperties items anyOf enum pattern format minItems")
    | words("maxItems description")
    | _NUMBERS,
    tool_names=_NAMES,
    subset=True,
    exact=True,
    formats={"string": words("date-time time date duration email hostname ipv4 ipv6 uuid")},
    longest_description=1024,
)
GOOGLE = Rules(
    keywords=words("type properties required items anyOf enum format pattern minimum maximum description")
    | words("minItems maxItems minLength maxLength minProperties maxProperties"),
    tool_names=NameRule(
        legal=re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}"), illegal=re.compile(r"[^a-zA-Z0-9_-]")
    ),
    property_names=NameRule(
        legal=re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"), illegal=re.compile(r"[^a-zA-Z0-9_]")
    ),
    subset=True,
    formats={
        "string": words("date-time"),
        "integer": words("int32 int64"),
        "number": words("float double"),
    },
    nullable_keyword=True,
    string_enums_only=True,
    description_in_choice=False,
)

_SCALARS: tuple[JSON, ...] = tuple({"type": name} for name in ("string", "number", "boolean", "object"))
ANY_TYPED: JSON = {"anyOf": [*_SCALARS, {"type": "array", "items": {"anyOf": [*_SCALARS]}}]}
"""Any value for a provider that requires a type everywhere (arrays of arrays are not supported)."""


def legal_name(name: str, rule: NameRule, taken: Set[str] = frozenset()) -> str:
    """The name if it is legal, else the most similar legal one that is not taken."""
    if rule.legal.fullmatch(name):
        return name
    plain = rule.illegal.sub("_", name)
    if not rule.legal.fullmatch(plain[:1] or "_"):
        plain = f"_{plain}"
    if rule.legal.fullmatch(plain) and plain not in taken:
        return plain
    # Digest of the name, not a counter, so that the order of properties does not matter.
    return f"{plain[: rule.longest - 9]}_{sha256(name.encode(errors='replace')).hexdigest()[:8]}"


class PropertyNames:
    """The provider's names for all properties of one schema; two never become the same."""

    __slots__ = ("_chosen", "_root", "_rule", "_taken")

    def __init__(self, rule: NameRule | None, root: JSON) -> None:
        self._rule = rule
        self._root = root
        self._chosen: dict[str, str] = {}
        self._taken: set[str] | None = None

    def __getitem__(self, name: str) -> str:
        if self._rule is None or self._rule.legal.fullmatch(name):
            return name
        if name not in self._chosen:
            if self._taken is None:
                self._taken = _all_keys(self._root)
            self._chosen[name] = legal_name(name, self._rule, self._taken)
            self._taken.add(self._chosen[name])
        return self._chosen[name]


def _all_keys(root: JSON) -> set[str]:
    found: set[str] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if is_object(node):
            found.update(node)
            waiting.extend(node.values())
        elif is_array(node):
            waiting.extend(node)
    return found
