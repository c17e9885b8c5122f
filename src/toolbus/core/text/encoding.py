"""Results as JSON, in the form of the protocol."""

import base64
from typing import assert_never

from toolbus.core.values.records import (
    JSON,
    Audio,
    Block,
    Completion,
    Embedded,
    Image,
    JSONObject,
    PromptResult,
    ResourceLink,
    Text,
    ToolResult,
    received_of,
)


def as_sent(result: ToolResult) -> JSONObject:
    """A result as the server sent it, or the part that a hook replaced, encoded."""
    received = received_of(result)
    if received is None:
        return _encoded(result)
    if received.content is not result.content or received.structured is not result.structured:
        return _encoded(result)
    sent = received.json
    if sent.get("_meta", {}) == result.meta and sent.get("isError", False) == result.is_error:
        return sent
    changed = {**sent, "isError": result.is_error} if "content" in sent else dict(sent)
    return {**changed, "_meta": result.meta}


def _encoded(result: ToolResult) -> dict[str, JSON]:
    meta: dict[str, JSON] = {"_meta": result.meta} if result.meta else {}
    match result.value:
        case PromptResult() as prompt:
            texts = zip(prompt.messages, result.content, strict=False)
            messages = [{"role": message.role, "content": block_json(block)} for message, block in texts]
            return {**_given(description=prompt.description), "messages": messages, **meta}
        case Completion() as found:
            values = {"values": list(found.values), "hasMore": found.has_more} | _given(total=found.total)
            return {"completion": values, **meta}
        case _:
            content = [block_json(block) for block in result.content]
            structured = _given(structuredContent=result.structured)
            return {"content": content, **structured, "isError": result.is_error, **meta}


def contents_json(result: ToolResult) -> dict[str, JSON]:
    """The parts of a resource, as `as_sent` does for a tool."""
    received = received_of(result)
    if received is not None and received.content is result.content:
        return dict(received.json)
    return {"contents": [_resource(block) for block in result.content if isinstance(block, Embedded)]}


def block_json(block: Block) -> dict[str, JSON]:
    more = _given(annotations=block.annotations, _meta=block.meta)
    match block:
        case Text():
            return {"type": "text", "text": block.text, **more}
        case Image() | Audio():
            kind = "image" if isinstance(block, Image) else "audio"
            return {"type": kind, "data": _base64(block.data), "mimeType": block.mime_type, **more}
        case ResourceLink():
            about = _given(
                title=block.title, description=block.description, mimeType=block.mime_type, size=block.size
            )
            return {"type": "resource_link", "uri": block.uri, "name": block.name, **about, **more}
        case Embedded():
            return {
                "type": "resource",
                "resource": _resource(block),
                **_given(annotations=block.annotations),
            }
        case _:
            assert_never(block)


def _resource(block: Embedded) -> dict[str, JSON]:
    data = {"text": block.text or ""} if block.data is None else {"blob": _base64(block.data)}
    return {"uri": block.uri, **_given(mimeType=block.mime_type, _meta=block.meta), **data}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _given(**values: JSON) -> dict[str, JSON]:
    return {name: value for name, value in values.items() if value is not None}
