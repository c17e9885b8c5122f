"""Arguments as a form and as JSON: both always show the same values."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.console.shop import ORDER
from tests.gateway.console.showing import KINDS
from tests.inside.console import ArgumentForm, TypedArguments, anchor

VALUE: dict[str, Any] = {
    "customer": "Ann",
    "address": {"street": "Elm St", "city": "Bergen"},
    "items": [{"article": "tea", "count": 2, "color": "red"}, {"article": "cup", "count": 1}],
    "payment": {"kind": "invoice", "days": 30},
    "extras": ["fast"],
}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
}


def keys(form: ArgumentForm) -> dict[str, str]:
    """The keys of the parts, by place."""
    return {part.place: part.key for part in form.by_key.values() if part is not form.root}


def read(typed: dict[str, list[str]], schema: dict[str, Any] = ORDER) -> Any:
    arguments, problems = ArgumentForm(schema, typed).read()
    assert problems == {}
    return arguments


def test_a_value_fills_the_form_and_the_form_has_that_value() -> None:
    form = ArgumentForm(ORDER, value=VALUE)
    assert form.read() == (VALUE, {})
    assert read(form.typed) == VALUE
    again = ArgumentForm(ORDER, form.typed)
    assert again.typed == form.typed
    shapes = {part.place: part.shape for part in again.by_key.values() if part.shape != "field"}
    assert shapes["items"] == "list"
    assert shapes["items[1]"] == shapes["address"] == "object"


@settings(deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=20,
    ),
    st.sampled_from(sorted(ORDER["properties"])),
)
def test_whatever_the_json_was_the_form_keeps_it(value: Any, name: str) -> None:
    """Even a value that no field fits is kept: it is typed as JSON."""
    arguments = {**VALUE, name: value, "other": value}
    found, _ = ArgumentForm(ORDER, ArgumentForm(ORDER, value=arguments).typed).read(keeps_faults=True)
    assert json.dumps(found, sort_keys=True) == json.dumps(arguments, sort_keys=True)


def test_items_come_and_go_without_moving_what_is_typed_in_the_others() -> None:
    form = ArgumentForm(ORDER, value=VALUE)
    items = keys(form)["items"]
    more = ArgumentForm(ORDER, form.with_item(items))
    typed = more.typed | {keys(more)["items[2].article"]: ["pot"]}
    less = ArgumentForm(ORDER, typed).without(items, 0)
    assert [one["article"] for one in read(less)["items"]] == ["cup", "pot"]
    assert read(less)["items"][1] == {"article": "pot", "count": 1}, "a new item has its defaults"


def test_an_object_that_is_not_required_is_added_and_removed() -> None:
    schema = {
        "type": "object",
        "properties": {"address": {"anyOf": [ORDER["properties"]["address"], {"type": "null"}]}},
    }
    form = ArgumentForm(schema)
    key = keys(form)["address"]
    assert form.read() == ({}, {})
    added = ArgumentForm(schema, form.with_item(key))
    assert added.read() == (
        {"address": {"city": "Oslo"}},
        {keys(added)["address.street"]: "'street' is required"},
    )
    assert ArgumentForm(schema, added.without(key)).read() == ({}, {})


def test_a_schema_that_contains_itself_is_as_deep_as_what_is_typed() -> None:
    value = {"name": "a", "kids": [{"name": "b", "kids": [{"name": "c"}]}]}
    assert ArgumentForm(TREE).read() == ({}, {})
    assert read(ArgumentForm(TREE, value=value).typed, TREE) == value


@pytest.mark.parametrize(
    ("name", "typed", "problem"),
    [
        ("size", "", "'size' is required"),
        ("size", '"huge"', "'size' must be one of its choices"),
        ("count", "many", "'count' must be a number"),
        ("ratio", "nan", "'ratio' must be a number"),
        ("loud", "perhaps", "'loud' must be yes or no"),
        ("tags", "a, b", "'tags' is not JSON"),
        ("more", "NaN", "'more' is not JSON: NaN is not a JSON value"),
        ("more", "[" * 100_000, "'more' is not JSON"),
    ],
)
def test_what_cannot_be_read_is_named_at_its_field(name: str, typed: str, problem: str) -> None:
    key = anchor("field", name)
    given_ = {anchor("field", "text"): ["x"], anchor("field", "size"): ["3"], key: [typed]}
    _, problems = ArgumentForm(KINDS, given_).read()
    assert problems[key].startswith(problem)
    assert list(problems) == [key]


def test_the_form_keeps_what_is_wrong_when_it_becomes_json_and_back() -> None:
    key = anchor("field", "count")
    typed = TypedArguments.read(KINDS, {anchor("field", "text"): ["x"], key: ["many"]})
    text = typed.as_text()
    assert json.loads(text["json"][0])["count"] == "many"
    back = TypedArguments.read(KINDS, text).as_fields(KINDS)
    assert back[key] == ['"many"']


def test_arguments_that_the_schema_does_not_name_are_an_object() -> None:
    schema = {"type": "object", "additionalProperties": True}
    assert ArgumentForm(schema, {"rest": ['{"a": 1}']}).read() == ({"a": 1}, {})
    assert ArgumentForm(schema, {"rest": ["[1]"]}).read() == (
        {},
        {"rest": "'arguments' must be a JSON object"},
    )


def test_a_form_of_a_huge_value_has_few_fields_and_keeps_all_of_it() -> None:
    value = {**VALUE, "items": [{"article": str(number)} for number in range(5000)]}
    form = ArgumentForm(ORDER, value=value)
    assert len(form.by_key) < 300
    assert read(form.typed) == value
