"""Schemas that are made to take long, with a value for each."""

import json
from collections.abc import Callable
from typing import Any

from tests.hostile.multiplying import MULTIPLYING

Schema = dict[str, Any]


def of_x(schema: Any) -> Schema:
    """An object with one entry."""
    return {"type": "object", "properties": {"x": schema}, "required": ["x"]}


def _steps(count: int, step: Callable[[int], Schema], last: Schema) -> Schema:
    return {**{f"a{n}": step(n) for n in range(count)}, f"a{count}": last}


def doubling(keyword: str) -> Schema:
    """A schema whose references double forty times."""
    steps = _steps(40, lambda n: {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2}, {"type": "integer"})
    return {**of_x({"$ref": "#/$defs/a0"}), "$defs": steps}


def _doubling_inside(step: Callable[[int], Schema]) -> Schema:
    """A schema whose references double for every level of the value."""
    return {"$defs": _steps(40, step, {"type": "integer"}), "$ref": "#/$defs/a0"}


def _tree(keyword: str, depth: int) -> Schema:
    return {keyword: [_tree(keyword, depth - 1)] * 2} if depth else {"minLength": 3}


def _tower(height: int) -> Schema:
    found: Schema = {"type": "string"}
    for n in range(height):
        found = {"if": {"minLength": n}, "then": found, "else": {"pattern": f"^(a+)+{n}$"}}
    return found


def _many(count: int, entry: Any, **more: Any) -> Schema:
    return {"type": "object", "properties": {f"k{n}": entry for n in range(count)}, **more}


def _inside(levels: int) -> Any:
    return json.loads('{"x":' * levels + '"a"' + "}" * levels)


LONG = 10**400
PATTERNS: dict[str, tuple[Schema, Any, bool | None]] = {
    "nested repetition": (of_x({"type": "string", "pattern": "^(a+)+$"}), {"x": "a" * 30_000 + "!"}, False),
    "a back-reference": (of_x({"type": "string", "pattern": r"^(a+)+\1$"}), {"x": "a" * 40 + "!"}, None),
    "a look-ahead": (of_x({"type": "string", "pattern": "^(?=(a+)+$).*$"}), {"x": "a" * 40 + "!"}, None),
    "many stars": (of_x({"type": "string", "pattern": ".*.*.*.*.*x"}), {"x": "a" * 20_000}, False),
    "repeated repeats": (
        of_x({"type": "string", "pattern": "((a{0,1000}){0,1000}){0,1000}$"}),
        {"x": "a" * 2_000 + "!"},
        None,
    ),
    "many states": (of_x({"type": "string", "pattern": "[ab]{0,1900}c"}), {"x": "ab" * 50_000}, None),
    "many patterns": (of_x({"oneOf": [{"pattern": f"^a{n}"} for n in range(5_000)]}), {"x": "a"}, None),
    "many large patterns": (
        _many(200, {"pattern": r"[\w\p{L}]{1,200}"}) | {"required": ["k0"]},
        {"k0": "a" * 100},
        None,
    ),
    "a long pattern": (of_x({"type": "string", "pattern": "(a|b)?" * 80_000}), {"x": "ab"}, None),
    "many pattern properties": (
        {"type": "object", "patternProperties": {f"^(a+)+{n}$": {"type": "string"} for n in range(2_000)}},
        {"a" * 200: 5},
        None,
    ),
    "nested repetition of names": (
        {"type": "object", "propertyNames": {"pattern": "^((a+)+)+$"}},
        {"a" * 50_000 + "!": 1},
        False,
    ),
    "a look-ahead in names": (
        {
            "type": "object",
            "patternProperties": {r"^(?=(a+)+$)(a|aa)+\1$": {"type": "string"}},
            "additionalProperties": False,
        },
        {"a" * 40 + "!": 1},
        None,
    ),
    "nested repetition beside a fault": (
        {
            "type": "object",
            "patternProperties": {"^(a|aa)+$": {"type": "string"}},
            "additionalProperties": False,
            "required": ["b"],
        },
        {"a" * 40 + "!": 1},
        False,
    ),
    "a format": (of_x({"type": "string", "format": "regex"}), {"x": "(a+)+" * 5_000}, True),
}
REFERENCES: dict[str, tuple[Schema, Any, bool | None]] = {
    "doubling allOf": (doubling("allOf"), {"x": "a"}, None),
    "doubling anyOf": (doubling("anyOf"), {"x": "a"}, None),
    "a reference to itself": ({"$ref": "#"}, {"x": 1}, None),
    "anchors in a circle": (
        {
            "$defs": {"a": {"$anchor": "a", "$ref": "#b"}, "b": {"$anchor": "b", "$ref": "#a"}},
            "$ref": "#a",
        },
        {"x": 1},
        None,
    ),
    "a dynamic reference to itself": ({"$dynamicAnchor": "n", "$dynamicRef": "#n"}, {"x": 1}, None),
    "doubling dynamic references": (
        {
            "$defs": _steps(
                30,
                lambda n: {"$dynamicAnchor": f"d{n}", "allOf": [{"$dynamicRef": f"#d{n + 1}"}] * 2},
                {"$dynamicAnchor": "d30", "type": "integer"},
            ),
            "properties": {"x": {"$dynamicRef": "#d0"}},
        },
        {"x": "a"},
        None,
    ),
    "a recursive reference to itself": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "allOf": [{"$recursiveRef": "#"}],
        },
        {"x": 1},
        None,
    ),
    "doubling recursive references": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "properties": {"x": {"anyOf": [{"$recursiveRef": "#"}, {"$recursiveRef": "#"}]}},
        },
        _inside(45),
        None,
    ),
    "doubling references by relative ids": (
        {
            "$id": "http://example.com/q/",
            "$defs": _steps(
                30,
                lambda n: {"$id": f"/q/d{n}", "allOf": [{"$ref": f"d{n + 1}"}] * 2},
                {"$id": "/q/d30", "type": "integer"},
            ),
            "properties": {"x": {"$ref": "d0"}},
        },
        {"x": "a"},
        None,
    ),
    "doubling references behind a harmless name": (
        {
            "$defs": {
                "a": {"$anchor": "n", "type": "string"},
                **_steps(
                    30,
                    lambda n: {"$anchor": f"d{n}", "allOf": [{"$ref": f"#d{n + 1}"}] * 2},
                    {"$anchor": "d30", "type": "integer"},
                ),
                "b": {"$anchor": "n", "$ref": "#d0"},
            },
            "properties": {"x": {"$ref": "#n"}},
        },
        {"x": "a"},
        None,
    ),
    "doubling references by a long index": (
        {
            "allOf": [True, *({"allOf": [{"$ref": f"#/allOf/000000000{n + 2}"}] * 2} for n in range(40))],
            "properties": {"x": {"$ref": "#/allOf/0000000001"}},
        },
        {"x": "a"},
        None,
    ),
    "references that double inside": (
        _doubling_inside(lambda n: {"properties": {"x": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2}}}),
        _inside(40),
        None,
    ),
    "patterns that triple inside": (
        _doubling_inside(
            lambda n: {"patternProperties": {f"x{{1,{i}}}": {"$ref": f"#/$defs/a{n + 1}"} for i in (1, 2, 3)}}
        ),
        _inside(40),
        None,
    ),
    "many references": (
        _many(900, {"$ref": "#/$defs/a"}, **{"$defs": {"a": {"type": "string"}}}),
        {"k1": 1},
        False,
    ),
    "many references to much": (
        _many(500, {"$ref": "#/$defs/a"}, **{"$defs": {"a": _many(500, {"type": "string"})}}),
        {"k1": 1},
        False,
    ),
}
SIZES: dict[str, tuple[Schema, Any, bool | None]] = {
    "unique objects": (
        of_x({"type": "array", "uniqueItems": True}),
        {"x": [{"n": n} for n in range(20_000)]},
        True,
    ),
    "unique objects, one of them twice": (
        of_x({"type": "array", "uniqueItems": True}),
        {"x": [{"a": {"b": [n % 9_999]}} for n in range(10_000)]},
        False,
    ),
    "many required": ({"type": "object", "required": [f"k{n}" for n in range(20_000)]}, {}, False),
    "a long enum": (of_x({"enum": [f"k{n}" for n in range(50_000)]}), {"x": "no"}, False),
    "a long enum of objects": (of_x({"enum": [{"n": n} for n in range(20_000)]}), {"x": {"n": -1}}, False),
    "a long constant": (of_x({"const": [[n] for n in range(20_000)]}), {"x": 1}, False),
    "deep nesting": (of_x(json.loads('{"items":' * 150 + "{}" + "}" * 150)), {"x": [[1]]}, None),
    "a tree of allOf": (of_x(_tree("allOf", 9)), {"x": "a"}, False),
    "a tree of anyOf": (of_x(_tree("anyOf", 9)), {"x": "a"}, False),
    "a large tree of anyOf": (of_x(_tree("anyOf", 14)), {"x": "a"}, None),
    "a tower of conditions": (of_x(_tower(60)), {"x": "a" * 100 + "!"}, True),
    "many alternatives": (
        {"anyOf": [_many(3, {"type": "string"}, required=[f"r{n}"]) for n in range(200)]},
        {},
        False,
    ),
    "contained lists": (
        of_x({"type": "array", "contains": {"contains": {"const": 1}}, "minContains": 10**6}),
        {"x": [[2] * 30] * 10_000},
        None,
    ),
    "unevaluated properties": (
        {"anyOf": [{"properties": {f"k{n}": True}} for n in range(600)], "unevaluatedProperties": False},
        {"q": 1},
        False,
    ),
    "many invalid items": (
        of_x({"type": "array", "items": {"type": "integer"}}),
        {"x": ["a"] * 100_000},
        False,
    ),
    "many items of many kinds": (
        of_x({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "boolean"}, _many(3, {})]}}),
        {"x": ["z"] * 20_000},
        False,
    ),
    "unknown keywords": ({f"odd{n}": {"a": n} for n in range(900)}, {"x": 1}, True),
    "prefix items": (
        of_x({"type": "array", "prefixItems": [{"type": "string"}] * 900}),
        {"x": [1] * 9},
        False,
    ),
    "long names": (
        {"type": "object", "properties": {"_" * n + "a": {"type": "string"} for n in range(600)}},
        {"-" * n + "A": 1 for n in range(400)},
        True,
    ),
}
ODD: dict[str, tuple[Schema, Any, bool | None]] = {
    "an odd draft": ({"$schema": [], "type": "object"}, {}, True),
    "an unknown draft": ({"$schema": "https://example.com/mine", "type": "object"}, {}, True),
    "an odd draft inside": (of_x({"$schema": 5, "type": "integer"}), {"x": 1}, True),
    "a reference to a page": (of_x({"$ref": "http://127.0.0.1:9/schema.json"}), {"x": 1}, None),
    "a reference that is a number": (of_x({"$ref": 5}), {"x": 1}, None),
    "types that lie": (of_x({"type": "nothing"}), {"x": 1}, None),
    "a number beyond all": (of_x({"type": "number", "minimum": LONG, "maximum": -LONG}), {"x": 5}, False),
    "a multiple beyond all": (of_x({"type": "number", "multipleOf": LONG}), {"x": 5}, False),
    "a tiny multiple": (of_x({"type": "number", "multipleOf": 1e-308}), {"x": 1e308}, None),
    "lengths beyond all": (of_x({"type": "string", "minLength": LONG, "maxItems": LONG}), {"x": "5"}, False),
    "keywords that are no schemas": (
        of_x({"items": 5, "not": None, "allOf": {}, "anyOf": [3], "properties": []}),
        {"x": 1},
        None,
    ),
    "booleans": (of_x(False), {"x": 1}, False),
}
MULTIPLIED: dict[str, tuple[Schema, Any, bool | None]] = {
    name: (schema, {"x": "a", "p0": "a"}, None) for name, schema in MULTIPLYING.items()
}
CASES = {**PATTERNS, **REFERENCES, **SIZES, **ODD, **MULTIPLIED}
"""Name -> schema, value, and whether it is valid; None if that is not checked, or may not be."""
