"""Schemas of a few kilobytes that multiply when they are read: below all limits, and valid.

The module is also a server over stdio with these as tools: `python -m tests.hostile.multiplying`.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]


def _properties(count: int, of: Callable[[int], Schema]) -> Schema:
    return {f"p{number}": of(number) for number in range(count)}


def _everywhere(count: int, shared: Schema) -> Schema:
    """An object in which many properties refer to the same definition."""
    return {
        "type": "object",
        "properties": _properties(count, lambda _: {"$ref": "#/$defs/shared"}),
        "$defs": {"shared": shared},
    }


def _inside(schema: Schema) -> Schema:
    return {"type": "object", "properties": {"x": schema}}


def _chain(count: int, step: Callable[[str], Schema]) -> Schema:
    steps = {f"d{number}": step(f"#/$defs/d{number + 1}") for number in range(count)}
    return {**_inside({"$ref": "#/$defs/d0"}), "$defs": {**steps, f"d{count}": {"type": "string"}}}


def _nested(levels: int) -> Any:
    value: Any = "a"
    for level in range(levels):
        value = {"k": value, "l": [value]} if level < 9 else [value]
    return value


MULTIPLYING: dict[str, Schema] = {
    "alternatives that share many properties": _inside(
        {
            "type": "object",
            "properties": _properties(400, lambda _: {"type": "string", "maxLength": 9}),
            "anyOf": [{"required": [f"p{number}"]} for number in range(400)],
        }
    ),
    "alternatives of alternatives": _inside(
        {
            "anyOf": [{"type": "object", "properties": {f"a{n}": {"minLength": 2}}} for n in range(100)],
            "oneOf": [{"type": "object", "properties": {f"b{n}": {"minLength": 2}}} for n in range(100)],
        }
    ),
    "a union of one property": {
        "type": "object",
        "anyOf": [{"properties": {"x": {"minLength": n}, "y": {"const": n}}} for n in range(300)],
    },
    "positions": _inside(
        {"type": "array", "prefixItems": [{"type": "string", "minLength": n} for n in range(900)]}
    ),
    "positions everywhere": _everywhere(
        40, {"type": "array", "prefixItems": [{"type": "string", "minLength": n} for n in range(600)]}
    ),
    "values everywhere": _everywhere(300, {"enum": [{"v": n} for n in range(1_000)]}),
    "values of all types everywhere": _everywhere(
        100,
        {
            "anyOf": [
                {
                    "type": ["string", "integer", "number", "boolean", "object", "array", "null"],
                    "enum": [*range(400), *map(str, range(400))],
                },
                {"type": "string"},
            ]
        },
    ),
    "choices of values everywhere": _everywhere(
        60, {"oneOf": [{"enum": [f"{n}-{k}" for k in range(8)]} for n in range(120)]}
    ),
    "required names everywhere": _everywhere(
        100, {"allOf": [{"required": [f"n{3 * n + k}" for k in range(3)]} for n in range(500)]}
    ),
    "conditions everywhere": _everywhere(
        300,
        {
            "not": {"enum": [{"a": n} for n in range(800)]},
            "if": {"enum": [{"b": n} for n in range(300)]},
            "then": {"minLength": 2},
        },
    ),
    "a long text everywhere": _everywhere(
        300, {"type": "string", "description": "x" * 9_000, "maxLength": 4}
    ),
    "a long default everywhere": _everywhere(200, {"type": "string", "default": "x" * 25_000}),
    "a deep constant everywhere": _everywhere(150, {"const": _nested(40)}),
    "one property of many parts": _inside(
        {"allOf": [{"properties": {"a": {"minLength": n}}} for n in range(700)]}
    ),
    "references that fan out": _chain(
        30, lambda then: {"type": "object", "properties": {name: {"$ref": then} for name in "ab"}}
    ),
    "alternatives that recurse": _everywhere(
        60,
        {
            "type": "array",
            "items": {
                "anyOf": [
                    {
                        "anyOf": [
                            {"$ref": "#/$defs/shared"},
                            {"type": "array", "items": {"$ref": "#/$defs/shared"}},
                        ]
                    }
                    for _ in range(16)
                ]
            },
        },
    ),
}
"""Name -> a schema of at most 3,000 values and 40,000 characters."""


def main() -> None:
    """Serve the tools in plain JSON-RPC."""
    tools = [
        {"name": f"t{number}", "description": name, "inputSchema": schema, "outputSchema": schema}
        for number, (name, schema) in enumerate(MULTIPLYING.items())
    ]
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "multiplying", "version": "1"},
        },
        "tools/list": {"tools": tools},
    }
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
