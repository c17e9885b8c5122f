"""The OpenAPI document of a view: one operation for each tool that its clients see."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

from toolbus.bus.inner import calls_of
from toolbus.core import version
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.records import JSON, JSONObject, ToolSpec
from toolbus.gateway.http.request import encoded
from toolbus.gateway.protocol.view_listing import ViewListing
from toolbus.gateway.rest.components import Components

_ABOUT = (
    "The tools of a toolbus gateway. An Idempotency-Key header makes a call safe to repeat. A call that asks "
    "something, or is sent with Prefer: respond-async, is answered with 202 and the URL of the call."
)
_JSON, _PROBLEM = "application/json", "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPlace:
    """The inputs of a document besides the tools."""

    title: str
    url: str
    """The URL of the API."""
    is_secured: bool
    """Whether clients need a key or a token."""


class Documents:
    """The documents of all views; a new catalog has a new document."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[ViewListing, dict[object, tuple[Catalog, bytes, str]]] = (
            WeakKeyDictionary()
        )

    async def of(self, offering: ViewListing, place: DocumentPlace, *, whole: bool) -> tuple[bytes, str]:
        """The document, encoded, and its entity tag; `whole` unless results may be shortened."""
        calls = calls_of(offering.view)
        catalog, known = calls.catalog, self._made.setdefault(offering, {})
        found = known.get((place, whole))
        if found is None or found[0] is not catalog:
            specs = tuple(calls.shown(catalog))
            if offering.alone:
                own = offering.now.own_tools.items()
                specs = tuple(replace(spec, name=name) for name, spec in own if not spec.is_app_only)
            body = await asyncio.to_thread(lambda: encoded(document(specs, place, whole=whole)))
            tag = f'"{sha256(body).hexdigest()[:32]}"'
            found = known[place, whole] = catalog, body, tag
        return found[1:]


def document(specs: Iterable[ToolSpec], place: DocumentPlace, *, whole: bool = True) -> JSONObject:
    """The document that describes some tools."""
    components = Components(_SCHEMAS)
    paths = {
        f"/tools/{quote(spec.name, safe='')}": {"post": _operation(spec, components, whole=whole)}
        for spec in specs
    }
    security: dict[str, Any] = {}
    secured: JSONObject = {}
    if place.is_secured:
        security = {"security": [{"bearer": []}]}
        secured = {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": place.title, "version": version(), "description": _ABOUT},
        "servers": [{"url": place.url}],
        **security,
        # Without operation ids: programs that offer each operation to a model must not let it answer.
        "paths": {**paths, "/calls/{id}": _CALLS},
        "components": {
            "schemas": components.schemas,
            "responses": _RESPONSES,
            "parameters": _PARAMETERS,
            **secured,
        },
    }


def _operation(spec: ToolSpec, components: Components, *, whole: bool) -> JSONObject:
    schema = {"type": "object", **components.of(spec.input_schema, spec.name)}
    output: JSONObject = {"$ref": "#/components/schemas/Content"}
    if whole and spec.output_schema is not None:
        output = components.of(spec.output_schema, f"{spec.name}.result")
    words = {"summary": spec.title, "description": spec.description}
    return {
        "operationId": spec.name,
        **{key: text for key, text in words.items() if text},
        **({"tags": [spec.origin.server]} if spec.origin.server else {}),
        "requestBody": {"required": True, "content": {_JSON: {"schema": schema}}},
        "responses": {
            "200": {"description": "The result of the tool.", "content": {_JSON: {"schema": output}}},
            "202": {"$ref": "#/components/responses/Call"},
            "4XX": {"$ref": "#/components/responses/Problem"},
            "5XX": {"$ref": "#/components/responses/Problem"},
        },
    }


def _content(schema: JSON, media: str = _JSON) -> JSONObject:
    return {"content": {media: {"schema": schema}}}


def _reference(name: str) -> JSONObject:
    return {"$ref": f"#/components/schemas/{name}"}


_TEXT: JSONObject = {"type": "string"}
_SCHEMAS: JSONObject = {
    "Content": {
        "type": "object",
        "description": "The result of a tool without an output schema: blocks as MCP has them, binary ones "
        "in base64.",
        "required": ["content"],
        "properties": {"content": {"type": "array", "items": _reference("Block")}},
    },
    "Block": {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"type": "string", "description": "text, image, audio, resource or resource_link"},
            "text": _TEXT,
            "data": {"type": "string", "contentEncoding": "base64"},
            "mimeType": _TEXT,
        },
    },
    "Call": {
        "type": "object",
        "description": "A call that has no result yet, or one that was asked for later.",
        "required": ["id", "status"],
        "properties": {
            "id": _TEXT,
            "status": {"type": "string", "enum": ["working", "input_required", "completed", "failed"]},
            "message": {"type": "string", "description": "The last progress message."},
            "questions": {"type": "object", "additionalProperties": _reference("Question")},
            "result": {"description": "The result, as in a response with 200."},
            "problem": _reference("Problem"),
            "created": {"type": "string", "format": "date-time"},
            "updated": {"type": "string", "format": "date-time"},
        },
    },
    "Question": {
        "type": "object",
        "required": ["kind", "message"],
        "properties": {
            "kind": {"type": "string", "enum": ["form", "url"]},
            "message": _TEXT,
            "schema": {"type": "object", "description": "The JSON Schema of the answer's content."},
            "url": {"type": "string", "description": "The URL to visit."},
        },
    },
    "Answers": {
        "type": "object",
        "required": ["answers"],
        "properties": {
            "answers": {
                "type": "object",
                "description": "An answer for each question, by its name.",
                "additionalProperties": {
                    "type": "object",
                    "required": ["action"],
                    "properties": {
                        "action": {"type": "string", "enum": ["accept", "decline", "cancel"]},
                        "content": {"type": "object"},
                    },
                },
            }
        },
    },
    "Problem": {
        "type": "object",
        "description": "A problem as in RFC 9457.",
        "required": ["title", "status", "detail", "code"],
        "properties": {
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "code": {"type": "string", "description": "The kind of the problem, such as unknown_tool."},
            "sent": {"type": "boolean", "description": "False if nothing was sent to a server."},
        },
    },
}
_RESPONSES: JSONObject = {
    "Call": {
        "description": "The call goes on, or has questions; its state is at Location.",
        "headers": {"Location": {"schema": _TEXT}},
        **_content(_reference("Call")),
    },
    "Problem": {"description": "There is no result.", **_content(_reference("Problem"), _PROBLEM)},
}
_PARAMETERS: JSONObject = {
    name.replace("-", ""): {"name": name, "in": "header", "description": text, "schema": _TEXT}
    for name, text in {
        "Idempotency-Key": "Makes a call once, however often it is sent within an hour.",
        "Prefer": "respond-async, wait=SECONDS: answers with 202 after that time.",
    }.items()
}
"""No operation refers to them: programs would offer them to a model as arguments of the tool."""
_PROBLEMS: JSONObject = {"4XX": {"$ref": "#/components/responses/Problem"}}
_STATE: JSONObject = {"description": "The call.", **_content(_reference("Call"))}
_CALLS: JSONObject = {
    "parameters": [{"name": "id", "in": "path", "required": True, "schema": _TEXT}],
    "get": {"summary": "The state of a call.", "responses": {"200": _STATE, **_PROBLEMS}},
    "post": {
        "summary": "Answer questions of a call.",
        "requestBody": {"required": True, **_content(_reference("Answers"))},
        "responses": {"200": _STATE, **_PROBLEMS},
    },
    "delete": {
        "summary": "Cancel a call, or forget its result.",
        "responses": {"204": {"description": "It is gone."}, **_PROBLEMS},
    },
}
