"""The checkers know what each provider refuses: every rule is shown something that breaks it."""

from typing import Any

import pytest

from tests.shape import judges
from tests.shape.providers import CHECKERS

JSON = Any


def chat(strict: bool = False, **schema: JSON) -> JSON:
    given: JSON = {"type": "object", "properties": {}, **schema}
    function: JSON = {"name": "demo", "description": "", "parameters": given}
    return {"type": "function", "function": {**function, "strict": True} if strict else function}


def strict(**properties: JSON) -> JSON:
    return chat(strict=True, properties=properties, required=list(properties), additionalProperties=False)


def claude(**schema: JSON) -> JSON:
    return {"name": "demo", "description": "", "input_schema": {"type": "object", **schema}}


def gemini(*, tool: str = "demo", **properties: JSON) -> JSON:
    return {"name": tool, "description": "", "parameters": {"type": "object", "properties": properties}}


TEXT: JSON = {"type": "string"}
LONG_ENUM = [f"{number:0100}" for number in range(251)]


def nested(levels: int) -> JSON:
    inner = nested(levels - 1) if levels > 1 else TEXT
    return {"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": False}


GOOD: list[tuple[str, JSON]] = [
    ("openai", chat()),
    ("openai-strict", strict(a=TEXT, b={"anyOf": [{"type": "integer"}, {"type": "null"}]})),
    ("anthropic", claude(properties={"a": {"$comment": "x", "oneOf": [TEXT]}})),
    ("google", gemini(a={"type": "string", "nullable": True})),
]
REFUSED: list[tuple[str, JSON, str]] = [
    ("openai", chat(anyOf=[{}]), "/: anyOf at the top"),
    ("openai", chat(type="array"), "/: type is not object"),
    ("openai", chat(properties={"a": {"type": "array"}}), "/properties/a: array schema missing items"),
    ("openai", chat(properties={"a": True}), "/properties/a: a boolean is no schema object"),
    (
        "openai",
        chat(properties={"a": {"propertyNames": {}}}),
        "/properties/a: propertyNames",
    ),
    ("openai", chat(properties={"a": {"$ref": "#"}}), "/properties/a: a reference is left"),
    ("openai", chat(properties={"a": {"pattern": "["}}), "/properties/a: pattern cannot be read"),
    ("openai", chat(properties={"a": {"type": "any"}}), "/: no draft 2020-12 schema"),
    ("openai", chat(properties={"a": {"default": float("nan")}}), "/: cannot be sent as JSON"),
    ("openai", {"type": "function", "function": {"name": "a b", "parameters": {}}}, "name: 'a b'"),
    ("openai-responses", {"type": "function", "name": "demo", "parameters": {}}, "strict: missing"),
    ("openai-strict", chat(), "strict: not said"),
    ("openai-strict", chat(strict=True, properties={"a": TEXT}), "/: additionalProperties is not false"),
    ("openai-strict", chat(strict=True, properties={"a": TEXT}), "/: not every property is required"),
    ("openai-strict", strict(a={}), "/properties/a: no type"),
    (
        "openai-strict",
        strict(a={"type": "string", "minLength": 1}),
        "/properties/a: minLength",
    ),
    (
        "openai-strict",
        strict(a={"type": "string", "format": "uri"}),
        "/properties/a: 'uri'",
    ),
    ("openai-strict", strict(a={"type": "string", "pattern": "(?!a)"}), "/properties/a: lookaround"),
    ("openai-strict", strict(a={"type": "string", "enum": [1]}), "/properties/a: enum value 1"),
    ("openai-strict", strict(a={"type": "array"}), "/properties/a: array schema missing items"),
    ("openai-strict", strict(a=nested(11)), "/: 12 levels of nesting"),
    ("openai-strict", strict(a={"type": "integer", "enum": list(range(1001))}), "/: too large"),
    (
        "openai-strict",
        strict(a={"type": "string", "enum": LONG_ENUM}),
        "/properties/a: enum",
    ),
    ("anthropic", claude(allOf=[{}]), "/: allOf at the top"),
    ("anthropic", claude(properties={"a b": TEXT}), "/: property key 'a b'"),
    ("anthropic", claude(required=True), "/: no draft 2020-12 schema"),
    ("anthropic", {"name": "demo", "description": ""}, "input_schema: no schema"),
    ("google", gemini(tool="1demo", a=TEXT), "name: '1demo'"),
    ("google", gemini(), "parameters: not an object with properties"),
    ("google", gemini(a={}), "/properties/a: type None"),
    ("google", gemini(a={"anyOf": [TEXT], "description": "x"}), "/properties/a: anyOf does not stand alone"),
    ("google", gemini(a={"type": "integer", "enum": ["1"]}), "/properties/a: enum"),
    ("google", gemini(a={"type": "string", "format": "uri"}), "/properties/a: format 'uri'"),
    ("google", gemini(a={"type": "array"}), "/properties/a: items: missing field"),
    (
        "google",
        gemini(a={"type": "string", "minimum": 1}),
        "/properties/a: minimum: unknown",
    ),
    ("google", gemini(a={"type": "object", "required": ["x"]}), "/properties/a: required: property 'x'"),
    ("google", gemini(**{"a-b": TEXT}), "/: property 'a-b'"),
    ("mcp", {"name": "demo"}, "tool: no inputSchema"),
]


@pytest.mark.parametrize(("dialect", "value"), GOOD, ids=[case[0] for case in GOOD])
def test_what_is_allowed_passes(dialect: str, value: JSON) -> None:
    assert CHECKERS[dialect](value) == []
    assert judges.refusals(dialect, value) == []


@pytest.mark.parametrize(("dialect", "value", "violation"), REFUSED, ids=[f"{c[0]}: {c[2]}" for c in REFUSED])
def test_what_is_refused_is_found(dialect: str, value: JSON, violation: str) -> None:
    assert any(found.startswith(violation) for found in CHECKERS[dialect](value)), CHECKERS[dialect](value)


@pytest.mark.parametrize(
    ("dialect", "value"),
    [
        ("openai", {"type": "function", "function": {}}),
        ("openai-responses", {"type": "function", "name": "demo"}),
        ("openai-strict", strict(a={"oneOf": [TEXT]})),
        ("openai-strict", strict(a={"type": "string", "maxLength": 1})),
        ("anthropic", {"name": "demo"}),
        ("google", gemini(a={"$ref": "#"})),
        ("google", gemini(a={"type": "made-up", "enum": [1]})),
    ],
)
def test_a_judge_refuses(dialect: str, value: JSON) -> None:
    if (why := judges.missing(dialect)) is not None:
        pytest.skip(why)
    assert judges.refusals(dialect, value) != []
