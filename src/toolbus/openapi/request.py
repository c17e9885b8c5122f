"""The HTTP request of an operation and its arguments.

Every argument stays in its place. It never ends a path segment, and never adds a parameter or a header. It
sets no header of the connection, and no credentials.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote, urlsplit

from toolbus.openapi.bodies import UnusableArguments, is_json, written_body
from toolbus.openapi.operation import ApiOperation, Parameter
from toolbus.openapi.styles import (
    encoded,
    encoded_but_reserved,
    encoded_for_cookie,
    json_text,
    path_text,
    plain_text,
    query_pairs,
)

RESERVED_HEADERS = frozenset(
    (
        *("accept", "accept-encoding", "authorization", "connection", "content-encoding", "content-length"),
        *(
            "content-type",
            "cookie",
            "expect",
            "forwarded",
            "host",
            "keep-alive",
            "proxy-authenticate",
            "proxy-authorization",
        ),
        *("proxy-connection", "set-cookie", "te", "trailer", "transfer-encoding", "upgrade"),
        *("via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"),
    )
)
"""Headers that no argument sets: OpenAPI ignores such parameters, or they belong to the connection."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_MAX_DECODED = 4
"""The most times that a path is decoded to see where it leads; servers decode it once or twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request to an API, without credentials."""

    method: str
    url: str
    headers: Mapping[str, str]
    """The headers, by name in lower case."""
    content: bytes | None = None


def build(operation: ApiOperation, arguments: Mapping[str, Any]) -> ApiRequest:
    """The request for a call; `UnusableArguments` if an argument cannot be sent where it belongs."""
    given = [(one, arguments[one.argument]) for one in operation.parameters if one.argument in arguments]
    query = "&".join(pair for one, value in given if one.place == "query" for pair in _pairs(one, value))
    url = operation.server.rstrip("/") + _path(operation, arguments)
    headers = {"accept": operation.accept}
    for parameter, value in given:
        if parameter.place == "header" and value is not None:
            headers |= _header(parameter, value)
    cookies = [pair for one, value in given if one.place == "cookie" for pair in _pairs(one, value)]
    if cookies:
        headers["cookie"] = "; ".join(cookies)
    content = None
    if operation.body is not None and (body := written_body(operation.body, arguments)) is not None:
        headers["content-type"], content = body
    if content is None and operation.method in ("POST", "PUT", "PATCH"):
        content = b""  # servers want to know its length
    if query:
        url += f"{'&' if '?' in url else '?'}{query}"
    return ApiRequest(method=operation.method, url=url, headers=headers, content=content)


def _path(operation: ApiOperation, arguments: Mapping[str, Any]) -> str:
    parameters = {one.name: one for one in operation.parameters if one.place == "path"}
    filled: dict[str, str] = {}
    for name in _TEMPLATE.findall(operation.path):
        parameter = parameters.get(name)
        value = None if parameter is None else arguments.get(parameter.argument)
        if parameter is None or value is None:
            raise UnusableArguments(name if parameter is None else parameter.argument, "the path needs it")
        filled[name] = _segment(parameter, value)
    path = _TEMPLATE.sub(lambda found: filled[found[1]], operation.path)
    for segment in path.split("/"):
        if _climbs(segment):
            named = ", ".join(parameters[name].argument for name in filled)
            raise UnusableArguments(named, "a part of the path would be '.' or '..', which leads elsewhere")
    if filled and operation.others and (other := _other(operation, path)) is not None:
        named = ", ".join(parameters[name].argument for name in filled)
        problem = f"the path would lead to {operation.method} {other}, which is not one of the tools"
        raise UnusableArguments(named, problem)
    return path


def _segment(parameter: Parameter, value: Any) -> str:
    style, explode = parameter.style, parameter.explode
    if parameter.content_type is not None:
        text = encoded(_content(parameter, value))
    else:
        text = path_text(parameter.name, value, style, explode=explode, encode=encoded)
    if not text or "\0" in unquote(text):
        problem = "it may not be empty" if not text else "it contains a null character"
        raise UnusableArguments(parameter.argument, f"{problem}, because it is a part of the path")
    return text


def _other(operation: ApiOperation, path: str) -> str | None:
    """The path of another operation that a server could find in a path, however often it decodes it."""
    base = urlsplit(operation.server).path.rstrip("/")
    own = _shapes(base + operation.path)
    for text in dict.fromkeys(_readings(base + path)):
        segments = [one for one in re.split(r"[/\\]+", text.lower()) if one]
        for other in operation.others:
            wanted = _shapes(other)
            if len(wanted) != len(segments) or not all(map(_fits, segments, wanted)):
                continue
            # A more general path, such as `/{kind}/{id}`, gives way to `/pets/{id}`.
            if len(own) != len(wanted) or not all(map(_covers, wanted, own)):
                return other
    return None


def _readings(path: str) -> Iterator[str]:
    """A path as different servers may read it."""
    for _ in range(_MAX_DECODED):
        yield path
        yield re.sub(r";[^/\\]*", "", re.split("[?#]", path, maxsplit=1)[0])
        path = unquote(path)


def _covers(wanted: str, own: str) -> bool:
    return wanted in ("*", own)


def _shapes(template: str) -> list[str]:
    """The segments of a path as globs, with `*` in place of each parameter."""
    text = re.sub(r"[\[\]*?]", "?", unquote(template.lower()))
    return [re.sub(r"(\{[^{}]*\})+", "*", one) for one in text.split("/") if one]


def _fits(segment: str, wanted: str) -> bool:
    # A regular expression of our own could take forever for a hostile template.
    return segment == wanted or (("*" in wanted or "?" in wanted) and fnmatchcase(segment, wanted))


def _climbs(segment: str) -> bool:
    """Whether a server that decodes a segment, perhaps twice, would find a `..` in it."""
    for _ in range(_MAX_DECODED):
        if any(part in (".", "..") for part in re.split(r"[/\\;]", segment)):
            return True
        decoded = unquote(segment)
        if decoded == segment:
            return False
        segment = decoded
    return True


def _pairs(parameter: Parameter, value: Any) -> list[str]:
    """The pairs of a parameter in the query or a cookie."""
    encode = encoded_but_reserved if parameter.allow_reserved else encoded
    if parameter.place == "cookie":
        encode = encoded_for_cookie
    if parameter.content_type is None:
        pairs = query_pairs(parameter.name, value, parameter.style, explode=parameter.explode, encode=encode)
    else:
        pairs = [] if value is None else [(encoded(parameter.name), encode(_content(parameter, value)))]
    return [f"{name}={text}" for name, text in pairs]


def _header(parameter: Parameter, value: Any) -> dict[str, str]:
    name = parameter.name.lower()
    if name in RESERVED_HEADERS or not _TOKEN.fullmatch(name):
        raise UnusableArguments(parameter.argument, f"the header {parameter.name!r} cannot be set by a call")
    if parameter.content_type is not None:
        text = _content(parameter, value)
    else:
        text = path_text(parameter.name, value, "simple", explode=parameter.explode, encode=str)
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise UnusableArguments(
            parameter.argument, "a header has no line breaks and no other control characters"
        )
    return {name: text.strip()}


def _content(parameter: Parameter, value: Any) -> str:
    return json_text(value) if is_json(parameter.content_type or "") else plain_text(value)
