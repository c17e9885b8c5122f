"""Tools in the dialect of each provider: the changes, the reports, and the way back."""

import json
import re
from typing import Any

import pytest

from tests.conftest import sampled
from tests.inside.schema import PLACES, RECURSION
from tests.inside.shape import DIALECTS, Dialect, Loss, converted, original_arguments
from tests.shape.providers import CHECKERS, nodes
from tests.shape.schemas import tool
from toolbus.records import Origin, ToolSpec

JSON = Any
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def arguments(**properties: JSON) -> JSON:
    return {"type": "object", "properties": properties}


def parameters(schema: JSON, dialect: Dialect, **more: JSON) -> JSON:
    value = converted(tool(schema, **more), dialect).value
    function = value.get("function", value)
    return function.get("parameters", function.get("input_schema"))


def test_each_provider_gets_its_own_form() -> None:
    spec = tool(CITY)
    head = {"name": "demo", "description": "Does things."}
    strict = {**CITY, "additionalProperties": False}
    assert {dialect: converted(spec, dialect).value for dialect in DIALECTS} == {
        "openai": {"type": "function", "function": {**head, "parameters": CITY}},
        "openai-strict": {"type": "function", "function": {**head, "parameters": strict, "strict": True}},
        "openai-responses": {"type": "function", **head, "parameters": CITY, "strict": False},
        "anthropic": {**head, "input_schema": CITY},
        "google": {**head, "parameters": CITY},
        "mcp": {**head, "inputSchema": CITY},
    }


def test_a_schema_that_fits_is_the_very_same_object() -> None:
    for dialect in ("openai", "openai-responses", "anthropic", "google"):
        assert parameters(CITY, dialect) is CITY
        assert converted(tool(CITY), dialect).grade == "unchanged"


def test_a_definition_is_computed_once_and_a_renamed_tool_has_its_own() -> None:
    spec = tool(CITY)
    assert converted(spec, "openai") is converted(spec, "openai")
    assert converted(spec.renamed("other"), "openai").value["function"]["name"] == "other"
    assert spec == tool(CITY), "what was computed is no part of the spec"


def test_an_unknown_dialect_names_the_near_miss() -> None:
    with pytest.raises(ValueError, match=r"unknown dialect 'openai_strict'; did you mean 'openai-strict'\?"):
        converted(tool(CITY), "openai_strict")  # pyright: ignore[reportArgumentType] # the point of the test


def test_mcp_gives_what_the_server_sent_under_the_public_name() -> None:
    odd = {"$ref": "https://example.com/x", "type": "any"}
    spec = ToolSpec(
        name="s_t",
        origin=Origin("s", "t"),
        title="T",
        input_schema=odd,
        output_schema={},
        annotations={"readOnlyHint": True},
        meta={"x": 1},
    )
    assert converted(spec, "mcp").value == {
        "name": "s_t",
        "title": "T",
        "inputSchema": odd,
        "outputSchema": {},
        "annotations": {"readOnlyHint": True},
        "_meta": {"x": 1},
    }


def test_options_reach_the_place_that_the_provider_takes_them_at() -> None:
    options = {
        "openai": {"strict": True, "defer_loading": True},
        "anthropic": {"cache_control": {"type": "ephemeral"}},
        "google": {"behavior": "BLOCKING"},
    }
    spec = tool(CITY, options=options)
    function = converted(spec, "openai").value["function"]
    assert (function["strict"], function["defer_loading"]) == (True, True)
    assert function["parameters"]["additionalProperties"] is False
    assert converted(spec, "openai-responses").value["strict"] is True
    assert converted(spec, "anthropic").value["cache_control"] == {"type": "ephemeral"}
    assert converted(spec, "google").value["behavior"] == "BLOCKING"


def test_options_may_be_nested_as_openai_nests_them() -> None:
    spec = tool(CITY, options={"openai": {"function": {"strict": True}}, "google": {"grounding": False}})
    function = converted(spec, "openai").value["function"]
    assert (function["strict"], "function" in function) == (True, False)
    responses = converted(spec, "openai-responses").value
    assert (responses["strict"], "function" in responses) == (True, False)


def test_an_option_that_google_would_refuse_is_left_out_and_reported() -> None:
    definition = converted(tool(CITY, options={"google": {"grounding": False}}), "google")
    assert "grounding" not in definition.value
    what = "not a field of a function declaration; left out"
    assert Loss(path="/grounding", what=what, kind="lossless") in definition.losses


def test_what_cannot_be_said_stands_in_the_description_and_in_the_report() -> None:
    schema = arguments(
        a={"type": "string", "description": "An id.", "format": "uuid", "contentEncoding": "x"}
    )
    definition = converted(tool(schema), "google")
    assert definition.value["parameters"]["properties"]["a"] == {
        "type": "string",
        "description": "An id. (format: uuid)",
    }
    what = "`format` cannot be expressed here; it is in the description"
    assert Loss(path="/properties/a/format", what=what, kind="widened") in definition.losses
    assert definition.grade == "widened"


def test_an_optional_argument_of_strict_mode_may_be_null_and_is_then_left_out() -> None:
    schema = arguments(
        a={"type": "string"},
        b={"type": ["string", "null"]},
        c={"type": "array", "items": arguments(d={"enum": ["x"]})},
    )
    definition = converted(tool(schema), "openai-strict")
    assert definition.grade == "lossless"
    strict = definition.value["function"]["parameters"]
    assert strict["required"] == ["a", "b", "c"]
    assert strict["properties"]["a"] == {"type": ["string", "null"]}
    given = {"a": None, "b": None, "c": [{"d": None}, {"d": "x"}]}
    assert original_arguments(definition, given) == {"b": None, "c": [{}, {"d": "x"}]}


@pytest.mark.parametrize(
    "lossy",
    [
        {"type": "object"},
        {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": True},
        {"type": "string", "minLength": 1},
        {"type": "string", "format": "uri"},
        {"type": "string", "pattern": "(?=x)"},
        {"type": "array"},
        {},
        {"type": "string", "not": {"const": "x"}},
        {"oneOf": [{"type": "string"}, {"type": "string", "pattern": "^a"}]},
        {"enum": [f"value {number}" for number in range(1_001)]},
        {"anyOf": [arguments(x={"type": "string"}), arguments(x={"type": ["string", "null"]})]},
    ],
    ids=repr,
)
def test_strict_mode_is_left_where_it_would_change_what_the_tool_takes(lossy: JSON) -> None:
    definition = converted(tool(arguments(a=lossy)), "openai-strict")
    assert definition.value["function"]["strict"] is False
    assert definition.losses[-1].what.startswith("not strict, because of a loss: ")
    assert CHECKERS["openai-strict"](definition.value) == []


def test_strict_mode_is_left_beyond_ten_levels() -> None:
    def nested(levels: int) -> JSON:
        return arguments(a=nested(levels - 1)) if levels > 1 else arguments(a={"type": "string"})

    strict = {
        levels: converted(tool(nested(levels)), "openai-strict").value["function"]["strict"]
        for levels in (10, 11)
    }
    assert strict == {10: True, 11: False}


def test_names_that_are_refused_are_mapped_back() -> None:
    inner = {"type": "array", "items": arguments(**{"x y": {"type": "string"}})}
    schema = arguments(**{"filter[id]": {"type": "string"}, "filter_id_": {"type": "string"}, "in": inner})
    schema["required"] = ["filter[id]"]
    definition = converted(tool(schema), "anthropic")
    [renamed] = definition.renamed
    assert re.fullmatch(r"filter_id__[0-9a-f]{8}", renamed)
    assert definition.value["input_schema"]["required"] == [renamed]
    assert definition.renamed_within == {"/in/*": {"x_y": "x y"}}
    given = {renamed: "1", "filter_id_": "2", "in": [{"x_y": "3", "x_y_": "4"}]}
    assert original_arguments(definition, given) == {
        "filter[id]": "1",
        "filter_id_": "2",
        "in": [{"x y": "3", "x_y_": "4"}],
    }


def test_a_choice_at_the_top_becomes_one_object_that_takes_every_form() -> None:
    read = {**arguments(path={"type": "string"}, at={"type": "integer"}), "required": ["path", "at"]}
    find = {**arguments(path={"type": "string"}, name={"type": "string"}), "required": ["path", "name"]}
    definition = converted(tool({"oneOf": [read, find]}), "anthropic")
    assert definition.grade == "widened"
    assert definition.value["input_schema"] == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "at": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["path"],
        "description": "(give one of these sets: at | name)",
    }


@pytest.mark.parametrize(
    "top", [{}, {"type": "array"}, {"type": ["object", "null"]}, {"$ref": "#/$defs/x"}, {"not": {}}]
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_top_becomes_an_object(dialect: Dialect, top: JSON) -> None:
    assert dialect == "mcp" or CHECKERS[dialect](converted(tool(top), dialect).value) == []


def test_a_reference_is_replaced_by_what_it_names_with_what_stands_beside_it() -> None:
    schema = arguments(a={"$ref": "#/$defs/a~1b%20c", "description": "Mine."})
    schema["$defs"] = {"a/b c": {"type": "string", "description": "Its own.", "maxLength": 3}}
    expected = arguments(a={"description": "Mine.", "type": "string", "maxLength": 3})
    assert parameters(schema, "anthropic") == expected
    assert converted(tool(schema), "anthropic").grade == "lossless"


def test_a_definition_that_holds_itself_is_cut() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#/$defs/tree"}}}
    schema = {**arguments(root={"$ref": "#/$defs/tree"}), "$defs": {"tree": tree}}
    for dialect in ("openai", "anthropic", "google"):
        text = json.dumps(parameters(schema, dialect))
        assert text.count('"child"') == RECURSION
        assert converted(tool(schema), dialect).grade == "widened"


@pytest.mark.parametrize("dialect", sampled(DIALECTS, "openai-strict", "google"))
def test_references_that_multiply_stay_within_bounds(dialect: Dialect) -> None:
    # Each of 40 definitions names the next one ten times: 10^40 places if followed.
    names = {f"p{number}": number for number in range(10)}
    defs = {f"d{i}": arguments(**{name: {"$ref": f"#/$defs/d{i + 1}"} for name in names}) for i in range(40)}
    schema = {**arguments(a={"$ref": "#/$defs/d0"}), "$defs": {**defs, "d40": {"type": "string"}}}
    definition = converted(tool(schema), dialect)
    assert CHECKERS[dialect](definition.value) == []
    if dialect != "mcp":
        assert definition.grade == "permissive"
        assert sum(1 for _ in nodes(parameters(schema, dialect))) <= 12 * PLACES


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_depth_and_no_chain_is_too_long(dialect: Dialect) -> None:
    deep: JSON = {"type": "string"}
    for _ in range(300):
        choice: JSON = [deep, {"not": {"default": [[deep]]}}]
        deep = {"type": "array", "items": {"allOf": [{"anyOf": choice}]}}
    chain = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(3_000)}
    schema = {**arguments(a=deep, b={"$ref": "#/$defs/d0"}), "$defs": {**chain, "d3000": {"type": "string"}}}
    assert CHECKERS[dialect](converted(tool(schema), dialect).value) == []


def test_nothing_is_fetched() -> None:
    schema = arguments(a={"$ref": "https://example.com/schema.json"})
    definition = converted(tool(schema), "openai")
    assert definition.value["function"]["parameters"] == arguments(a={})
    assert [(loss.kind, loss.path) for loss in definition.losses] == [("permissive", "/properties/a/$ref")]


def test_a_long_description_goes_on_in_the_parameters() -> None:
    text = "One sentence of this tool. " * 60
    spec = tool(CITY, description=text)
    function = converted(spec, "openai").value["function"]
    assert len(function["description"]) <= 1024
    rejoined = function["description"].rstrip("…") + " " + function["parameters"]["description"].lstrip("…")
    assert rejoined.split() == text.split()
    assert converted(spec, "anthropic").value["description"] == text.strip()


def test_a_name_that_google_refuses_gets_a_legal_one() -> None:
    definition = converted(tool(CITY, name="7z_extract"), "google")
    assert definition.value["name"] == "_7z_extract"
    assert definition.losses[-1].path == "/name"


# What older drafts, OpenAPI and careless authors write, and what Anthropic and Google get of it.
LEFTOVERS: list[tuple[JSON, JSON, JSON]] = [
    (
        {"type": "integer", "minimum": 3, "exclusiveMinimum": True},
        {"type": "integer", "exclusiveMinimum": 3},
        {"type": "integer", "minimum": 4},
    ),
    (
        {"type": "string", "nullable": True},
        {"type": ["string", "null"]},
        {"type": "string", "nullable": True},
    ),
    (
        {"type": "array", "items": [{"type": "string"}, {"type": "string"}], "additionalItems": False},
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}], "maxItems": 2},
        {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    ),
    ({"type": "str"}, {"type": "string"}, {"type": "string"}),
    ({"const": "a"}, {"const": "a"}, {"type": "string", "enum": ["a"]}),
    (
        {"enum": [1, 2]},
        {"enum": [1, 2]},
        {"type": "integer", "description": "(one of: [1, 2])"},
    ),
    (
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "A"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},  # trimmed: neither says anything
        {"type": "string", "nullable": True},
    ),
    (
        {"oneOf": [{"const": "a", "description": "first"}, {"const": "b"}]},
        {"oneOf": [{"const": "a", "description": "first"}, {"const": "b"}]},
        {"type": "string", "enum": ["a", "b"], "description": '["a"]: first'},
    ),
    (
        {"allOf": [{"type": "number", "minimum": 1}, {"minimum": 2, "maximum": 9}]},
        {"allOf": [{"type": "number", "minimum": 1}, {"minimum": 2, "maximum": 9}]},
        {"type": "number", "minimum": 2, "maximum": 9},
    ),
    (
        {"type": ["string", "integer"], "maxLength": 3, "minimum": 1},
        {"type": ["string", "integer"], "maxLength": 3, "minimum": 1},
        {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "minimum": 1}]},
    ),
    (
        {
            "type": "object",
            "required": ["x"],
            "properties": {"x": True},
            "additionalProperties": {"type": "integer"},
        },
        {
            "type": "object",
            "required": ["x"],
            "properties": {"x": {}},
            "additionalProperties": {"type": "integer"},
        },
        None,
    ),
]


@pytest.mark.parametrize(
    ("given", "anthropic", "google"), LEFTOVERS, ids=lambda value: json.dumps(value)[:60]
)
def test_leftovers_are_read_as_they_are_meant(given: JSON, anthropic: JSON, google: JSON) -> None:
    schema = arguments(a=given)
    assert parameters(schema, "anthropic") == arguments(a=anthropic)
    assert google is None or parameters(schema, "google") == arguments(a=google)
    for dialect in DIALECTS:
        assert CHECKERS[dialect](converted(tool(schema), dialect).value) == []


def test_required_of_draft_3_moves_to_the_object() -> None:
    schema = arguments(a={"type": "string", "required": True}, b={"type": "string", "required": False})
    assert parameters(schema, "anthropic") == {
        **arguments(a={"type": "string"}, b={"type": "string"}),
        "required": ["a"],
    }


def test_items_behind_the_positions_of_a_tuple_stay_possible() -> None:
    schema = arguments(a={"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}})
    expected = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert parameters(schema, "google")["properties"]["a"]["items"] == expected
    assert converted(tool(schema), "google").grade == "widened"
