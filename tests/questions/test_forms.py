"""Forms of servers: valid forms, valid answers, and typed text."""

from typing import Any

import pytest

from tests.inside.core import Form

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 5},
        "mail": {"type": "string", "format": "email"},
        "home": {"type": "string", "format": "uri"},
        "born": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "score": {"type": "number", "default": 9.5},
        "ok": {"type": "boolean", "default": True},
        "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l"}]},
        "tags": {
            "type": "array",
            "items": {"anyOf": [{"const": "a", "title": "First"}, {"const": "b"}]},
            "minItems": 1,
            "maxItems": 2,
        },
        "kinds": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "default": ["x"]},
    },
    "required": ["name"],
}


def test_defaults_are_filled_in_and_what_is_optional_may_be_left_out() -> None:
    assert Form(FORM).filled({"name": "Ann"}) == {"name": "Ann", "score": 9.5, "ok": True, "kinds": ["x"]}
    assert Form(FORM).filled({"name": "Ann", "ok": False, "age": None})["ok"] is False
    assert Form({}).filled() == {}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "'name' is required"),
        ({"name": ""}, "'name' must have at least 2 characters"),
        ({"name": "Annabelle"}, "'name' must have at most 5 characters"),
        ({"name": 5}, "'name' must be text"),
        ({"name": "Ann", "mail": "ann"}, "'mail' must be an e-mail address"),
        ({"name": "Ann", "home": "example.com"}, "'home' must be a URI"),
        ({"name": "Ann", "born": "24.12.2026"}, "'born' must be a date"),
        ({"name": "Ann", "at": "2026-12-24"}, "'at' must be a date with a time"),
        ({"name": "Ann", "age": -1}, "'age' must be at least 0"),
        ({"name": "Ann", "age": 151}, "'age' must be at most 150"),
        ({"name": "Ann", "age": 1.5}, "'age' must be a whole number"),
        ({"name": "Ann", "age": True}, "'age' must be a number"),
        ({"name": "Ann", "score": float("nan")}, "'score' must be a number"),
        ({"name": "Ann", "score": 10**400}, "'score' must be a number"),
        ({"name": "Ann", "ok": "yes"}, "'ok' must be yes or no"),
        ({"name": "Ann", "colour": "blue"}, "'colour' must be one of r, g"),
        ({"name": "Ann", "tags": []}, "'tags' must have at least 1 of them"),
        ({"name": "Ann", "tags": ["a", "b", "a"]}, "'tags' must have at most 2 of them"),
        ({"name": "Ann", "tags": ["c"]}, "'tags' must be a list of a, b"),
        ({"name": "Ann", "tags": [["a"]]}, "'tags' must be a list of a, b"),
        ({"name": "Ann", "colour": ["r"]}, "'colour' must be one of r, g"),
        ({"name": "Ann", "pet": "cat"}, "there is no field 'pet'"),
    ],
)
def test_what_does_not_fit_is_named(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Form(FORM).filled(values)


def test_what_fits_is_kept_as_it_is() -> None:
    values = {
        "name": "Ann",
        "mail": "ann@example.com",
        "home": "https://example.com",
        "born": "2000-02-29",
        "at": "2026-12-24T18:00:00Z",
        "age": 26,
        "score": 3,
        "ok": False,
        "colour": "g",
        "size": "l",
        "tags": ["b", "a"],
        "kinds": [],
    }
    assert Form(FORM).filled(values) == values


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("name", "Ann", "Ann"),
        ("age", " 26 ", 26),
        ("score", "1e2", 100.0),
        ("ok", "Y", True),
        ("ok", "no", False),
        ("colour", "g", "g"),
        ("colour", "green", "g"),
        ("colour", "2", "g"),
        ("size", "1", "s"),
        ("tags", "first, 2", ["a", "b"]),
    ],
)
def test_what_a_person_types_is_read(name: str, typed: str, value: Any) -> None:
    [field] = [field for field in Form(FORM).fields if field.name == name]
    assert field.read(typed) == value


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("age", "old"),
        ("age", "1.5"),
        ("ok", "perhaps"),
        ("colour", "3"),
        ("colour", "0"),
        ("tags", "x"),
        ("name", "A"),
    ],
)
def test_what_cannot_be_read_is_refused(name: str, typed: str) -> None:
    [field] = [field for field in Form(FORM).fields if field.name == name]
    with pytest.raises(ValueError, match=f"'{name}' must"):
        field.read(typed)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "array"}, "a form is an object"),
        ({"type": "object", "properties": []}, "properties must be an object"),
        ({"properties": {}, "required": "name"}, "required a list"),
        ({"properties": {}, "required": ["name"]}, "required names 'name', which is not a field"),
        ({"properties": {"a": "text"}}, "the definition of 'a' is not an object"),
        ({"properties": {"a": {"type": "object"}}}, "'a' is of type 'object'"),
        ({"properties": {"a": {"$ref": "#/x"}}}, "'a' is of type None"),
        ({"properties": {"a": {"type": ["string", "null"]}}}, "which a form does not support"),
        (
            {"properties": {"a": {"type": "array", "items": {"type": "string"}}}},
            "its items are not listed choices",
        ),
        ({"properties": {"a": {"type": "integer", "default": "x"}}}, "the default of 'a' must be a number"),
        ({"properties": {"a": {"type": "integer", "minimum": "x"}}}, "a bound of 'a' is not a number"),
    ],
)
def test_what_is_no_form_is_named(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Form(schema)
