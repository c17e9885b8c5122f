"""Operations with parameters of every style and bodies of every kind, and arguments for them; by a seed."""

import base64
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.inside.openapi import ApiOperation, Body, Parameter, PartEncoding, Place, Style

SEED = 20261119
CASES = 240
TEXT = "abcXYZ019-_~ üñ漢😀&=?#+%/:@$'()*!<>{}[]^`\"\\"
PLAIN = "abcXYZ019-_~üñ漢😀?#:@$'()*!<>[]"
"""The text of members: without delimiters, because openapi-core decodes a value before it splits it."""
ASCII = "abcXYZ019-_~:@$'()*!<>[] "
STYLES: dict[Place, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
BODIES = (
    *("application/json", "application/merge-patch+json", "application/x-www-form-urlencoded"),
    *("multipart/form-data", "text/plain", "application/octet-stream"),
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """An operation, its arguments, and the values that its server has to find."""

    operation: ApiOperation
    described: dict[str, Any]
    """The operation in a document."""
    arguments: dict[str, Any]
    values: dict[str, dict[str, Any]]
    """By place, then by name."""
    body: Any


def cases(server: str = "", count: int = CASES, seed: int = SEED) -> list[Case]:
    """The cases of a seed; every kind of body, and every style in turn, is in them many times."""
    chance = random.Random(seed)
    kinds = list(_parameter_kinds())
    return [_case(chance, server, number, kinds) for number in range(count)]


def document(made: list[Case]) -> dict[str, Any]:
    """The document with the operations of all cases."""
    paths = {case.operation.path: {case.operation.method.lower(): case.described} for case in made}
    return {"openapi": "3.0.3", "info": {"title": "cases", "version": "1"}, "paths": paths}


ParameterKind = tuple[Place, Style, bool, str]


def _parameter_kinds() -> Iterator[ParameterKind]:
    for place, styles in STYLES.items():
        for style in styles:
            for explode in (False, True):
                for kind in ("primitive", "array", "object", "content"):
                    is_delimited = style in ("spaceDelimited", "pipeDelimited")
                    if style == "deepObject" and (kind != "object" or not explode):
                        continue
                    if is_delimited and (kind not in ("array", "object") or explode):
                        continue
                    if kind == "content" and (explode or style not in ("simple", "form")):
                        continue
                    # No server can tell the members of such a cookie from other cookies.
                    if place == "cookie" and explode and kind in ("array", "object"):
                        continue
                    yield place, style, explode, kind


def _case(chance: random.Random, server: str, number: int, kinds: list[ParameterKind]) -> Case:
    # In turn, so that none is left to chance.
    chosen = [kinds[number % len(kinds)], *chance.sample(kinds, 2)]
    path, parameters, described = f"/op{number}", list[Parameter](), list[dict[str, Any]]()
    arguments, values = dict[str, Any](), dict[str, dict[str, Any]]()
    for index, (place, style, explode, kind) in enumerate(chosen):
        name = f"{place}{index}" if place != "header" else f"X-Header-{index}"
        schema, value = _value(chance, place, kind, index)
        one = Parameter(
            name=name,
            place=place,
            argument=f"argument_{index}",
            style=style,
            explode=explode,
            required=True,
            content_type="application/json" if kind == "content" else None,
            schema=schema,
        )
        parameters.append(one)
        told = {"content": {"application/json": {"schema": schema}}}
        if kind != "content":
            told = {"style": style, "explode": explode, "schema": schema}
        described.append(
            {"name": name, "in": place, "required": True, "style": style, "explode": explode, **told}
        )
        if kind == "content":
            del described[-1]["style"], described[-1]["explode"]
        arguments[one.argument] = value
        values.setdefault(place, {})[name] = value
        path += f"/{{{name}}}" if place == "path" else ""
    body, expected, told = _body(chance, number, arguments)
    operation = ApiOperation(
        name=f"op{number}",
        method=chance.choice(("POST", "PUT", "PATCH")),
        path=path,
        server=server,
        parameters=tuple(parameters),
        body=body,
        input_schema={},
    )
    described_operation: dict[str, Any] = {
        "parameters": described,
        "requestBody": {"required": True, "content": told},
        "responses": {"200": {"description": "ok"}},
    }
    return Case(
        operation=operation, described=described_operation, arguments=arguments, values=values, body=expected
    )


def _text(chance: random.Random, alphabet: str) -> str:
    text = "".join(chance.choices(alphabet, k=chance.randint(1, 12))).strip() or "x"
    return f"x{text}" if text[0] in "./\\" else text


def _scalar(chance: random.Random, alphabet: str, *, is_member: bool = True) -> tuple[dict[str, Any], Any]:
    made: dict[str, Callable[[], Any]] = {
        "string": lambda: _text(chance, alphabet),
        "integer": lambda: chance.randint(-(10**12), 10**12),
        "boolean": lambda: chance.random() < 0.5,
        "number": lambda: chance.randint(-1000, 1000) / 8 + 1 / 16,
    }
    kind = chance.choice([kind for kind in made if kind != "number" or not is_member])
    return {"type": kind}, made[kind]()


def _value(chance: random.Random, place: Place, kind: str, index: int) -> tuple[dict[str, Any], Any]:
    """A schema and a value that fits it."""
    is_header = place == "header"
    match kind:
        case "primitive":
            return _scalar(chance, ASCII if is_header else TEXT, is_member=False)
        case "array":
            alphabet = ASCII.strip() if is_header else PLAIN
            schema, first = _scalar(chance, alphabet)
            items = [first]
            while len(items) < 3:
                other, item = _scalar(chance, alphabet)
                items += [item] if other == schema else []
            return {"type": "array", "items": schema}, items
        case "object":
            # Names of its own: exploded members stand beside all others.
            members = {
                f"m{index}{key}": _scalar(chance, ASCII.strip() if is_header else PLAIN) for key in "ab"
            }
            properties = {key: schema for key, (schema, _) in members.items()}
            return {"type": "object", "properties": properties}, {
                key: value for key, (_, value) in members.items()
            }
        case _:
            return _json(chance, ASCII if is_header else TEXT)


def _json(chance: random.Random, alphabet: str) -> tuple[dict[str, Any], Any]:
    value = {
        "list": [chance.randint(0, 9), _text(chance, alphabet)],
        "deep": {"text": _text(chance, alphabet), "yes": True},
    }
    listed: dict[str, Any] = {"type": "array", "items": {}}
    deep = {"type": "object", "properties": {"text": {"type": "string"}, "yes": {"type": "boolean"}}}
    return {"type": "object", "properties": {"list": listed, "deep": deep}}, value


def _body(chance: random.Random, number: int, arguments: dict[str, Any]) -> tuple[Body, Any, dict[str, Any]]:
    """A body, the value that the server finds in it, and its description; adds its arguments."""
    kind = BODIES[number % len(BODIES)]
    match kind:
        case "text/plain":
            text = _text(chance, TEXT + "\n")
            arguments["body"] = text
            schema: dict[str, Any] = {"type": "string"}
            return Body(content_type=kind, argument="body", schema=schema), text, {kind: {"schema": schema}}
        case "application/octet-stream":
            data = chance.randbytes(50)
            arguments["body"] = chance.choice((data, base64.b64encode(data).decode()))
            schema = {"type": "string", "format": "binary"}
            body = Body(content_type=kind, argument="body", schema=schema, files=frozenset({"body"}))
            return body, {"bytes": base64.b64encode(data).decode()}, {kind: {"schema": schema}}
        case "application/x-www-form-urlencoded" | "multipart/form-data":
            return _form(chance, kind, arguments)
        case _:
            schema, value = _json(chance, TEXT)
            is_flat = chance.random() < 0.5
            arguments |= (
                {f"body_{key}": member for key, member in value.items()} if is_flat else {"body": value}
            )
            properties = {f"body_{key}": key for key in value} if is_flat else {}
            argument = None if is_flat else "body"
            body = Body(content_type=kind, argument=argument, schema=schema, properties=properties)
            return body, value, {kind: {"schema": schema}}


def _form(chance: random.Random, kind: str, arguments: dict[str, Any]) -> tuple[Body, Any, dict[str, Any]]:
    is_multipart = kind == "multipart/form-data"
    data = bytes(chance.choices([byte for byte in range(256) if byte not in b"\r\n\0"], k=60))
    schema, members = _value(chance, "query", "object", 9)
    fields: dict[str, tuple[dict[str, Any], Any, Any]] = {
        "text": ({"type": "string"}, _text(chance, TEXT), None),
        "tags": ({"type": "array", "items": {"type": "string"}}, [_text(chance, PLAIN) for _ in "abc"], None),
    }
    encoding: dict[str, PartEncoding] = {}
    told: dict[str, Any] = {}
    if is_multipart:
        file = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        found = {"bytes": base64.b64encode(data).decode()}
        fields["file"] = ({"type": "string", "format": "binary"}, file, found)
        fields["object"] = (schema, members, None)
    else:
        fields["deep"] = (schema, members, None)
        encoding["deep"] = PartEncoding(style="deepObject", explode=True)
        told["deep"] = {"style": "deepObject", "explode": True}
    arguments |= {key: value for key, (_, value, _) in fields.items()}
    whole = {"type": "object", "properties": {key: one for key, (one, _, _) in fields.items()}}
    body = Body(
        content_type=kind,
        argument=None,
        schema=whole,
        properties={key: key for key in fields},
        encoding=encoding,
        files=frozenset({"file"} if is_multipart else ()),
    )
    expected = {key: value if found is None else found for key, (_, value, found) in fields.items()}
    return body, expected, {kind: {"schema": whole, "encoding": told}}
