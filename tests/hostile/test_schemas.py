"""Schemas that are made to take long: checking stays fast, and a call is made or refused all the same."""

import json
import time
from typing import Any

import pytest

from toolbus.call.arguments import ArgumentCheck
from toolbus.connect.sdk.output_check import OutputCheck

SECONDS = 1.0
"""CPU time; each of these took from 9 s to forever, or less on the way there."""


def of_x(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}, "required": ["x"]}


def doubling(keyword: str) -> dict[str, Any]:
    """A schema whose references double forty times."""
    steps = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    return {**of_x({"$ref": "#/$defs/a0"}), "$defs": {**steps, "a40": {"type": "integer"}}}


CASES: dict[str, tuple[dict[str, Any], Any, bool | None]] = {
    "nested repetition": (of_x({"type": "string", "pattern": "^(a+)+$"}), {"x": "a" * 30_000 + "!"}, False),
    "a back-reference": (of_x({"type": "string", "pattern": r"^(a+)+\1$"}), {"x": "a" * 40 + "!"}, None),
    "a look-ahead": (of_x({"type": "string", "pattern": "^(?=(a+)+$).*$"}), {"x": "a" * 40 + "!"}, None),
    "many stars": (of_x({"type": "string", "pattern": ".*.*.*.*.*x"}), {"x": "a" * 20_000}, False),
    "repeated repeats": (
        of_x({"type": "string", "pattern": "((a{0,1000}){0,1000}){0,1000}$"}),
        {"x": "a" * 2_000 + "!"},
        None,
    ),
    "unique objects": (
        of_x({"type": "array", "uniqueItems": True}),
        {"x": [{"n": n} for n in range(20_000)]},
        True,
    ),
    "doubling allOf": (doubling("allOf"), {"x": "a"}, None),
    "doubling anyOf": (doubling("anyOf"), {"x": "a"}, None),
    "a reference to itself": ({"$ref": "#"}, {"x": 1}, None),
    "many required": ({"type": "object", "required": [f"k{n}" for n in range(20_000)]}, {}, False),
    "a long enum": (of_x({"enum": [f"k{n}" for n in range(50_000)]}), {"x": "no"}, False),
    "many patterns": (of_x({"oneOf": [{"pattern": f"^a{n}"} for n in range(5_000)]}), {"x": "a"}, None),
    "many pattern properties": (
        {"type": "object", "patternProperties": {f"^(a+)+{n}$": {"type": "string"} for n in range(2_000)}},
        {"a" * 200: 5},
        None,
    ),
    "deep nesting": (of_x(json.loads('{"items":' * 150 + "{}" + "}" * 150)), {"x": [[1]]}, None),
    "an odd draft": ({"$schema": [], "type": "object"}, {}, True),
}
"""Name -> schema, value, and whether it is valid; None if that is not checked."""


@pytest.mark.parametrize("name", CASES)
def test_a_call_with_a_hostile_schema_is_checked_in_bounded_time(name: str) -> None:
    schema, value, valid = CASES[name]
    began = time.thread_time()
    check = ArgumentCheck(schema)
    checked = [check.checked(value), check.checked(value)]
    assert time.thread_time() - began < SECONDS
    assert [found.problem is None for found in checked] == [valid is not False] * 2
    assert all(found.arguments is value for found in checked)


@pytest.mark.parametrize("name", CASES)
def test_output_with_a_hostile_schema_is_checked_in_bounded_time(name: str) -> None:
    schema, value, valid = CASES[name]
    began = time.thread_time()
    fault = OutputCheck(schema).fault(value)
    assert time.thread_time() - began < SECONDS
    if valid is not None:
        assert (fault is None) == valid
