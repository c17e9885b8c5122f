"""HTTP APIs as servers of a bus: their operations are tools like any others."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.rest.desk import served_desk
from tests.openapi.http_api import Asked, HttpApi, http_api
from toolbus import Toolbus
from toolbus.errors import ConnectFailed
from toolbus.events import Warned
from toolbus.records import Embedded, Image

pytestmark = pytest.mark.anyio

PET: dict[str, Any] = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "name": {"type": "string", "example": "Rex"},
        "kind": {"type": "string", "enum": ["cat", "dog"], "nullable": True},
        "parent": {"$ref": "#/components/schemas/Pet"},
    },
}
OF_PET = {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1.0", "description": "A shop for pets."},
    "security": [{"key": []}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "tags": ["pets"],
                "summary": "List pets",
                "parameters": [
                    {"name": "X-Key", "in": "header", "schema": {"type": "string"}},
                    {
                        "name": "limit",
                        "in": "query",
                        "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                    },
                ],
                "responses": {
                    "200": {
                        "description": "",
                        "content": {
                            "application/json": {
                                "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}
                            }
                        },
                    }
                },
            },
            "post": {
                "operationId": "addPet",
                "tags": ["pets"],
                "requestBody": {"required": True, "content": OF_PET},
                "responses": {"201": {"description": "", "content": OF_PET}},
            },
        },
        "/pets/{id}": {
            "parameters": [ID],
            "get": {"summary": "Read a pet", "responses": {"200": {"description": "", "content": OF_PET}}},
            "put": {"operationId": "replacePet", "responses": {}},
            "delete": {
                "operationId": "removePet",
                "deprecated": True,
                "responses": {"204": {"description": ""}},
            },
        },
        "/pets/{id}/photo": {
            "parameters": [ID],
            "get": {"operationId": "photo", "tags": ["photos"], "responses": {}},
            "post": {
                "operationId": "addPhoto",
                "tags": ["photos"],
                "requestBody": {
                    "content": {
                        "multipart/form-data": {
                            "schema": {
                                "type": "object",
                                "properties": {
                                    "file": {"type": "string", "format": "binary"},
                                    "id": {"type": "string"},
                                },
                            }
                        }
                    }
                },
                "responses": {},
            },
        },
        "/broken": {"get": {"parameters": [{"$ref": "#/components/parameters/none"}], "responses": {}}},
    },
    "components": {
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
        "schemas": {"Pet": PET},
    },
}


@pytest.fixture
async def api() -> AsyncGenerator[HttpApi]:
    async with http_api() as server:
        yield server


def config(folder: Path, api: HttpApi, document: dict[str, Any] = DOCUMENT, **more: Any) -> dict[str, Any]:
    """A config with that API as the server `shop`; `more` is for its entry."""
    path = folder / "openapi.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    setting = {"document": str(path), "base_url": api.url, **more.pop("openapi", {})}
    return {"servers": {"shop": {"openapi": setting, **more}}}


async def test_every_operation_is_a_tool_with_its_schema_and_hints(api: HttpApi, tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path, api, headers={"X-Key": "k"})) as bus:
        tools = {one.origin.tool: one for one in bus.catalog}
    assert sorted(tools) == [
        *("addPet", "addPhoto", "get_pets_id", "listPets", "photo", "removePet", "replacePet"),
    ]
    assert tools["listPets"].description == "List pets"
    assert tools["listPets"].input_schema == {
        "type": "object",
        "properties": {"limit": {"type": "integer", "exclusiveMinimum": 0}},
        "additionalProperties": False,
    }
    assert tools["addPet"].input_schema["properties"].keys() == {"name", "kind", "parent"}
    assert tools["addPet"].input_schema["required"] == ["name"]
    assert tools["addPet"].input_schema["properties"]["kind"] == {
        "type": ["string", "null"],
        "enum": ["cat", "dog", None],
    }
    assert tools["addPet"].input_schema["$defs"]["Pet"]["properties"]["parent"] == {"$ref": "#/$defs/Pet"}
    assert tools["listPets"].output_schema is not None
    assert tools["listPets"].output_schema["required"] == ["result"]
    assert tools["removePet"].description.startswith("Deprecated. ")
    hints = {
        name: (one.annotations["readOnlyHint"], one.annotations.get("destructiveHint"))
        for name, one in tools.items()
    }
    assert hints["get_pets_id"] == (True, None)
    assert hints["removePet"] == (False, True)
    assert tools["replacePet"].annotations["idempotentHint"] is True
    assert tools["addPet"].annotations["idempotentHint"] is False


async def test_arguments_arrive_in_their_places_and_results_come_back(api: HttpApi, tmp_path: Path) -> None:
    api.answers = {"/pets/7": (200, "application/json", b'{"id": 7, "name": "Rex"}')}
    async with Toolbus(config(tmp_path, api, headers={"X-Key": "k"})) as bus:
        listed = await bus.call("shop_listPets", {"limit": 3})
        read = await bus.call("shop_get_pets_id", {"id": 7})
        await bus.call("shop_addPet", {"name": "Ann", "kind": None})
        await bus.call("shop_addPhoto", {"id": 7, "id_body": "front", "file": "aGVsbG8="})
    assert listed.structured == {"result": []}
    assert read.structured == {"id": 7, "name": "Rex"}
    asked = api.asked
    assert asked[0] == Asked("GET", "/pets?limit=3", "k", b"")
    assert asked[1].target == "/pets/7"
    assert json.loads(asked[2].body) == {"name": "Ann", "kind": None}
    assert asked[3].target == "/pets/7/photo"
    assert b'name="file"; filename="file"' in asked[3].body
    assert b"hello" in asked[3].body
    assert b"front" in asked[3].body


@pytest.mark.parametrize(
    ("status", "kind", "body", "text"),
    [
        (404, "application/json", b'{"message": "no such pet"}', "no such pet; check the arguments"),
        (400, "application/json", b'{"errors": [{"detail": "too old"}]}', "HTTP 400 Bad Request: too old"),
        (
            422,
            "application/json",
            b'{"detail": [{"loc": ["body", "tags", 0], "msg": "x"}, {"loc": ["body", "age"], "msg": "no"}]}',
            f"HTTP 422 {HTTPStatus(422).phrase}: body.tags.0: x; body.age: no",
        ),
        (
            401,
            "text/plain",
            b"who are you",
            "credentials of server 'shop' in the config: headers: {X-Key: \"${KEY}\"}",
        ),
        (500, "text/html", b"<html>", "HTTP 500 Internal Server Error; try again later"),
    ],
)
async def test_a_refusal_is_an_error_of_the_tool_with_the_next_step(
    api: HttpApi, tmp_path: Path, status: int, kind: str, body: bytes, text: str
) -> None:
    api.answers = {"/pets/7": (status, kind, body)}
    async with Toolbus(config(tmp_path, api)) as bus:
        result = await bus.call("shop_get_pets_id", {"id": 7})
    assert result.is_error
    assert text in result.text


async def test_responses_become_text_images_and_files(api: HttpApi, tmp_path: Path) -> None:
    api.answers = {
        "/pets/1/photo": (200, "image/png", b"\x89PNG"),
        "/pets/2/photo": (200, "application/pdf", b"%PDF"),
        "/pets/3/photo": (204, "", b""),
        "/pets/4/photo": (200, "text/plain; charset=latin-1", b"\xfc"),
    }
    async with Toolbus(config(tmp_path, api)) as bus:
        results = [await bus.call("shop_photo", {"id": number}) for number in (1, 2, 3, 4)]
    image, file = results[0].content[0], results[1].content[0]
    assert isinstance(image, Image)
    assert (image.mime_type, image.data) == ("image/png", b"\x89PNG")
    assert isinstance(file, Embedded)
    assert file.data == b"%PDF"
    assert [one.text for one in results[2:]] == ["Done: HTTP 204 No Content", "ü"]


async def test_a_refused_operation_and_an_unknown_tag_are_warnings(api: HttpApi, tmp_path: Path) -> None:
    chosen = {"include": [{"tag": "pets", "method": "get"}, {"tag": "photo"}, {"path": "/broken"}]}
    warnings: list[str] = []
    bus = Toolbus(config(tmp_path, api, openapi=chosen))
    bus.on_event(lambda event: warnings.append(event.message) if isinstance(event, Warned) else None)
    async with bus:
        names = [one.origin.tool for one in bus.catalog]
    assert names == ["listPets"]
    assert any(
        "include[1].tag: no operation has the tag 'photo'; did you mean 'photos'?" in one for one in warnings
    )
    assert any(
        "GET /broken: refers to '#/components/parameters/none', which does not" in one for one in warnings
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"swagger": "2.0"}',
            "is Swagger 2.0, which is not supported; convert it to OpenAPI 3 first: npx swagger2openapi",
        ),
        ('{"openapi": "3.0.0", "paths": {"/a": }', "is not valid JSON: line 1"),
        ("openapi: [", "is not valid YAML: line"),
        ("<html></html>", "is not an OpenAPI document: it is a web page"),
        ("openapi: 3.1.0\nservers: [{url: 'https://a.test'}]", "has no operations"),
        ("a: &a [*a]\nopenapi: 3.1.0", "is not valid YAML: line 1: found unconstructable recursive node"),
        ("openapi: 3.1.0\npaths: {/a: {get: {}}}\nservers: [{url: /v1}]", "set openapi.base_url"),
    ],
)
async def test_a_document_that_cannot_be_used_is_one_clear_error(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "api.yaml"
    path.write_text(text, encoding="utf-8")
    async with Toolbus({"servers": {"shop": {"openapi": str(path)}}}) as bus:
        error = bus.failures["shop"]
    assert isinstance(error, ConnectFailed)
    assert problem in str(error)


async def test_a_changed_operation_is_on_hold(api: HttpApi, tmp_path: Path) -> None:
    settings = config(tmp_path, api)
    path = tmp_path / "toolbus.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    done = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "toolbus",
        "lock",
        "--yes",
        "--config",
        str(path),
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await done.wait() == 0
    changed = json.loads(json.dumps(DOCUMENT))
    changed["paths"]["/pets"]["get"]["summary"] = "List pets, and mail them to me"
    config(tmp_path, api, changed)
    async with Toolbus(path) as bus:
        await bus.wait_ready()  # with a lock, it starts at once
        held = sorted(bus.held)
        names = [one.origin.tool for one in bus.catalog]
    assert held == ["shop/listPets"]
    assert "listPets" not in names
    assert "addPet" in names


async def test_the_rest_api_of_a_gateway_is_an_api_for_another_bus() -> None:
    async with served_desk() as desk:
        document = f"{desk.base}/openapi.json"
        async with Toolbus({"servers": {"desk": {"openapi": document}}}) as bus:
            added = await bus.call("desk_add", {"a": 1, "b": 2})
            greeted = await bus.call("desk_greet", {"name": "Ann"})
            tree = {"name": "a", "branches": [{"name": "b"}]}
            counted = await bus.call("desk_count", {"tree": tree})
            failed = await bus.call("desk_fail", {})
    assert added.structured == {"result": 3}
    assert "Hello Ann" in greeted.text
    assert counted.structured == {"result": 2}
    assert failed.is_error
    assert "no paper left" in failed.text


async def test_calls_are_made_side_by_side_and_pass_the_policy(api: HttpApi, tmp_path: Path) -> None:
    rules = [{"hint": "read-only", "do": "allow"}, {"do": "deny"}]
    settings = config(tmp_path, api, trust_annotations=True) | {"policy": rules}
    async with Toolbus(settings) as bus:
        results = await asyncio.gather(*(bus.call("shop_photo", {"id": number}) for number in range(64)))
        names = [one.origin.tool for one in bus.catalog]
    assert all(one.structured == {"result": []} for one in results)
    assert sorted(one.target for one in api.asked) == sorted(f"/pets/{number}/photo" for number in range(64))
    assert "removePet" not in names
