"""The OpenAPI document: valid, true, and the same until the catalog changes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.gateway.rest.desk import served_desk
from tests.gateway.rest.open_webui import offered, path_of
from tests.inside.gateway import DocumentPlace, document
from tests.properties import modest
from tests.shape.corpus import specs
from toolbus.records import Origin, ToolSpec

pytestmark = pytest.mark.anyio
_KEYWORDS = st.sampled_from(
    [
        *("type", "properties", "items", "$ref", "$defs", "definitions", "anyOf", "allOf", "not", "default"),
        *("enum", "const", "required", "pattern", "format", "minimum", "exclusiveMinimum", "nullable"),
        *("discriminator", "xml", "externalDocs", "example", "examples", "additionalProperties", "title"),
        *("$id", "$schema", "$dynamicRef", "prefixItems", "dependencies", "readOnly", "deprecated", "x"),
    ]
)
_VALUES = st.sampled_from(
    [
        *(None, True, False, 1, -1, 1.5, "", "string", "integer", "#", "#/properties/x", "#/$defs/a", "["),
        *("https://example.com/other.json", [], {}, ["null", "string"], [1, "1"], {"propertyName": 1}),
    ]
)
SCHEMAS = st.recursive(
    _VALUES, lambda inner: st.dictionaries(_KEYWORDS, inner, max_size=5) | st.lists(inner, max_size=3)
)
PLACE = DocumentPlace(title="tools", url="/", is_secured=True)
TREE: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "tree": {"$ref": "#/definitions/Tree"},
        "self": {"$ref": "#"},
        "any": True,
        "odd": {"type": "string", "default": 5, "discriminator": "x", "exclusiveMinimum": True},
    },
    "definitions": {
        "Tree": {"type": "object", "properties": {"below": {"items": {"$ref": "#/definitions/Tree"}}}},
        "Unused": {"type": "string"},
    },
}


def assert_valid(found: Any) -> None:
    """It is, as another program judges."""
    assert [error.message for error in OpenAPIV31SpecValidator(found).iter_errors()] == []


def tool(name: str, schema: dict[str, Any], **more: Any) -> ToolSpec:
    return ToolSpec(name=name, origin=Origin("desk", name), input_schema=schema, **more)


def test_the_document_about_all_known_tools_is_valid() -> None:
    tools = specs()
    found = document(tools, PLACE)
    assert_valid(found)
    assert [path for path in found["paths"] if path != "/calls/{id}"] == [
        f"/tools/{one.name}" for one in tools
    ]


def test_definitions_become_components_and_end_inside_themselves() -> None:
    found = document([tool("grow", TREE), tool("grow.Tree", TREE)], PLACE)
    assert_valid(found)
    (body,) = found["paths"]["/tools/grow"]["post"]["requestBody"]["content"].values()
    assert body["schema"]["properties"] == {
        "tree": {"$ref": "#/components/schemas/grow.Tree"},
        "self": {"type": "object"},
        "any": {},
        "odd": {"type": "string"},
    }
    schemas = found["components"]["schemas"]
    assert schemas["grow.Tree"]["properties"]["below"] == {"items": {"type": "object"}}
    assert not [name for name in schemas if "Unused" in name]


def test_names_that_a_path_cannot_have_are_encoded() -> None:
    found = document([tool("a/{b}?#%", {"type": "object"})], PLACE)
    assert_valid(found)
    assert "/tools/a%2F%7Bb%7D%3F%23%25" in found["paths"]


@given(SCHEMAS)
@modest
def test_no_schema_of_a_server_makes_the_document_invalid(value: Any) -> None:
    schema = {"type": "object", "properties": {"x": value, "y": {"$ref": "#/properties/x"}}, "items": value}
    assert_valid(document([tool("odd", schema, output_schema={"anyOf": [value]})], PLACE))


async def test_it_is_the_same_until_the_catalog_changes() -> None:
    async with served_desk() as desk:
        first = await desk.get("/openapi.json")
        tag = first.headers["etag"]
        same = await desk.get("/openapi.json", **{"if-none-match": f'"other", W/{tag}'})
        await desk.gateway.bus.remove_server("desk")
        changed = await desk.get("/openapi.json", **{"if-none-match": tag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert "content-length" not in same.headers
    assert (changed.status_code, changed.headers["etag"] != tag) == (200, True)
    assert [*changed.json()["paths"]] == ["/calls/{id}"]


async def test_the_document_of_a_gateway() -> None:
    async with served_desk() as desk:
        found = (await desk.get("/openapi.json")).json()
        head = await desk.http.head(f"{desk.base}/openapi.json")
    assert_valid(found)
    operation = found["paths"]["/tools/add"]["post"]
    assert (operation["operationId"], operation["summary"], operation["tags"]) == ("add", "Add", ["desk"])
    assert operation["description"] == "Add two numbers."
    assert operation["responses"]["200"]["content"]["application/json"]["schema"]["required"] == ["result"]
    assert "security" not in found
    assert (head.status_code, head.content) == (200, b"")


async def test_open_webui_offers_the_tools_and_can_call_them() -> None:
    async with served_desk() as desk:
        found = (await desk.get("/openapi.json")).json()
        tools = offered(found)
        called = await desk.http.post(f"{desk.base}{path_of(found, 'add')}", json={"a": 1, "b": 2})
        without = await desk.http.post(f"{desk.base}{path_of(found, 'greet')}", json={})
    assert {*tools} == {"add", "greet", "picture", "fail", "count", "book", "pay", "wait"}
    assert tools["add"]["description"] == "Add two numbers."
    assert {*tools["add"]["parameters"]["properties"]} == {"a", "b"}, "no header is an argument"
    assert tools["count"]["parameters"]["properties"]["tree"]["type"] == "object"
    assert "$ref" not in json.dumps(tools["add"])
    assert (called.json(), without.status_code) == ({"result": 3}, 200)


def test_open_webui_reads_all_known_tools() -> None:
    tools = specs()
    found = offered(dict(document(tools, PLACE)))
    for one in tools:
        properties = found[one.name]["parameters"]["properties"]
        assert {*properties} == {*one.input_schema.get("properties", {})}, one.name
