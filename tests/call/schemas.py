"""Schemas, values that are nearly valid, and the verdict of jsonschema, for the property tests."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.inside.schema import InvalidSchema, Validator, is_object
from toolbus.records import JSON

Draw = Callable[[st.SearchStrategy[Any]], Any]
Call = tuple[dict[str, JSON], dict[str, JSON]]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
NAMES = ["a", "b", "file_path", "limit"]
SLIPS = ["none"] * 12 + ["spelt", "spelt", "wrapped", "shouted", "absent", "nonsense"]
WORDS = [
    "",
    "a",
    "Red",
    "red",
    "5",
    "3.0",
    "true",
    "null",
    "None",
    '{"a": "1"}',
    "[1, 2]",
    "x,y",
    "```json\n[1]\n```",
]
DRAFTS = [
    None,
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]

modest = settings(deadline=None, suppress_health_check=SLOW, derandomize=True)

scalars: st.SearchStrategy[JSON] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([0.5, 1.0, 5.0, -2.25, 1e300, float("inf"), 10**40]),
    st.sampled_from(WORDS),
    st.text(max_size=4),
)
values: st.SearchStrategy[JSON] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "A", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
small = st.integers(0, 3)
texts: st.SearchStrategy[JSON] = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "minLength": small,
        "maxLength": small,
        "pattern": st.sampled_from(["^[a-z]+$", "5"]),
        "enum": st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True),
        "default": st.sampled_from(WORDS),
        "format": st.sampled_from(["date", "uri", "odd"]),
    },
)
numbers: st.SearchStrategy[JSON] = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number", ["integer", "null"]])},
    optional={
        "minimum": small,
        "maximum": st.integers(2, 9),
        "multipleOf": st.sampled_from([2, 0.5]),
        "enum": st.lists(
            st.sampled_from([1, 2, 1.0, True, None, "1"]), min_size=1, max_size=3, unique_by=repr
        ),
        "default": scalars,
    },
)
others: st.SearchStrategy[JSON] = st.one_of(
    st.sampled_from(
        [True, False, {}, {"type": "boolean"}, {"type": "null"}, {"type": ["string", "boolean"]}]
    ),
    scalars.map(lambda value: {"const": value}),
    st.sampled_from([{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/one", "minLength": 1}, {"$ref": "#"}]),
)


def _composed(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        objects(inner),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={
                "items": inner,
                "minItems": small,
                "maxItems": st.integers(1, 3),
                "uniqueItems": st.booleans(),
            },
        ),
        *(branches.map(lambda parts, key=key: {key: parts}) for key in ("anyOf", "oneOf", "allOf")),
        inner.map(lambda schema: {"anyOf": [schema, {"type": "null"}]}),
        inner.map(lambda schema: {"not": schema}),
    )


@st.composite
def objects(draw: Draw, inner: st.SearchStrategy[JSON]) -> dict[str, JSON]:
    """An object's schema."""
    properties = draw(st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3))
    needed = draw(st.lists(st.sampled_from(sorted(properties)), max_size=2, unique=True))
    extra = draw(
        st.sampled_from([{}, {"additionalProperties": False}, {"dependentRequired": {"a": ["b"]}}, None])
    )
    if extra is None:
        extra = {"patternProperties": {"^x": draw(inner)}, "additionalProperties": draw(inner)}
    return {"type": "object", "properties": properties, **({"required": needed} if needed else {}), **extra}


schemas: st.SearchStrategy[JSON] = st.recursive(texts | numbers | others, _composed, max_leaves=5)


@st.composite
def documents(draw: Draw) -> dict[str, JSON]:
    """A whole input schema, of some draft."""
    root = draw(objects(schemas))
    draft = draw(st.sampled_from(DRAFTS))
    rare = {"minProperties": 2} if draw(st.integers(0, 9)) == 9 else {}
    return {**root, **rare, "$defs": {"one": draw(schemas)}, **({"$schema": draft} if draft else {})}


@st.composite
def calls(draw: Draw) -> Call:
    """A schema, and arguments that fit it, or would but for some slips."""
    document = draw(documents())
    arguments = _fitting(draw, document, document, 0)
    unknown = draw(st.sampled_from([{}, {}, {}, {"x": 1}, {"FilePath": "a"}]))
    return document, {**arguments, **unknown}


def _value(draw: Draw, schema: JSON, document: JSON, depth: int) -> JSON:
    """A value for a place: it fits, or did before it slipped, or is nonsense."""
    if not is_object(schema) or depth > 4:
        return draw(scalars)
    fitting = _fitting(draw, schema, document, depth)
    match draw(st.sampled_from(SLIPS)):
        case "spelt":
            return fitting if is_object(fitting) and len(fitting) > 9 else json.dumps(fitting)[:60]
        case "wrapped":
            return [fitting]
        case "shouted":
            return fitting.upper() if isinstance(fitting, str) else fitting
        case "absent":
            return draw(st.sampled_from([None, "null", ""]))
        case "nonsense":
            return draw(values)
        case _:
            return fitting


def _fitting(draw: Draw, schema: dict[str, JSON], document: JSON, depth: int) -> JSON:
    if "$ref" in schema:
        target = document if schema["$ref"] == "#" else document["$defs"]["one"]
        return _value(draw, target, document, depth + 1)
    for keyword in ("enum", "anyOf", "oneOf", "allOf"):
        if keyword in schema:
            chosen = draw(st.sampled_from(schema[keyword]))
            return chosen if keyword == "enum" else _value(draw, chosen, document, depth + 1)
    return schema["const"] if "const" in schema else _of_type(draw, schema, document, depth)


def _of_type(draw: Draw, schema: dict[str, JSON], document: JSON, depth: int) -> JSON:
    match schema.get("type"):
        case "object":
            given = schema["properties"].items()
            kept = [
                (name, inner)
                for name, inner in given
                if name in schema.get("required", ()) or draw(st.booleans())
            ]
            return {name: _value(draw, inner, document, depth + 1) for name, inner in kept}
        case "array":
            size = draw(st.integers(schema.get("minItems", 0), 3))
            return [_value(draw, schema.get("items", True), document, depth + 1) for _ in range(size)]
        case "string":
            return draw(st.sampled_from(WORDS))
        case "integer" | "number":
            return draw(st.integers(2, 6))
        case "boolean":
            return draw(st.booleans())
        case _:
            return draw(scalars)


def verdict(schema: JSON, value: JSON) -> bool | None:
    """The verdict of jsonschema, the second judge; None if it cannot tell."""
    validators: Any = import_module("jsonschema.validators")
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        json.dumps([schema, value], allow_nan=False)  # an infinite number is not JSON
        kind.check_schema(schema)
        return kind(schema, registry=import_module("referencing").Registry()).is_valid(value)
    except Exception:  # endless references, integers too large to print, and the like
        return None


def validator_of(schema: JSON) -> Validator | None:
    """The validator; None if the schema cannot be used, so that nothing is checked."""
    try:
        return Validator(schema)
    except InvalidSchema:
        return None
