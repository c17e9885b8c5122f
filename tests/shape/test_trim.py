"""Definitions are trimmed for models, and mean the same."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.schema import InvalidSchema, Validator
from tests.inside.shape import trimmed_text
from tests.properties import modest
from tests.shape.corpus import specs
from toolbus.records import Origin, ToolSpec
from toolbus.shape import Dialect, converted

RULER = re.compile(r"([-=*_#~])\1{2,}")
LINES = st.lists(
    st.text(alphabet="ab -=\t", max_size=12) | st.sampled_from(["", "    x", "======", "# A", "\r"]),
    max_size=12,
)


@modest
@given(LINES)
def test_no_word_of_a_description_is_lost(lines: list[str]) -> None:
    text = "\n".join(lines)
    lean = trimmed_text(text)
    assert len(lean) <= len(text.expandtabs())
    short = [RULER.sub(r"\1\1\1", word) for word in text.split()]
    assert [RULER.sub(r"\1\1\1", word) for word in lean.split()] == short
    assert trimmed_text(lean) == lean


def test_a_docstring_is_dedented() -> None:
    text = "Adds.\n\n    Args:\n        a: One.   \n\n\n\n    ==========\n    Returns: a sum.\n    "
    assert trimmed_text(text) == "Adds.\n\nArgs:\n    a: One.\n\n===\nReturns: a sum."


@pytest.mark.parametrize("dialect", ["openai", "openai-strict", "openai-responses", "anthropic", "google"])
def test_every_dialect_is_trimmed(dialect: Dialect) -> None:
    schema: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "addArguments",
        "type": "object",
        "properties": {
            "first_name": {
                "title": "First Name",
                "type": "string",
                "description": "A name.\n\n  Short.\n ",
            }
        },
        "required": ["first_name"],
        "$defs": {"Unused": {"type": "string"}},
    }
    spec = ToolSpec(name="add", origin=Origin("a", "add"), description="Adds.\n    ", input_schema=schema)
    definition = json.dumps(converted(spec, dialect).value)
    for gone in ("title", "$schema", "Unused", "  Short"):
        assert gone not in definition
    assert '"Adds."' in definition
    assert '"A name.\\n\\nShort."' in definition
    assert converted(spec, "mcp").value["inputSchema"] is spec.input_schema


def test_real_definitions_cost_a_tenth_less_and_accept_the_same() -> None:
    before = after = 0
    for spec in specs():
        sent = {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
        value = converted(spec, "anthropic").value
        before += len(json.dumps(sent))
        after += len(json.dumps(value))
        try:
            validator = Validator(spec.input_schema)
        except InvalidSchema:
            continue
        names = list(spec.input_schema.get("properties", {}))
        if names != list(value["input_schema"].get("properties", {})):
            continue  # an argument has another name for this provider
        lean = Validator(value["input_schema"])
        for one in ({}, dict.fromkeys(names, 1), dict.fromkeys(names, "x"), dict.fromkeys(names, None)):
            assert not validator.accepts(one) or lean.accepts(one) is not False, spec.origin
    assert after < 0.9 * before
