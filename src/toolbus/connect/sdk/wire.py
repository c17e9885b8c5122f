"""Converts the SDK's types into our records; no other module does."""

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, assert_never, cast

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from toolbus.connect.sdk.result_filter import keep_unknown_blocks
from toolbus.core.ask.interactions import Sampling, SamplingResult
from toolbus.core.operation.operation import Caller
from toolbus.core.text.text import cleaned
from toolbus.core.values.elicitation import Answer, Elicitation
from toolbus.core.values.records import (
    EMPTY,
    JSON,
    Audio,
    Block,
    Completion,
    Embedded,
    Era,
    Image,
    JSONObject,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptResult,
    RawResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TaskState,
    Text,
    ToolResult,
)

POLL_AFTER = 1.0
"""Seconds between two polls of a task whose server sets no interval."""


def era(protocol: str) -> Era:
    """The era of a protocol version."""
    return "modern" if protocol in MODERN_PROTOCOL_VERSIONS else "legacy"


def resource(server: str, item: types.Resource) -> Resource:
    return Resource(
        server=server,
        uri=item.uri,
        name=item.name,
        title=item.title,
        description=item.description or "",
        mime_type=item.mime_type,
        size=item.size,
        extras=_extras(item),
    )


def resource_template(server: str, item: types.ResourceTemplate) -> ResourceTemplate:
    return ResourceTemplate(
        server=server,
        uri_template=item.uri_template,
        name=item.name,
        title=item.title,
        description=item.description or "",
        mime_type=item.mime_type,
        extras=_extras(item),
    )


def prompt(server: str, item: types.Prompt) -> Prompt:
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
        extras=_extras(item),
    )


def _extras(item: types.Resource | types.ResourceTemplate | types.Prompt) -> JSONObject:
    """The members that a record has no field for."""
    if item.icons is None and item.meta is None and getattr(item, "annotations", None) is None:
        return EMPTY
    kept = {"annotations", "icons", "meta"}
    return item.model_dump(include=kept, by_alias=True, mode="json", exclude_none=True)


def tool_result(result: types.CallToolResult, raw: JSONObject | None = None) -> ToolResult:
    """The complete result of a tool; `raw` is what the server sent, if that is needed."""
    content = tuple([block(item) for item in result.content])
    structured = result.structured_content
    return ToolResult(
        content=content,
        structured=structured,
        is_error=result.is_error,
        meta=result.meta or {},
        _received=None if raw is None else RawResult(raw, content, structured),
    )


def plain_result(raw: dict[str, JSON], *, with_raw: bool = False) -> ToolResult | None:
    """The result of a tool as the server sent it, if it has only texts and they are valid; else None.

    As `tool_result`, without the SDK's models. None means that these decide, not that it is invalid.
    `with_raw` keeps the response, for a client that is sent what the server sent.
    """
    content, is_error, meta = raw.get("content"), raw.get("isError", False), raw.get("_meta")
    if type(content) is not list or type(is_error) is not bool or raw.get("resultType", _DONE) != _DONE:
        return None
    if meta is not None and type(meta) is not dict:
        return None
    blocks: list[Text] = []
    for item in cast("list[dict[str, JSON]]", content):
        # `match` would be nicer, and take three times as long.
        if item.__class__ is not dict or item.get("type") != "text" or len(item) != 2:
            return None
        text = item.get("text")
        if not isinstance(text, str) or not (text.isascii() or is_unicode(text)):
            return None
        blocks.append(Text(text=text))
    parts, structured = tuple(blocks), raw.get("structuredContent")
    return ToolResult(
        content=parts,
        structured=structured,
        is_error=is_error,
        meta=cast("JSONObject", meta) or {},
        _received=RawResult(raw, parts, structured) if with_raw else None,
    )


_DONE = "complete"


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: it has no lone surrogates, which JSON can escape."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def prompt_result(result: types.GetPromptResult) -> PromptResult:
    return PromptResult(
        description=result.description,
        messages=tuple(PromptMessage(role=m.role, content=block(m.content)) for m in result.messages),
    )


def elicitation(server: str, tool: str | None, params: types.ElicitRequestParams) -> Elicitation:
    form = params if isinstance(params, types.ElicitRequestFormParams) else None
    link = params if isinstance(params, types.ElicitRequestURLParams) else None
    return Elicitation.asked(
        server,
        tool,
        params.message,
        form.requested_schema if form else None,
        link.url if link else None,
    )


def elicit_result(answer: Answer) -> types.ElicitResult:
    content = dict(answer.content) if answer.action == "accept" and answer.content is not None else None
    return types.ElicitResult(action=answer.action, content=content)


def sampling_messages(messages: Iterable[types.SamplingMessage]) -> tuple[PromptMessage, ...] | None:
    """The messages for a model; None if one contains anything but text, images and audio."""
    found: list[PromptMessage] = []
    for message in messages:
        for item in message.content_as_list:
            if not isinstance(item, types.TextContent | types.ImageContent | types.AudioContent):
                return None
            found.append(PromptMessage(role=message.role, content=block(item)))
    return tuple(found)


def sampling(
    server: str,
    tool: str | None,
    caller: Caller,
    params: types.CreateMessageRequestParams,
    messages: tuple[PromptMessage, ...],
) -> Sampling:
    preferences = params.model_preferences
    hints = (hint.name for hint in (preferences.hints if preferences else None) or ())
    return Sampling(
        server=server,
        tool=tool,
        user=caller.user,
        session=caller.session,
        messages=messages,
        max_tokens=params.max_tokens,
        system=params.system_prompt,
        temperature=params.temperature,
        stop=tuple(params.stop_sequences or ()),
        hints=tuple(name for name in hints if name),
    )


def sampled(result: SamplingResult) -> types.CreateMessageResult:
    source = result.content
    content: types.TextContent | types.ImageContent | types.AudioContent
    match source:
        case Text():
            content = types.TextContent(text=source.text)
        case Image():
            content = types.ImageContent(data=_encoded(source.data), mime_type=source.mime_type)
        case Audio():
            content = types.AudioContent(data=_encoded(source.data), mime_type=source.mime_type)
        case _:
            assert_never(source)
    return types.CreateMessageResult(
        role="assistant", content=content, model=result.model, stop_reason=result.stop_reason
    )


def roots(folders: Iterable[str | Path]) -> types.ListRootsResult:
    found = [{"uri": as_uri(folder), "name": Path(str(folder)).name} for folder in folders]
    return types.ListRootsResult.model_validate({"roots": found})


def as_uri(root: str | Path) -> str:
    text = str(root)
    return text if text.startswith("file://") else Path(os.path.expanduser(text)).resolve().as_uri()


def completion(result: types.CompleteResult) -> Completion:
    found = result.completion
    return Completion(values=tuple(found.values), total=found.total, has_more=bool(found.has_more))


def task_state(raw: dict[str, JSON]) -> TaskState:
    """The state of a task; raises ValidationError if the response is invalid."""
    task = _Task.model_validate(raw)
    result = None
    if task.status == "completed":
        # Some servers send only structured content.
        raw_result: dict[str, JSON] = {"content": [], **(task.result or {})}
        keep_unknown_blocks(raw_result)
        parsed = types.CallToolResult.model_validate(raw_result, by_name=False)
        result = tool_result(parsed, raw_result)
    error = task.error.get("message") if task.error else None
    poll = task.poll_interval if task.poll_interval_ms is None else task.poll_interval_ms
    return TaskState(
        id=task.task_id,
        status=task.status,
        message=cleaned(task.status_message) if task.status_message else None,
        poll_after=POLL_AFTER if poll is None else poll / 1000,
        requests=requests_json(task.input_requests or {}),
        result=result,
        error=cleaned(str(error)) if error else None,
    )


def requests_json(requests: Mapping[str, types.InputRequest]) -> dict[str, JSON]:
    """The server's requests as JSON, to keep for later."""
    return inputs.dump_python(dict(requests), mode="json", by_alias=True, exclude_none=True)


inputs: TypeAdapter[dict[str, types.InputRequest]] = TypeAdapter(dict[str, types.InputRequest])


class _Task(BaseModel):
    """The wire format of the tasks extension, which the SDK lacks, and of legacy tasks."""

    model_config = ConfigDict(alias_generator=to_camel)

    task_id: str
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: str | None = None
    poll_interval_ms: float | None = Field(default=None, allow_inf_nan=False)
    poll_interval: float | None = Field(default=None, allow_inf_nan=False)
    """The legacy era's name for `poll_interval_ms`."""
    input_requests: dict[str, types.InputRequest] | None = None
    result: dict[str, JSON] | None = None
    error: dict[str, JSON] | None = None


def contents(
    items: Iterable[types.TextResourceContents | types.BlobResourceContents],
) -> tuple[Embedded, ...]:
    return tuple(_embedded(item) for item in items)


def block(item: types.ContentBlock) -> Block:
    match item:
        case types.TextContent():
            return Text(text=item.text, annotations=_plain(item.annotations), meta=item.meta)
        case types.ImageContent() | types.AudioContent():
            record = Image if isinstance(item, types.ImageContent) else Audio
            return record(
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


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return data.encode()  # not base64, which violates the protocol: keep the text as it was sent


def _plain(model: BaseModel | None) -> dict[str, JSON] | None:
    return None if model is None else model.model_dump(mode="json", by_alias=True, exclude_none=True)
