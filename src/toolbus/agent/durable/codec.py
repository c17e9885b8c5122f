"""Results and model responses as JSON, and back; and the events that a stored response stands for."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_core import to_jsonable_python

from toolbus.agent.durable.events import DurableEvent
from toolbus.agent.events import TextDelta, ThinkingDelta, ToolCalled, ToolReturned
from toolbus.core.encoding import block_json
from toolbus.core.records import JSON, Audio, Block, Embedded, Image, ResourceLink, Text, ToolResult

# Results


def result_json(result: ToolResult) -> dict[str, JSON]:
    """A result that is not pending."""
    return to_jsonable_python(
        {
            "content": [block_json(block) for block in result.content],
            "structured": result.structured,
            "is_error": result.is_error,
            "meta": result.meta,
            "tool": result.tool,
        },
        fallback=str,
    )


def read_result(stored: Mapping[str, Any]) -> ToolResult:
    """The result of `result_json`."""
    return ToolResult(
        content=tuple(map(_block, stored["content"])),
        structured=stored["structured"],
        is_error=stored["is_error"],
        meta=stored["meta"],
        tool=stored["tool"],
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


# Messages


def messages_json(messages: Iterable[ModelMessage]) -> list[JSON]:
    """Messages of a conversation."""
    return ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")


def read_messages(stored: list[JSON]) -> list[ModelMessage]:
    """The messages of `messages_json`."""
    return ModelMessagesTypeAdapter.validate_python(stored)


def read_response(stored: JSON) -> ModelResponse:
    """The one response in the messages of `messages_json`."""
    (response,) = read_messages([stored])
    return cast(ModelResponse, response)


# Events


def response_events(response: ModelResponse, servers: Mapping[str, str]) -> list[DurableEvent]:
    """What the model wrote and called."""
    events: list[DurableEvent] = []
    for part in response.parts:
        match part:
            case TextPart(content=text) if text:
                events.append(TextDelta(text=text))
            case ThinkingPart(content=text) if text:
                events.append(ThinkingDelta(text=text))
            case ToolCallPart():
                events.append(
                    ToolCalled(
                        id=part.tool_call_id,
                        name=part.tool_name,
                        arguments=part.args_as_dict(),
                        server=servers.get(part.tool_name),
                    )
                )
            case _:
                pass
    return events


def returned_events(
    messages: list[ModelMessage], servers: Mapping[str, str], seconds: Mapping[str, float]
) -> list[DurableEvent]:
    """What the calls of the last turn returned; `seconds` by their ids."""
    last = messages[-1] if messages else None
    parts = (
        [part for part in last.parts if isinstance(part, ToolReturnPart)]
        if isinstance(last, ModelRequest)
        else []
    )
    return [
        ToolReturned(
            id=part.tool_call_id,
            name=part.tool_name,
            text="\n".join(
                item for item in part.content_items(mode="str", wrap_if_error=False) if isinstance(item, str)
            ),
            is_error=part.outcome != "success",
            seconds=seconds.get(part.tool_call_id, 0.0),
            server=servers.get(part.tool_name),
            structured=cast("Mapping[str, Any]", part.metadata or {}).get("structured"),
        )
        for part in parts
    ]
