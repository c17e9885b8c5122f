"""Properties of every schema and all arguments."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.call.schemas import Call, calls, modest, validator_of, values, verdict
from tests.inside.call import ArgumentCheck, CheckedArguments
from toolbus.records import JSON

KEYWORDS = [
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "oneOf", "allOf", "not", "$ref", "$defs", "$schema", "$id", "minimum", "pattern", "default",
    "examples", "minLength", "maxItems", "if", "then", "dependentRequired", "patternProperties",
    "nullable", "description", "format", "uniqueItems",
]  # fmt: skip
nonsense: st.SearchStrategy[Any] = st.recursive(
    values | st.sampled_from(["object", "string", "#", "#/$defs/a", "https://example.com/s.json", "(", "["]),
    lambda inner: st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=10,
)


@modest
@given(calls())
def test_valid_arguments_come_back_as_the_very_same_object(call: Call) -> None:
    schema, arguments = call
    before = repr(arguments)
    checked = ArgumentCheck(schema).checked(arguments)
    assert repr(arguments) == before
    if verdict(schema, arguments) is not False:
        assert checked == CheckedArguments(arguments=arguments)
        assert checked.arguments is arguments


@modest
@given(calls())
def test_invalid_arguments_end_repaired_and_valid_or_as_a_problem(call: Call) -> None:
    schema, arguments = call
    checked = ArgumentCheck(schema).checked(arguments)
    if validator_of(schema) is None:  # refers to itself without end: nothing is checked
        assert checked == CheckedArguments(arguments=arguments)
    elif verdict(schema, arguments) is False:
        assert bool(checked.repairs) != bool(checked.problem)
        if checked.problem:
            assert checked.arguments is arguments
        else:
            assert verdict(schema, checked.arguments) is True


@modest
@given(calls())
def test_a_second_check_finds_nothing_left_to_do(call: Call) -> None:
    schema, arguments = call
    check = ArgumentCheck(schema)
    once = check.checked(arguments)
    twice = check.checked(once.arguments)
    assert twice.arguments is once.arguments
    assert twice.repairs == ()
    assert twice.problem == once.problem


@modest
@given(calls())
def test_two_validators_agree(call: Call) -> None:
    schema, arguments = call
    validator, expected = validator_of(schema), verdict(schema, arguments)
    if validator is not None and expected is not None:
        assert validator.accepts(arguments) is expected


@modest
@given(nonsense, st.dictionaries(st.text(max_size=3), values, max_size=3))
def test_no_schema_and_no_arguments_make_it_raise(schema: JSON, arguments: dict[str, JSON]) -> None:
    checked = ArgumentCheck(schema).checked(arguments)
    assert checked.problem is None or checked.arguments is arguments


@modest
@given(calls())
def test_texts_stay_short(call: Call) -> None:
    schema, arguments = call
    checked = ArgumentCheck(schema).checked({**arguments, "long": "x" * 10_000, "limit": "y" * 10_000})
    told = (checked.problem or "").splitlines() + list(checked.repairs)
    assert all("x" * 81 not in line and "y" * 81 not in line for line in told)
    assert len((checked.problem or "").splitlines()) <= 6
