"""The tools and prompts of a bus for Anthropic's own package.

`offer = tools(bus)` is the `tools` of a request; `await offer.replies(message)` runs what the model called
and gives the message that comes next. `messages(prompt)` is what a prompt of a server says.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from toolbus.adapters.exchange import Answer, Called, Exchange, Form, got
from toolbus.adapters.media import Document, Media, documents, encoded, taken
from toolbus.adapters.prompts import SHOWN, Part, Turn, turns
from toolbus.adapters.tool_list import Servers, Source
from toolbus.bus.tool import Tool
from toolbus.core.records import PromptResult, Text, ToolResult
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

# Ends of a message at which its last call may be half of one.
_CUT = {"max_tokens", "model_context_window_exceeded", "refusal"}


def tools(
    source: Source, servers: Servers = None, *, media: bool = True, follow: bool = True
) -> "Exchange[ToolParam, MessageParam]":
    """The tools for Messages.

    Without `media`, pictures and PDFs are described in words. Without `follow`, the list stays as it is until
    `refresh()`.
    """

    def declared(tool: Tool) -> "ToolParam":
        return cast("ToolParam", tool.definition("anthropic"))

    form: Form[ToolParam, MessageParam] = Form(
        tool=declared,
        name=lambda tool: tool["name"],
        calls=_calls,
        replies=partial(_messages, media=media),
    )
    return Exchange(source, servers, form, follow=follow)


def messages(prompt: PromptResult, *, media: bool = True) -> "list[MessageParam]":
    """The messages of a prompt.

    Without `media`, pictures and PDFs are described in words, as sound always is.
    """
    return [*map(_message, turns(prompt.messages, SHOWN if media else ()))]


def _calls(response: object) -> list[Called]:
    content = got(response, "content")
    if got(response, "role") != "assistant" or content is None:
        raise TypeError(
            f"{type(response).__name__} is not an assistant message; pass the response of messages.create"
        )
    blocks: list[object] = [] if isinstance(content, str) else list(content)
    cut = got(response, "stop_reason") in _CUT
    return [
        Called(
            id=got(block, "id"),
            name=got(block, "name"),
            arguments=got(block, "input"),
            whole=not cut or block is not blocks[-1],
        )
        for block in blocks
        if got(block, "type") == "tool_use"
    ]


def _messages(answers: Sequence[Answer], _: object, *, media: bool) -> "list[MessageParam]":
    """One message: Anthropic wants the results of a turn together."""
    return [{"role": "user", "content": [_block(answer, media=media) for answer in answers]}]


def _block(answer: Answer, *, media: bool) -> "ToolResultBlockParam":
    result = answer.result
    # A failed result that holds anything but text is refused.
    words = result.is_error or not media
    return {
        "type": "tool_result",
        "tool_use_id": answer.call.id,
        "content": rendered_text(result) if words else _content(result),
        "is_error": result.is_error,
    }


def _content(result: ToolResult) -> "str | list[Content]":
    match blocks := [*taken(result), *documents(result)]:
        case [Text(text=text)]:
            return text
        case _:
            return [_part(block) for block in blocks]


def _message(turn: Turn) -> "MessageParam":
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
    return {"type": "base64", "media_type": block.mime_type, "data": encoded(block)}
