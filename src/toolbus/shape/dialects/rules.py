"""What each provider takes, as tables. The sources stand beside the checkers in tests/shape/providers.py,
which are written from the same pages but share nothing with this file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolbus.core.records import JSON
from toolbus.schema.keywords import CHECKS, words


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
    """Which names are taken: `legal` as a whole; `illegal` finds the characters to replace."""

    legal: re.Pattern[str]
    illegal: re.Pattern[str]
    longest: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One provider's rules for the schema of a tool."""

    keywords: frozenset[str]
    """What may stand in a schema; anything else is told in the description."""
    not_at_top: frozenset[str] = frozenset()
    tool_names: NameRule
    property_names: NameRule | None = None
    subset: bool = False
    """Each place has one type or is a choice of such; without it, any draft 2020-12 schema is taken."""
    exact: bool = False
    """Only a conversion without loss counts."""
    formats: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """In a subset: the formats of each type."""
    nullable_keyword: bool = False
    """Whether null is a keyword beside the type, not a type of its own."""
    string_enums_only: bool = False
    description_in_choice: bool = True
    """Whether a description may stand beside `anyOf`."""
    complete: bool = False
    """Whether an object has to list `properties` and an array has to have `items`."""
    longest_description: int | None = None


_NAMES = NameRule(legal=re.compile(r"[a-zA-Z0-9_-]{1,64}"), illegal=re.compile(r"[^a-zA-Z0-9_-]"))
_CHOICES = words("anyOf oneOf allOf")
_EVERYTHING = frozenset(CHECKS)
# OpenAI refuses `propertyNames` also where nothing is strict. Of the other conditional keywords nothing is
# published; the model reads them in the description just as well, and a refusal would cost the whole request.
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
    # No longer published by OpenAI, but still the answer of Azure and of gateways that take the same form.
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
"""Any value for a provider that wants a type everywhere (arrays of arrays are not foreseen)."""
