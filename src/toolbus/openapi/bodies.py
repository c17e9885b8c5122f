"""The body of a request: JSON, a form, parts with files, text or bytes."""

import base64
import binascii
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from toolbus.config.location import is_list, is_mapping
from toolbus.core.values.records import JSON
from toolbus.openapi.operation import Body, PartEncoding
from toolbus.openapi.styles import encoded, encoded_but_reserved, json_text, plain_text, query_pairs

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
OCTETS = "application/octet-stream"
_ESCAPED = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
_NO_ENCODING = PartEncoding()


class UnusableArguments(ValueError):
    """Arguments that fit no request; the message names the argument and the accepted forms."""

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument = argument


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """The bytes of a file that came as an argument."""

    data: bytes
    media_type: str | None = None
    name: str | None = None


def written_body(body: Body, arguments: Mapping[str, Any]) -> tuple[str, bytes] | None:
    """The content type and the bytes of a body; None if the arguments have none."""
    value, files = _given(body, arguments)
    if value is None:
        return None
    media_type = body.content_type.partition(";")[0].strip().lower()
    if media_type == MULTIPART:
        return _multipart(body, _object(body, value), files)
    if media_type == FORM:
        return body.content_type, "&".join(_form_pairs(body, _object(body, value))).encode()
    if is_json(media_type):
        return body.content_type, json_text(value).encode()
    if body.argument in body.files:
        return _whole_file(body, value)
    if isinstance(value, bytes):
        return body.content_type, value
    has_charset = "charset" in body.content_type.lower() or not media_type.startswith("text/")
    suffix = "" if has_charset else "; charset=utf-8"
    return body.content_type + suffix, plain_text(value).encode()


def is_json(media_type: str) -> bool:
    """Whether a media type means JSON."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def file_part(argument: str, value: object) -> FilePart:
    """The file in an argument: bytes, base64, or a data URL; `UnusableArguments` if it is none of them."""
    if isinstance(value, bytes):
        return FilePart(data=value)
    if not isinstance(value, str):
        raise UnusableArguments(argument, "a file is sent as base64 or as a data URL")
    if value[:5].lower() != "data:":
        return FilePart(data=_decoded(argument, value))
    head, comma, data = value[5:].partition(",")
    if not comma:
        raise UnusableArguments(argument, "the data URL has no comma before its data")
    media_type, *parameters = (part.strip() for part in head.split(";"))
    is_base64 = bool(parameters) and parameters[-1].lower() == "base64"
    named = [part[5:] for part in parameters if part[:5].lower() == "name="]
    return FilePart(
        data=_decoded(argument, data) if is_base64 else unquote_to_bytes(data),
        media_type=media_type if _is_media_type(media_type) else None,
        name=unquote_to_bytes(named[0]).decode(errors="replace") if named else None,
    )


def _decoded(argument: str, text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise UnusableArguments(argument, "it is not valid base64; send base64 or a data URL") from error


def _is_media_type(text: str) -> bool:
    kind, slash, subtype = text.partition("/")
    return bool(slash) and all(
        part.isascii() and part.replace("-", "").replace(".", "").replace("+", "").isalnum()
        for part in (kind, subtype)
    )


def _given(body: Body, arguments: Mapping[str, Any]) -> tuple[object, frozenset[str]]:
    """The value of the body, and which of its properties are files."""
    if body.argument is not None:
        return arguments.get(body.argument), body.files
    value = {name: arguments[argument] for argument, name in body.properties.items() if argument in arguments}
    files = frozenset(body.properties[argument] for argument in body.files)
    return (value if value or body.required else None), files


def _object(body: Body, value: object) -> Mapping[str, JSON]:
    if not is_mapping(value):
        raise UnusableArguments(body.argument or "body", "it has to be an object")
    return value


def _form_pairs(body: Body, value: Mapping[str, JSON]) -> Iterator[str]:
    for name, member in value.items():
        encoding = body.encoding.get(name, _NO_ENCODING)
        # Without a style, OpenAPI has each value written by its content type.
        is_styled = encoding.style is not None or encoding.explode is not None or encoding.allow_reserved
        given = member if is_styled else _unstyled(member, encoding)
        style = encoding.style or "form"
        explode = style == "form" if encoding.explode is None else encoding.explode
        encode = encoded_but_reserved if encoding.allow_reserved else encoded
        pairs = query_pairs(name, given, style, explode=explode, encode=encode)
        yield from (f"{key}={text.replace('%20', '+')}" for key, text in pairs)


def _unstyled(value: JSON, encoding: PartEncoding) -> JSON:
    is_whole = is_list(value) and is_json(encoding.content_type or "")
    return plain_text(value) if is_mapping(value) or is_whole else value


def _whole_file(body: Body, value: object) -> tuple[str, bytes]:
    part = file_part(body.argument or "body", value)
    has_wildcard = "*" in body.content_type
    return (part.media_type or OCTETS) if has_wildcard else body.content_type, part.data


def _multipart(body: Body, value: Mapping[str, JSON], files: frozenset[str]) -> tuple[str, bytes]:
    parts: list[bytes] = []
    for name, member in value.items():
        # Each item of a list is a part of its own.
        for item in member if is_list(member) else [member]:
            if item is not None:
                encoding = body.encoding.get(name, _NO_ENCODING)
                is_file = name in files or isinstance(item, bytes)
                parts.append(_file(name, item, encoding) if is_file else _field(name, item, encoding))
    boundary = secrets.token_hex(16)
    while any(boundary.encode() in part for part in parts):
        boundary = secrets.token_hex(16)
    delimiter = f"--{boundary}\r\n".encode()
    content = b"".join(delimiter + part + b"\r\n" for part in parts) + f"--{boundary}--\r\n".encode()
    return f"{MULTIPART}; boundary={boundary}", content


def _file(name: str, value: object, encoding: PartEncoding) -> bytes:
    part = file_part(name, value)
    declared = encoding.content_type or ""
    kind = part.media_type or (declared if _is_media_type(declared) else OCTETS)
    filename = (part.name or name).replace("/", "_").replace("\\", "_")
    return _part(name, kind, part.data, f'; filename="{filename.translate(_ESCAPED)}"')


def _field(name: str, value: object, encoding: PartEncoding) -> bytes:
    default = "application/json" if is_mapping(value) or is_list(value) else "text/plain"
    declared = encoding.content_type or ""
    kind = declared if _is_media_type(declared) else default
    data = (json_text(value) if is_json(kind) else plain_text(value)).encode()
    # What is not named is text in UTF-8, as browsers send it.
    return _part(name, None if kind == "text/plain" else kind, data, "")


def _part(name: str, kind: str | None, data: bytes, suffix: str) -> bytes:
    head = f'Content-Disposition: form-data; name="{name.translate(_ESCAPED)}"{suffix}\r\n'
    content_type = "" if kind is None else f"Content-Type: {kind}\r\n"
    return f"{head}{content_type}\r\n".encode() + data
