"""The border: what the SDK knows becomes our records here, and nowhere else."""

import base64
import binascii
from collections.abc import Iterable
from typing import assert_never, cast

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from toolbus.records import (
    JSON,
    NOTHING,
    Audio,
    Block,
    Embedded,
    Era,
    Image,
    JSONObject,
    Origin,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptResult,
    Quarantined,
    Resource,
    ResourceLink,
    ResourceTemplate,
    Text,
    ToolResult,
    ToolSpec,
)


def era(protocol: str) -> Era:
    """Which era a protocol version belongs to."""
    return "modern" if protocol in MODERN_PROTOCOL_VERSIONS else "legacy"


def tool_spec(server: str, tool: JSON) -> ToolSpec | Quarantined:
    """A tool as listed, still under the server's own name; or why it is of no use."""
    if not isinstance(tool, dict):
        return Quarantined(tool="(no name)", reason="the definition is no object")
    item = cast("dict[str, JSON]", tool)
    name = item.get("name")
    if not isinstance(name, str) or not name.strip():
        return Quarantined(tool="(no name)", reason="it has no name")
    for key, kind, needed in _TOOL:
        value = item.get(key)
        if (value is None and needed) or (value is not None and not isinstance(value, kind)):
            found = "is missing" if value is None else f"is no {_KINDS[kind]}"
            return Quarantined(tool=name, reason=f"{key} {found}")
    annotations: JSONObject = item.get("annotations") or NOTHING
    return ToolSpec(
        name=name,
        origin=Origin(server, name),
        description=item.get("description") or "",
        title=item.get("title") or annotations.get("title"),
        input_schema=item["inputSchema"],
        output_schema=item.get("outputSchema"),
        annotations=annotations,
        meta=item.get("_meta") or NOTHING,
    )


_TOOL: tuple[tuple[str, type, bool], ...] = (
    ("inputSchema", dict, True),
    ("description", str, False),
    ("title", str, False),
    ("outputSchema", dict, False),
    ("annotations", dict, False),
    ("_meta", dict, False),
)
_KINDS: dict[type, str] = {dict: "object", str: "text"}


def resource(server: str, item: types.Resource) -> Resource:
    """A listed resource."""
    return Resource(
        server=server,
        uri=item.uri,
        name=item.name,
        title=item.title,
        description=item.description or "",
        mime_type=item.mime_type,
        size=item.size,
    )


def resource_template(server: str, item: types.ResourceTemplate) -> ResourceTemplate:
    """A listed resource template."""
    return ResourceTemplate(
        server=server,
        uri_template=item.uri_template,
        name=item.name,
        title=item.title,
        description=item.description or "",
        mime_type=item.mime_type,
    )


def prompt(server: str, item: types.Prompt) -> Prompt:
    """A listed prompt."""
    arguments = tuple(
        PromptArgument(name=a.name, description=a.description or "", required=bool(a.required))
        for a in item.arguments or ()
    )
    return Prompt(
        server=server,
        name=item.name,
        title=item.title,
        description=item.description or "",
        arguments=arguments,
    )


def tool_result(result: types.CallToolResult) -> ToolResult:
    """What a tool said, nothing lost."""
    return ToolResult(
        content=tuple([block(item) for item in result.content]),
        structured=result.structured_content,
        is_error=result.is_error,
        meta=result.meta or {},
    )


def prompt_result(result: types.GetPromptResult) -> PromptResult:
    """A prompt with its arguments filled in."""
    return PromptResult(
        description=result.description,
        messages=tuple(PromptMessage(role=m.role, content=block(m.content)) for m in result.messages),
    )


def contents(
    items: Iterable[types.TextResourceContents | types.BlobResourceContents],
) -> tuple[Embedded, ...]:
    """What was read of a resource."""
    return tuple(_embedded(item) for item in items)


def block(item: types.ContentBlock) -> Block:
    """One content block."""
    match item:
        case types.TextContent():
            return Text(text=item.text, annotations=_plain(item.annotations), meta=item.meta)
        case types.ImageContent():
            return Image(
                data=_decoded(item.data),
                mime_type=item.mime_type,
                annotations=_plain(item.annotations),
                meta=item.meta,
            )
        case types.AudioContent():
            return Audio(
                data=_decoded(item.data),
                mime_type=item.mime_type,
                annotations=_plain(item.annotations),
                meta=item.meta,
            )
        case types.ResourceLink():
            return ResourceLink(
                uri=item.uri,
                name=item.name,
                title=item.title,
                description=item.description,
                mime_type=item.mime_type,
                size=item.size,
                annotations=_plain(item.annotations),
                meta=item.meta,
            )
        case types.EmbeddedResource():
            return _embedded(item.resource, annotations=_plain(item.annotations))
        case _:
            assert_never(item)


def _embedded(
    item: types.TextResourceContents | types.BlobResourceContents, annotations: JSONObject | None = None
) -> Embedded:
    return Embedded(
        uri=item.uri,
        text=item.text if isinstance(item, types.TextResourceContents) else None,
        data=_decoded(item.blob) if isinstance(item, types.BlobResourceContents) else None,
        mime_type=item.mime_type,
        annotations=annotations,
        meta=item.meta,
    )


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return data.encode()  # not base64, against the protocol: better the text as sent than nothing


def _plain(model: BaseModel | None) -> dict[str, JSON] | None:
    return None if model is None else model.model_dump(mode="json", by_alias=True, exclude_none=True)
