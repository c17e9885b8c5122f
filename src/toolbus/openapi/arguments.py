"""The arguments of a tool: the parameters of an operation, and its body or the properties of that."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from openapi_pydantic.v3.v3_1 import Encoding as EncodingModel
from openapi_pydantic.v3.v3_1 import Parameter as ParameterModel
from pydantic import BaseModel, ValidationError

from toolbus.openapi.document import ApiDocument, DocumentError
from toolbus.openapi.operation import Body, Parameter, PartEncoding, Place, Style
from toolbus.openapi.request import RESERVED_HEADERS
from toolbus.openapi.schemas import Steps, merged, resolved, shortened_text
from toolbus.schema.values import JSON, Node, entries_of, is_object, items_of

Model = TypeVar("Model", bound=BaseModel)
_STYLES: Mapping[Place, Style] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_SCHEMAS = frozenset(("schema", "example", "examples", "headers", "itemSchema"))
"""Keys that may be large, and that are read elsewhere."""
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
_KINDS = (
    re.compile(r"application/json"),
    re.compile(r"application/(merge-patch|vnd\.[\w.+-]*)\+json"),
    re.compile(r"[\w.-]+/(?!json-patch)[\w.+-]*\+json|\*/\*|application/\*|text/json"),
    re.compile(re.escape(MULTIPART)),
    re.compile(re.escape(FORM)),
    re.compile(r"[\w.-]+/[\w.+-]*json[\w.+-]*"),
    re.compile(r"text/.*"),
)
"""The kinds of bodies, the preferred one first; all others follow."""
_PLAIN = frozenset(
    ("allOf", "anyOf", "oneOf", "not", "if", "discriminator", "patternProperties", "const", "enum")
)
"""Keywords of a body that is one argument as a whole."""
_FILE = "A file: its content in base64, or a data: URL."
_LONGEST = 500


def is_json_type(content_type: str) -> bool:
    """Whether a media type is JSON."""
    plain = content_type.partition(";")[0].strip().lower()
    return plain in ("*/*", "application/*", "text/json") or plain.endswith(("/json", "+json"))


def valid(model: type[Model], node: Node, at: Steps) -> Model:
    """A part of a document, checked by openapi-pydantic; `DocumentError` with the first mistake."""
    try:
        return model.model_validate({key: value for key, value in node.items() if key not in _SCHEMAS})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise DocumentError(first["msg"].lower(), (*at, *map(str, first["loc"]))) from None


@dataclass(slots=True, kw_only=True)
class ToolArguments:
    """The arguments of one tool, as they are collected."""

    document: ApiDocument
    path: str
    given: Collection[str]
    """The parameters that the config sends with every request: `header:x-api-key`, `query:key`."""
    parameters: list[Parameter] = field(default_factory=list[Parameter])
    body: Body | None = None
    properties: Node = field(default_factory=dict[str, JSON])
    """The schema of each argument, as the document has it."""
    required: list[str] = field(default_factory=list[str])

    def add_parameters(self, nodes: Mapping[tuple[str, str], tuple[Steps, Node]]) -> None:
        """Add the parameters of an operation, and a text for each part of its path without a description."""
        template = re.findall(r"\{([^{}]+)\}", self.path)
        for at, node in sorted(nodes.values(), key=lambda one: one[1]["in"] != "path"):
            model = valid(ParameterModel, {**node, "content": None}, at)
            place = model.param_in.value
            is_ours = place == "header" and model.name.lower() in RESERVED_HEADERS
            is_set = f"{place}:{model.name.lower() if place == 'header' else model.name}" in self.given
            if is_ours or is_set or (place == "path" and model.name not in template):
                continue
            self._add_parameter(model, node, at)
        described = {one.name for one in self.parameters if one.place == "path"}
        for name in dict.fromkeys(template):
            if name not in described:
                self._add_parameter(
                    ParameterModel.model_validate({"name": name, "in": "path"}),
                    {"schema": {"type": "string"}},
                    (),
                )

    def _add_parameter(self, model: ParameterModel, node: Node, at: Steps) -> None:
        place = model.param_in.value
        content = entries_of(node.get("content"))
        content_type = next(iter(content), None)
        schema = content[content_type].get("schema", {}) if content_type else node.get("schema", {})
        style = cast("Style", model.style or _STYLES[place])
        _, whole = resolved(self.document, schema, (*at, "schema"))
        argument = self._name(model.name, place)
        is_required = model.required or place == "path"
        self.parameters.append(
            Parameter(
                name=model.name,
                place=place,
                argument=argument,
                style=style,
                explode=style == "form" if model.explode is None else model.explode,
                allow_reserved=model.allowReserved,
                required=is_required,
                content_type=content_type,
                schema=whole,
            )
        )
        self._add(argument, _described(schema, model.description), is_required)

    def add_body(self, node: Node, at: Steps) -> None:
        """Add the body of an operation: its properties if it is a plain object, else the body as a whole."""
        content = {
            name: one
            for name, one in entries_of(node.get("content")).items()
            if re.fullmatch(r"[^/\s]+/[^/\s].*", name)
        }
        if not content:
            if node.get("content"):
                raise DocumentError("describes no body with a valid media type", (*at, "content"))
            return
        content_type = min(content, key=_rank)
        media = entries_of(content[content_type])
        here = (*at, "content", content_type)
        kind = content_type.partition(";")[0].strip().lower()
        sent_as = "application/json" if kind in ("*/*", "application/*") else content_type
        is_required = node.get("required") is True
        place, schema = merged(self.document, media.get("schema"), (*here, "schema"))
        is_form = kind in (FORM, MULTIPART)
        encoding = _encodings(entries_of(media.get("encoding")), here) if is_form else {}
        description = node.get("description")
        if (is_form or is_json_type(kind)) and _is_flat(schema):
            self._add_properties(FlatBody(sent_as, place, schema, encoding, is_required))
            return
        argument = self._name("body", "body")
        whole: JSON = media.get("schema", {})
        files: frozenset[str] = frozenset()
        if not is_form and not is_json_type(kind):
            is_text = kind.startswith("text/") or "xml" in kind or "yaml" in kind
            whole = {"type": "string"} if is_text else _file({})
            files = frozenset() if is_text else frozenset((argument,))
        self.body = Body(
            content_type=sent_as,
            argument=argument,
            schema=schema,
            required=is_required,
            encoding=encoding,
            files=files,
        )
        self._add(argument, _described(whole, description), is_required)

    def _add_properties(self, draft: "FlatBody") -> None:
        properties, names, files = entries_of(draft.schema.get("properties")), dict[str, str](), set[str]()
        required = items_of(draft.schema.get("required"))
        for name, schema in properties.items():
            place = (*draft.at, "properties", name)
            _, whole = resolved(self.document, schema, place)
            if whole.get("readOnly") is True:
                continue
            argument = self._name(name, "body")
            names[argument] = name
            if draft.is_multipart and self._is_file(whole, place, draft.encoding.get(name)):
                files.add(argument)
                schema = _file_or_files(whole)
            self._add(argument, schema, draft.required and name in required)
        self.body = Body(
            content_type=draft.content_type,
            argument=None,
            schema=draft.schema,
            required=draft.required,
            properties=names,
            encoding=draft.encoding,
            files=frozenset(files),
        )

    def _is_file(self, schema: Node, at: Steps, encoding: PartEncoding | None) -> bool:
        """Whether a part of a multipart body is a file, or a list of files."""
        if schema.get("type") == "array":
            place, items = resolved(self.document, schema.get("items"), (*at, "items"))
            return self._is_file(items, place, encoding)
        if schema.get("format") == "binary" or (
            "contentMediaType" in schema and "contentEncoding" not in schema
        ):
            return True
        if schema.keys() & {"type", "$ref", "properties", "anyOf", "oneOf", "allOf", "enum"}:
            return False
        kind = (encoding.content_type if encoding else None) or ""
        return bool(kind) and not is_json_type(kind) and not kind.startswith("text/")

    def _add(self, argument: str, schema: JSON, is_required: bool) -> None:
        self.properties[argument] = schema
        if is_required:
            self.required.append(argument)

    def _name(self, name: str, place: str) -> str:
        """A name that no other argument has."""
        found, number = name, 1
        while found in self.properties:
            found = f"{name}_{place}" if number == 1 else f"{name}_{place}_{number}"
            number += 1
        return found


@dataclass(frozen=True, slots=True)
class FlatBody:
    """A body whose properties become arguments."""

    content_type: str
    at: Steps
    schema: Node
    encoding: Mapping[str, PartEncoding]
    required: bool

    @property
    def is_multipart(self) -> bool:
        """Whether it can have files."""
        return self.content_type.startswith(MULTIPART)


def _rank(content_type: str) -> int:
    kind = content_type.partition(";")[0].strip().lower()
    return next((rank for rank, one in enumerate(_KINDS) if one.fullmatch(kind)), len(_KINDS))


def _is_flat(schema: Node) -> bool:
    """Whether the properties of a body can be arguments: it is an object, and has no others."""
    return (
        schema.get("type", "object") == "object"
        and is_object(schema.get("properties"))
        and schema.get("additionalProperties", False) is False
        and schema.get("nullable") is not True
        and schema.keys().isdisjoint(_PLAIN)
    )


def _encodings(nodes: Node, at: Steps) -> dict[str, PartEncoding]:
    found: dict[str, PartEncoding] = {}
    for name, node in nodes.items():
        if is_object(node):
            model = valid(EncodingModel, node, (*at, "encoding", name))
            found[name] = PartEncoding(
                content_type=model.contentType,
                style=cast("Style | None", model.style),
                explode=model.explode,
                allow_reserved=model.allowReserved,
            )
    return found


def _described(schema: JSON, description: JSON) -> JSON:
    """A schema with the description of what it is for."""
    if not is_object(schema) or not isinstance(description, str) or not description.strip():
        return schema
    return {**schema, "description": shortened_text(description, _LONGEST)}


def _file(schema: Node) -> Node:
    text = schema.get("description")
    description = f"{text.rstrip('. ')}. {_FILE}" if isinstance(text, str) and text.strip() else _FILE
    return {"type": "string", "contentEncoding": "base64", "description": description}


def _file_or_files(schema: Node) -> Node:
    if schema.get("type") != "array":
        return _file(schema)
    kept = {key: schema[key] for key in ("description", "minItems", "maxItems") if key in schema}
    return {"type": "array", **kept, "items": _file(entries_of(schema.get("items")))}
