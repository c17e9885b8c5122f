"""Any schema of a server becomes one that every provider accepts, and never accepts less than before."""

import json
import math
import os
import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.inside.shape import DIALECTS, Definition, Dialect, converted, original_arguments
from tests.shape import judges
from tests.shape.providers import CHECKERS
from tests.shape.reading import JSON, accepts, is_list, is_object
from tests.shape.schemas import instance, messy, sane_tops, tool

# The same examples on every run, more with --full; others with TOOLBUS_EXAMPLES=5000.
ASKED = int(os.environ.get("TOOLBUS_EXAMPLES", "0"))
MANY = settings(
    max_examples=ASKED or settings().max_examples,
    derandomize=not ASKED,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
OF_SCHEMAS: list[Dialect] = [dialect for dialect in DIALECTS if dialect != "mcp"]
every_dialect = pytest.mark.parametrize("dialect", OF_SCHEMAS)


def schema_of(definition: Definition) -> JSON:
    value = definition.value
    function = value.get("function", value)
    return function.get("parameters", function.get("input_schema", {"type": "object"}))


def as_json_schema(schema: JSON) -> JSON:
    """Google's subset in the words of JSON Schema: `nullable` is a choice."""
    if is_list(schema):
        return [as_json_schema(item) for item in schema]
    if not is_object(schema):
        return schema
    plain = {key: as_json_schema(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain


@every_dialect
@MANY
@given(schema=messy)
def test_any_schema_becomes_one_that_the_provider_takes(dialect: Dialect, schema: JSON) -> None:
    definition = converted(tool(schema), dialect)
    json.dumps(definition.value, allow_nan=False)
    assert CHECKERS[dialect](definition.value) == []
    assert judges.refusals(dialect, definition.value) == []


@every_dialect
@MANY
@given(data=st.data())
def test_a_value_that_the_server_takes_is_still_taken(dialect: Dialect, data: st.DataObject) -> None:
    original = data.draw(sane_tops())
    value = instance(data.draw, original, original)
    assume(accepts(original, value))
    definition = converted(tool(original), dialect)
    schema = as_json_schema(schema_of(definition))
    if is_strict(definition):
        value = filled(schema, value)
        assume(value is not None)
    assert accepts(schema, value), definition.losses


@MANY
@given(data=st.data())
def test_what_strict_mode_lets_through_is_what_the_server_takes(data: st.DataObject) -> None:
    original = data.draw(sane_tops())
    definition = converted(tool(original), "openai-strict")
    assume(is_strict(definition))
    schema = schema_of(definition)
    value = instance(data.draw, schema, schema)
    assume(accepts(schema, value))
    restored = original_arguments(definition, value)
    assert accepts(original, restored), definition.losses


@every_dialect
@MANY
@given(schema=messy)
def test_the_original_is_left_alone(dialect: Dialect, schema: JSON) -> None:
    before = json.dumps(schema)
    definition = converted(tool(schema), dialect)
    assert json.dumps(schema) == before
    if definition.grade == "unchanged" and "parameters" in definition.value.get("function", definition.value):
        assert schema_of(definition) is schema


def is_strict(definition: Definition) -> bool:
    return definition.value.get("function", {}).get("strict") is True


def filled(schema: JSON, value: JSON) -> JSON:
    """The value as a model would give it in strict mode: null where it gives none; None if it cannot."""
    if is_list(value):
        return [filled(schema.get("items", {}), item) for item in value]
    if not is_object(value):
        return value
    for option in schema.get("anyOf", [schema]):
        names = option.get("properties", {})
        if value.keys() <= names.keys():
            new = {
                name: filled(inner, value[name]) if name in value else None for name, inner in names.items()
            }
            if accepts(option, new):
                return new
    return None


def test_numbers_that_are_no_json_never_leave() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number", "default": math.nan, "maximum": math.inf}},
    }
    for dialect in OF_SCHEMAS:
        said = json.dumps(converted(tool(schema), dialect).value)
        assert not {"NaN", "Infinity"} & set(re.findall(r"\w+", said)), dialect
