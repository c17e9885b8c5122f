"""Results of tools as JSON, and back."""

import base64
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from toolbus.core.text.encoding import block_json
from toolbus.core.values.records import JSON, Audio, Block, Embedded, Image, ResourceLink, Text, ToolResult


def result_json(result: ToolResult) -> dict[str, JSON]:
    """A result that is not pending."""
    return to_jsonable_python(
        {
            "content": [block_json(block) for block in result.content],
            "structured": result.structured,
            "is_error": result.is_error,
            "meta": result.meta,
            "tool": result.tool,
            **({} if result.sent else {"sent": False}),
        },
        fallback=str,
    )


def read_result(stored: Mapping[str, Any]) -> ToolResult:
    return ToolResult(
        content=tuple(map(_block, stored["content"])),
        structured=stored["structured"],
        is_error=stored["is_error"],
        meta=stored["meta"],
        tool=stored["tool"],
        sent=stored.get("sent", True),
    )


def _block(block: Mapping[str, Any]) -> Block:
    more: dict[str, Any] = {"annotations": block.get("annotations"), "meta": block.get("_meta")}
    match block["type"]:
        case "text":
            return Text(text=block["text"], **more)
        case "image":
            return Image(data=base64.b64decode(block["data"]), mime_type=block["mimeType"], **more)
        case "audio":
            return Audio(data=base64.b64decode(block["data"]), mime_type=block["mimeType"], **more)
        case "resource_link":
            about = {name: block.get(name) for name in ("title", "description", "size")}
            return ResourceLink(
                uri=block["uri"], name=block["name"], mime_type=block.get("mimeType"), **about, **more
            )
        case _:
            return _resource(block["resource"], block.get("annotations"))


def _resource(stored: Mapping[str, Any], annotations: Any) -> Embedded:
    blob = stored.get("blob")
    return Embedded(
        uri=stored["uri"],
        text=stored.get("text"),
        data=None if blob is None else base64.b64decode(blob),
        mime_type=stored.get("mimeType"),
        annotations=annotations,
        meta=stored.get("_meta"),
    )
