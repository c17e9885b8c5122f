"""Tools and prompts for the `anthropic` package.

Pass `toolbox = tools(bus)` as the `tools` of a request. `await toolbox.replies(message)` runs the calls of
the response and returns the next message. `messages(prompt)` converts a prompt of a server.

With `expose: search`, the definitions of hidden tools are sent with `defer_loading`, and the model does not
see them. The reply to `search_tools` refers to the tools to load: the ranking is ours, the rest is
Anthropic's.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from toolbus.adapters.media import (
    PROMPT_TYPES,
    Document,
    Media,
    Part,
    PromptTurn,
    base64_data,
    model_blocks,
    pdf_documents,
    prompt_turns,
)
from toolbus.adapters.provider_tools import (
    CompletedCall,
    ProviderFormat,
    ProviderTools,
    RequestedCall,
    field_of,
)
from toolbus.adapters.tool_list import Servers, ToolSource, shown
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.values.records import PromptResult, Text, ToolResult
from toolbus.shape import rendered_text

if TYPE_CHECKING:
    from anthropic.types import (
        Base64ImageSourceParam,
        Base64PDFSourceParam,
        DocumentBlockParam,
        ImageBlockParam,
        MessageParam,
        TextBlockParam,
        ToolParam,
        ToolResultBlockParam,
    )
    from anthropic.types.tool_result_block_param import Content

__all__ = ["messages", "tools"]

# Stop reasons after which the last call may be incomplete.
_INCOMPLETE = {"max_tokens", "model_context_window_exceeded", "refusal"}


def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    media: bool = True,
    follow: bool = True,
    native: bool = True,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> "ProviderTools[ToolParam, MessageParam]":
    """The tools for the Messages API.

    Without `media`, images and PDFs are described in text. Without `follow`, the list changes only with
    `refresh()`. Without `native`, `expose: search` shows `search_tools` and `call_tool`, for models before
    Claude 4.5 and other providers that have this API.

    ```python
    from toolbus.adapters import anthropic

    tools = anthropic.tools(bus)
    print([tool["name"] for tool in tools])  # ['notes_add', 'notes_search']
    ```
    """

    provider: ProviderFormat[ToolParam, MessageParam] = ProviderFormat(
        tool=_definition,
        name=lambda tool: tool["name"],
        calls=_calls,
        replies=partial(_messages, media=media),
        loads=native,
    )
    return ProviderTools(shown(source, expose, always), servers, provider, face="anthropic", follow=follow)


def _definition(tool: Tool) -> "ToolParam":
    definition = tool.definition("anthropic")
    if definition.get("defer_loading") is True:
        definition.pop("cache_control", None)  # Anthropic rejects both together
    return cast("ToolParam", definition)


def messages(prompt: PromptResult, *, media: bool = True) -> "list[MessageParam]":
    """The messages of a prompt.

    Without `media`, images and PDFs are described in text. Audio always is.
    """
    return [*map(_message, prompt_turns(prompt.messages, PROMPT_TYPES if media else ()))]


def _calls(response: object) -> list[RequestedCall]:
    content = field_of(response, "content")
    if field_of(response, "role") != "assistant" or content is None:
        raise TypeError(
            f"{type(response).__name__} is not an assistant message; pass the response of messages.create"
        )
    blocks: list[object] = [] if isinstance(content, str) else list(content)
    cut_off = field_of(response, "stop_reason") in _INCOMPLETE
    return [
        RequestedCall(
            id=field_of(block, "id"),
            name=field_of(block, "name"),
            arguments=field_of(block, "input"),
            complete=not cut_off or block is not blocks[-1],
        )
        for block in blocks
        if field_of(block, "type") == "tool_use"
    ]


def _messages(answers: Sequence[CompletedCall], _: object, *, media: bool) -> "list[MessageParam]":
    """One message: Anthropic expects all results of a turn together."""
    return [{"role": "user", "content": [_block(answer, media=media) for answer in answers]}]


def _block(answer: CompletedCall, *, media: bool) -> "ToolResultBlockParam":
    result = answer.result
    # Anthropic rejects a failed result that holds anything but text.
    text_only = result.is_error or not media
    content = rendered_text(result) if text_only else _content(result)
    references = [_reference(tool["name"]) for _, tool in answer.found]
    return {
        "type": "tool_result",
        "tool_use_id": answer.call.id,
        "content": references or content,
        "is_error": result.is_error,
    }


def _reference(name: str) -> "Content":
    return {"type": "tool_reference", "tool_name": name}


def _content(result: ToolResult) -> "str | list[Content]":
    match blocks := [*model_blocks(result), *pdf_documents(result)]:
        case [Text(text=text)]:
            return text
        case _:
            return [_part(block) for block in blocks]


def _message(turn: PromptTurn) -> "MessageParam":
    if turn.role == "assistant":
        return {"role": "assistant", "content": turn.text}
    return {"role": "user", "content": turn.text if turn.is_text else [*map(_part, turn.parts)]}


def _part(block: Part) -> "TextBlockParam | ImageBlockParam | DocumentBlockParam":
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Document():
            pdf = cast("Base64PDFSourceParam", _source(block))
            return {"type": "document", "title": block.name, "source": pdf}
        case _:
            return {"type": "image", "source": cast("Base64ImageSourceParam", _source(block))}


def _source(block: Media | Document) -> dict[str, str]:
    return {"type": "base64", "media_type": block.mime_type, "data": base64_data(block)}
