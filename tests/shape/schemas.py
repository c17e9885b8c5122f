"""Schemas for property tests: `messy` ones like from any server, `sane` ones like from a careful server."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.shape.reading import JSON, is_list, is_object
from toolbus.records import Origin, ToolSpec

Draw = Callable[[st.SearchStrategy[Any]], Any]

TYPES = ["string", "number", "integer", "boolean", "object", "array", "null"]
NAMES = ["a", "b", "c", "kind"]
ODD_NAMES = ["", "a b", "filter[id]", "$top", "x" * 80, "ünï", "1st", "a.b", "a/b", "~", "*", "a_b"]

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "y", "xx", "kind"])
wild_numbers = st.sampled_from([float("nan"), float("inf"), 10**400, -1, 2.0, 0.5, 1e308, 2**70])
values: st.SearchStrategy[JSON] = st.recursive(
    scalars | wild_numbers,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=5,
)
REFERENCES = [
    "#",
    "#/$defs/one",
    "#/$defs/two",
    "#/definitions/one",
    "#/properties/a",
    "#/$defs/a~1b",
    "#/$defs/a%20b",
    "#anchor",
    "#/nowhere",
    "https://example.com/schema.json",
    "other.json#/x",
    7,
]


def _keyword(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[tuple[str, JSON]]:
    one = inner | st.booleans()
    many = st.lists(one, max_size=3)
    named = st.dictionaries(st.sampled_from(NAMES + ODD_NAMES), one, max_size=3)
    number = st.integers(-3, 5) | st.floats(allow_nan=True) | wild_numbers
    table: dict[str, st.SearchStrategy[JSON]] = {
        "type": st.sampled_from([*TYPES, "any", "str", "Object", "file", "", 3, None])
        | st.lists(st.sampled_from([*TYPES, "any"]), max_size=3),
        **dict.fromkeys(
            ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"], named
        ),
        **dict.fromkeys(["anyOf", "oneOf", "allOf", "prefixItems"], many),
        **dict.fromkeys(["items", "additionalItems"], one | many),
        **dict.fromkeys(["additionalProperties", "not", "if", "then", "else", "contains"], one),
        **dict.fromkeys(["propertyNames", "unevaluatedProperties", "unevaluatedItems"], one),
        **dict.fromkeys(["minimum", "maximum", "multipleOf", "minLength", "maxItems", "minContains"], number),
        **dict.fromkeys(["exclusiveMinimum", "exclusiveMaximum"], number | st.booleans()),
        "required": st.lists(st.sampled_from(NAMES + ODD_NAMES), max_size=3) | st.booleans(),
        "enum": st.lists(values, max_size=4),
        **dict.fromkeys(["const", "default", "examples", "example", "x-unknown"], values),
        "pattern": st.sampled_from(["^a+$", "(?=x)", "[", "[[a]", r"\p{L}", "a{1,2}"]),
        "format": st.sampled_from(["date-time", "uri", "uuid", "int32", "double", "made-up"]),
        **dict.fromkeys(["$ref", "$dynamicRef"], st.sampled_from(REFERENCES)),
        **dict.fromkeys(["$anchor", "$id", "id"], st.sampled_from(["anchor", "https://example.com/x"])),
        **dict.fromkeys(
            ["$schema", "$comment", "title", "description"], st.sampled_from(["A", "words", "A b"])
        ),
        **dict.fromkeys(["nullable", "uniqueItems", "deprecated", "readOnly"], st.booleans()),
        "dependencies": named | st.dictionaries(st.sampled_from(NAMES), st.just(["a"]), max_size=2),
        "dependentRequired": st.dictionaries(
            st.sampled_from(NAMES + ODD_NAMES), st.just(["a b"]), max_size=2
        ),
    }
    # Sometimes the value has nothing to do with the keyword.
    return st.sampled_from(sorted(table)).flatmap(
        lambda key: st.tuples(st.just(key), st.one_of(table[key], table[key], table[key], values))
    )


def _messy(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    return st.lists(_keyword(inner), max_size=6).map(dict)


_anything: st.SearchStrategy[JSON] = st.one_of(st.builds(dict[str, JSON]), st.booleans(), values)
messy: st.SearchStrategy[JSON] = st.recursive(_anything, _messy, max_leaves=12).filter(is_object)


@st.composite
def sane(draw: st.DrawFn, depth: int = 3) -> JSON:
    """A schema with types, bounds, choices and objects that means what it says."""
    kinds = ["string", "integer", "number", "boolean", "enum", "const", "nullable"]
    kinds += ["object", "object", "array", "anyOf", "oneOf", "allOf", "tuple", "any"] if depth else []
    schema: dict[str, JSON] = _SANE[draw(st.sampled_from(kinds))](draw, depth)
    if draw(st.booleans()):
        schema["description"] = "some words"
    return schema


@st.composite
def sane_tops(draw: st.DrawFn) -> JSON:
    """The same for the arguments of a tool, with a definition that is used twice."""
    schema = _object(draw, 3)
    if draw(st.booleans()):
        schema["$defs"] = {"one": draw(sane(depth=1))}
        schema["properties"]["b"] = {"$ref": "#/$defs/one"}
        schema["properties"]["c"] = {"type": "array", "items": {"$ref": "#/$defs/one"}}
    if draw(st.integers(0, 5)) == 0:
        schema["anyOf"] = [{"required": ["a"]}, {"required": ["b"]}]
    return schema


def _object(draw: Draw, depth: int) -> dict[str, JSON]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": {name: draw(sane(depth - 1)) for name in names},
    }
    if draw(st.booleans()):
        schema["required"] = [name for name in names if draw(st.booleans())]
    closed = draw(st.sampled_from(["absent", "absent", False, True, {"type": "integer"}]))
    return schema if closed == "absent" else {**schema, "additionalProperties": closed}


def _array(draw: Draw, depth: int) -> dict[str, JSON]:
    schema: dict[str, JSON] = {"type": "array", "items": draw(sane(depth - 1))}
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["minItems", "maxItems"]))] = draw(st.integers(0, 2))
    return schema


def _number(draw: Draw, kind: str) -> dict[str, JSON]:
    schema: dict[str, JSON] = {"type": kind}
    if draw(st.booleans()):
        key = draw(
            st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
        )
        schema[key] = draw(st.integers(1, 3))
    return schema


def _string(draw: Draw, _: int) -> dict[str, JSON]:
    schema: dict[str, JSON] = {"type": "string"}
    if draw(st.booleans()):
        schema |= draw(
            st.sampled_from(
                [{"minLength": 1}, {"maxLength": 1}, {"pattern": "^x"}, {"format": "uuid"}, {"default": "x"}]
            )
        )
    return schema


def _choice(draw: Draw, depth: int, key: str) -> dict[str, JSON]:
    schema: dict[str, JSON] = {key: draw(st.lists(sane(depth - 1), min_size=1, max_size=3))}
    if draw(st.integers(0, 3)) == 0:
        schema["type"] = draw(st.sampled_from(["string", "object", ["integer", "null"]]))
    return schema


_SANE: dict[str, Callable[[Draw, int], dict[str, JSON]]] = {
    "string": _string,
    "integer": lambda draw, _: _number(draw, "integer"),
    "number": lambda draw, _: _number(draw, "number"),
    "boolean": lambda draw, _: {"type": "boolean"},
    "enum": lambda draw, _: {"enum": draw(st.lists(scalars, min_size=1, max_size=4, unique_by=repr))},
    "const": lambda draw, _: {"const": draw(scalars)},
    "nullable": lambda draw, _: {"type": [draw(st.sampled_from(TYPES[:4])), "null"]},
    "object": _object,
    "array": _array,
    "tuple": lambda draw, depth: {
        "type": "array",
        "prefixItems": draw(st.lists(sane(depth - 1), min_size=1, max_size=2)),
        **draw(st.sampled_from([{}, {"items": False}, {"minItems": 1}])),
    },
    "anyOf": lambda draw, depth: _choice(draw, depth, "anyOf"),
    "oneOf": lambda draw, depth: _choice(draw, depth, "oneOf"),
    "allOf": lambda draw, depth: _choice(draw, depth, "allOf"),
    "any": lambda draw, _: {},
}


def instance(draw: Draw, schema: JSON, root: JSON) -> JSON:
    """A value that likely fits a schema; whether it does is for a validator to say."""
    if not is_object(schema) or draw(st.integers(0, 19)) == 0:
        return draw(scalars)
    if "$ref" in schema:
        return instance(draw, root["$defs"]["one"], root)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema and "properties" not in schema:
            return instance(draw, draw(st.sampled_from(schema[key])), root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type", "string")
    kind = draw(st.sampled_from(kind)) if is_list(kind) else kind
    if kind == "object":
        needed = schema.get("required", ())
        names = [n for n in schema.get("properties", {}) if n in needed or draw(st.booleans())]
        return {name: instance(draw, schema["properties"][name], root) for name in names}
    if kind == "array":
        count = draw(st.integers(schema.get("minItems", 0), max(schema.get("minItems", 0), 2)))
        positions = [*schema.get("prefixItems", ()), *[schema.get("items", {})] * count]
        return [instance(draw, inner, root) for inner in positions[: max(count, 1)]]
    return draw(_LEAVES[kind])


_LEAVES: dict[str, st.SearchStrategy[JSON]] = {
    "string": st.sampled_from(["", "x", "xy", "y"]),
    "integer": st.integers(-1, 4),
    "number": st.integers(-1, 4) | st.sampled_from([0.5, 2.5]),
    "boolean": st.booleans(),
    "null": st.none(),
}


def tool(schema: JSON, **more: JSON) -> ToolSpec:
    """A spec around a schema."""
    known: dict[str, JSON] = {
        "name": "demo",
        "origin": Origin("server", "demo"),
        "description": "Does things.",
    }
    return ToolSpec(**{**known, "input_schema": schema, **more})
