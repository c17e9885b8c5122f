"""Values on their way into a script and out of it: JSON, and nothing else."""

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

from toolbus.core.values.records import JSON, Audio, Embedded, Image, ResourceLink, Text, ToolResult

_DEEPEST = 100


def for_script(result: ToolResult) -> JSON:
    """What a call returns to a script: structured content, JSON in a text, a text, or a list of blocks."""
    if result.structured is not None:
        return result.structured
    if all(isinstance(block, Text) for block in result.content):
        return _parsed(result.text)
    return [_block(block) for block in result.content]


def _parsed(text: str) -> JSON:
    """An object or a list, if the text is one; numbers and words stay text."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _block(block: Text | Image | Audio | ResourceLink | Embedded) -> JSON:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Image() | Audio():
            kind = "image" if isinstance(block, Image) else "audio"
            return {"type": kind, "mime_type": block.mime_type, "data": _base64(block.data)}
        case ResourceLink():
            return {"type": "link", "uri": block.uri, "name": block.name}
        case Embedded():
            content = {"text": block.text} if block.data is None else {"data": _base64(block.data)}
            return {"type": "resource", "uri": block.uri, "mime_type": block.mime_type, **content}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def from_script(value: Any, depth: int = 0) -> JSON:
    """A value of a script as JSON; TypeError for what JSON does not have."""
    if depth > _DEEPEST:
        raise TypeError("the value has too many levels")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [from_script(one, depth + 1) for one in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value)
        if all(isinstance(key, str) for key in entries):
            return {key: from_script(one, depth + 1) for key, one in entries.items()}
        raise TypeError("the keys of an object must be texts")
    raise TypeError(f"{type(value).__name__} is not JSON; pass texts, numbers, lists and dicts")


def shown(value: Any) -> JSON:
    """The value of a finished script; what JSON does not have is described."""
    try:
        return from_script(value)
    except TypeError:
        if isinstance(value, set | frozenset):
            return [shown(one) for one in cast("set[Any]", value)]
        if isinstance(value, Mapping):
            return {str(key): shown(one) for key, one in cast("Mapping[Any, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [shown(one) for one in cast("list[Any]", value)]
        return str(value)
