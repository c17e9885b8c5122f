"""The result of a call, from the response of an API: data, text, files, or an error with the next step."""

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from toolbus.config import ServerConfig
from toolbus.config.settings.limits import ServerLimits
from toolbus.connect.transports.http import status_text
from toolbus.connect.transports.wire.messages import UnreadableMessage, parsed
from toolbus.core.values.records import JSON
from toolbus.openapi.arguments import is_json_type
from toolbus.openapi.client import ApiResponse
from toolbus.openapi.operation import ApiOperation, Security
from toolbus.schema.values import is_array, is_object

_LONGEST_MESSAGE = 1_000
_PLACES = ("loc", "field", "param", "pointer")
"""The keys under which APIs name the argument that an error is about."""
_MESSAGES = ("message", "detail", "error_description", "title", "error", "errors", "reason", "msg")
"""Keys under which APIs explain an error."""
_TEXTS = (
    "application/xml",
    "application/yaml",
    "application/javascript",
    "application/x-ndjson",
    "application/jsonl",
)
_STEPS = {
    403: "the credentials may lack a permission for it",
    404: "check the arguments: there is nothing at that address",
    409: "read the current state first",
}


def call_result(operation: ApiOperation, response: ApiResponse, config: ServerConfig) -> dict[str, Any]:
    """The result of `tools/call`."""
    if response.status >= 300:
        return failed(_failure(operation, response, config))
    if operation.method == "HEAD":
        return _data(dict(response.headers), json.dumps(dict(response.headers)), operation)
    if not response.body:
        return _content([_text(f"Done: {status_text(response.status)}")])
    kind = response.media_type
    if is_json_type(kind) and (found := _json(response, config.limits)) is not None:
        return _data(found[0], response.text, operation)
    if kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+xml", "+json", "+yaml", "/json")):
        return _content([_text(response.text)])
    return _content([_file(operation, response)])


def failed(text: str) -> dict[str, Any]:
    """The result of a call that failed."""
    return {**_content([_text(text)]), "isError": True}


def _data(value: JSON, text: str, operation: ApiOperation) -> dict[str, Any]:
    is_wrapped = operation.wrapped or not is_object(value)
    structured: JSON = {"result": value} if is_wrapped else value
    return {**_content([_text(text)]), "structuredContent": structured}


def _content(blocks: list[JSON]) -> dict[str, Any]:
    return {"content": blocks, "resultType": "complete"}


def _text(text: str) -> JSON:
    return {"type": "text", "text": text}


def _json(response: ApiResponse, limits: ServerLimits) -> tuple[JSON] | None:
    """The JSON value of a body; None if it is not one, or larger than the limits allow."""
    try:
        return (parsed(response.body, limits),)
    except (ValueError, UnreadableMessage):
        return None


def _file(operation: ApiOperation, response: ApiResponse) -> JSON:
    data = base64.b64encode(response.body).decode("ascii")
    kind = response.media_type or "application/octet-stream"
    if kind.startswith(("image/", "audio/")):
        return {"type": kind.partition("/")[0], "data": data, "mimeType": kind}
    uri = operation.server + quote(operation.path)
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "blob": data}}


# Errors


def _failure(operation: ApiOperation, response: ApiResponse, config: ServerConfig) -> str:
    said = _message(response, config.limits)
    parts = [
        f"{operation.method} {operation.path}: {status_text(response.status)}",
        *([said] if said else []),
    ]
    return f"{': '.join(parts)}{_step(operation, response, config)}"


def _step(operation: ApiOperation, response: ApiResponse, config: ServerConfig) -> str:
    """The end of the message: what to do next."""
    step = _STEPS.get(response.status, "")
    if response.status == 401:
        step = credentials_step(operation.security, config)
    elif response.status in (429, 503) and (after := response.headers.get("retry-after")):
        step = f"try again after {after} s" if after.isdecimal() else f"try again after {after[:100]}"
    elif response.status == 429 or response.status >= 500:
        step = "try again later"
    elif 300 <= response.status < 400:
        step = "the API redirects, which is not followed"
    return f"; {step}" if step else ""


def credentials_step(security: tuple[tuple[Security, ...], ...], config: ServerConfig) -> str:
    """The settings that give an operation its credentials."""
    ways = [" and ".join(_ways(alternative)) for alternative in security]
    listed = " or ".join(dict.fromkeys(ways)) or 'auth: "${TOKEN}"'
    verb = "check" if config.auth is not None or config.headers else "set"
    return f"{verb} the credentials of server {config.alias!r} in the config: {listed}"


def _ways(alternative: tuple[Security, ...]) -> Iterator[str]:
    for one in alternative:
        match one.kind, one.place:
            case "apiKey", "query":
                yield f'openapi.query: {{{one.name}: "${{KEY}}"}}'
            case "apiKey", "cookie":
                yield f'headers: {{Cookie: "{one.name}=${{KEY}}"}}'
            case "apiKey", _:
                yield f'headers: {{{one.name}: "${{KEY}}"}}'
            case "basic", _:
                yield 'headers: {Authorization: "Basic ${USER_AND_PASSWORD_IN_BASE64}"}'
            case "bearer", _:
                yield 'auth: "${TOKEN}"'
            case _:
                yield 'auth: oauth, or auth: "${TOKEN}"'


def _message(response: ApiResponse, limits: ServerLimits) -> str:
    """The API's own words about an error, in one line."""
    found = ""
    if is_json_type(response.media_type) or response.media_type.endswith("json"):
        value = _json(response, limits)
        found = _said(value[0] if value else None)
    elif response.media_type == "text/plain":
        found = response.text
    line = " ".join(found.split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}…"


def _said(value: JSON, depth: int = 0) -> str:
    if isinstance(value, str):
        return value
    if depth > 3:
        return ""
    if is_array(value):
        return "; ".join(filter(None, (_said(one, depth + 1) for one in value[:5])))
    if is_object(value):
        texts = (_said(value[key], depth + 1) for key in _MESSAGES if key in value)
        said = next(filter(None, texts), "")
        place = next(filter(None, (_place(value.get(key)) for key in _PLACES)), "")
        return f"{place}: {said}" if place and said else said
    return ""


def _place(value: JSON) -> str:
    """The argument that an error is about: `age`, or the parts of `body.owner.age` in a list."""
    parts = value if is_array(value) else [value]
    return ".".join(str(part) for part in parts if isinstance(part, str | int))
