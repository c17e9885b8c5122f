"""Operations for tests, written as a document would describe them."""

from typing import Any

from tests.inside.openapi import ApiOperation, Body, Parameter, Place, Style

SERVER = "https://api.example.com/v1"


def operation(
    path: str = "/things", *parameters: Parameter, method: str = "GET", body: Body | None = None, **more: Any
) -> ApiOperation:
    """An operation of an API at `SERVER`."""
    given: dict[str, Any] = {"name": "call", "server": SERVER, "input_schema": {}, **more}
    return ApiOperation(method=method, path=path, parameters=parameters, body=body, **given)


def parameter(place: Place, style: Style = "form", *, explode: bool = True, **more: Any) -> Parameter:
    """A parameter with the name `color`."""
    given: dict[str, Any] = {"name": "color", "argument": "color", "schema": {}, **more}
    return Parameter(place=place, style=style, explode=explode, **given)


def body(content_type: str, *, files: tuple[str, ...] = (), **more: Any) -> Body:
    """A body that is the argument `body`."""
    given: dict[str, Any] = {"argument": "body", "schema": {}, **more}
    return Body(content_type=content_type, files=frozenset(files), **given)


def flat_body(content_type: str, *properties: str, files: tuple[str, ...] = (), **more: Any) -> Body:
    """A body whose properties are arguments of the same name."""
    return body(
        content_type, files=files, argument=None, properties={name: name for name in properties}, **more
    )
