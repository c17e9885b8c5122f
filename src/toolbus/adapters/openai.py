"""The tools and prompts of a bus for OpenAI's own package, over Chat Completions or Responses.

`offer = tools(bus)` is the `tools` of a request; `await offer.replies(completion)` runs what the model called
and gives the messages that come next. `messages(prompt)` is what a prompt of a server says.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

from toolbus.adapters.exchange import Answer, Called, Exchange, Form, got
from toolbus.adapters.media import Document, attached, data_url, documents, taken
from toolbus.adapters.prompts import SHOWN, Part, Turn, turns
from toolbus.adapters.tool_list import Servers, Source
from toolbus.bus.tool import Tool
from toolbus.core.records import PromptResult, Text, ToolResult
from toolbus.shape import rendered_text

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionContentPartParam as ChatPart
    from openai.types.chat import ChatCompletionFunctionToolParam as ChatTool
    from openai.types.chat import ChatCompletionMessageParam as ChatMessage
    from openai.types.responses import FunctionToolParam as ResponsesTool
    from openai.types.responses import ResponseFunctionCallOutputItemParam as OutputPart
    from openai.types.responses import ResponseInputContentParam as InputPart
    from openai.types.responses import ResponseInputItemParam as InputItem

Chat: TypeAlias = Literal["openai", "openai-strict"]
Responses: TypeAlias = Literal["openai-responses"]


@overload
def tools(
    source: Source,
    servers: Servers = None,
    *,
    dialect: Chat = "openai",
    media: bool = True,
    follow: bool = True,
) -> "Exchange[ChatTool, ChatMessage]": ...
@overload
def tools(
    source: Source, servers: Servers = None, *, dialect: Responses, media: bool = True, follow: bool = True
) -> "Exchange[ResponsesTool, InputItem]": ...
def tools(
    source: Source,
    servers: Servers = None,
    *,
    dialect: Chat | Responses = "openai",
    media: bool = True,
    follow: bool = True,
) -> Exchange[Any, Any]:
    """The tools for Chat Completions, strict ones (`openai-strict`), or for Responses (`openai-responses`).

    Without `media`, pictures and PDFs are described in words, for a model that takes only text. Without
    `follow`, the list stays as it is until `refresh()`.
    """
    form = _responses(media=media) if dialect == "openai-responses" else _chat(dialect, media=media)
    return Exchange(source, servers, form, follow=follow)


@overload
def messages(
    prompt: PromptResult, *, dialect: Chat = "openai", media: bool = True
) -> "list[ChatMessage]": ...
@overload
def messages(prompt: PromptResult, *, dialect: Responses, media: bool = True) -> "list[InputItem]": ...
def messages(
    prompt: PromptResult, *, dialect: Chat | Responses = "openai", media: bool = True
) -> "list[ChatMessage] | list[InputItem]":
    """The messages of a prompt for Chat Completions, or the input for Responses (`openai-responses`).

    Without `media`, pictures and PDFs are described in words, as sound always is.
    """
    said = turns(prompt.messages, SHOWN if media else ())
    return [*map(_item, said)] if dialect == "openai-responses" else [*map(_message, said)]


def _chat(dialect: Chat, *, media: bool) -> "Form[ChatTool, ChatMessage]":
    def declared(tool: Tool) -> "ChatTool":
        return cast("ChatTool", tool.definition(dialect))

    return Form(
        tool=declared,
        name=lambda tool: tool["function"]["name"],
        calls=_chat_calls,
        replies=partial(_messages, media=media),
    )


def _chat_calls(response: object) -> list[Called]:
    """Of the first choice of a completion, or of its message."""
    choice = next(iter(got(response, "choices") or ()), None)
    message = response if choice is None else got(choice, "message")
    if got(message, "role") != "assistant":
        raise TypeError(
            f"{type(response).__name__} is neither a chat completion nor its message; "
            "for Responses, use tools(bus, dialect='openai-responses')"
        )
    calls = [call for call in got(message, "tool_calls") or () if got(call, "function") is not None]
    cut = got(choice, "finish_reason") == "length"
    return [
        Called(
            id=got(call, "id"),
            name=got(got(call, "function"), "name"),
            arguments=got(got(call, "function"), "arguments"),
            whole=not cut or call is not calls[-1],
        )
        for call in calls
    ]


def _messages(answers: Sequence[Answer], _: object, *, media: bool) -> "list[ChatMessage]":
    """A message for each call. Such a one holds only text: what there is to see follows as a user's."""
    messages: list[ChatMessage] = []
    seen: list[ChatPart] = []
    for answer in answers:
        call, result = answer.call, answer.result
        messages.append({"role": "tool", "tool_call_id": call.id, "content": rendered_text(result)})
        if media and (parts := attached(result)):
            seen.append({"type": "text", "text": f"From the result of {call.name} ({call.id}):"})
            seen += map(_chat_part, parts)
    if seen:
        messages.append({"role": "user", "content": seen})
    return messages


def _message(turn: Turn) -> "ChatMessage":
    if turn.role == "assistant":
        return {"role": "assistant", "content": turn.text}
    return {"role": "user", "content": turn.text if turn.is_text else [*map(_chat_part, turn.parts)]}


def _chat_part(block: Part) -> "ChatPart":
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Document():
            return {"type": "file", "file": {"filename": block.name, "file_data": data_url(block)}}
        case _:
            return {"type": "image_url", "image_url": {"url": data_url(block)}}


def _responses(*, media: bool) -> "Form[ResponsesTool, InputItem]":
    def declared(tool: Tool) -> "ResponsesTool":
        return cast("ResponsesTool", tool.definition("openai-responses"))

    return Form(
        tool=declared,
        name=lambda tool: tool["name"],
        calls=_responses_calls,
        replies=partial(_items, media=media),
    )


def _responses_calls(response: object) -> list[Called]:
    output = got(response, "output")
    if not isinstance(output, list):
        raise TypeError(
            f"{type(response).__name__} is not a Responses API response; for Chat Completions, use tools(bus)"
        )
    return [
        Called(
            id=got(item, "call_id"),
            name=got(item, "name"),
            arguments=got(item, "arguments"),
            whole=got(item, "status") != "incomplete",
        )
        for item in cast(list[object], output)
        if got(item, "type") == "function_call"
    ]


def _items(answers: Sequence[Answer], _: object, *, media: bool) -> "list[InputItem]":
    return [
        {
            "type": "function_call_output",
            "call_id": answer.call.id,
            "output": _output(answer.result) if media else rendered_text(answer.result),
        }
        for answer in answers
    ]


def _output(result: ToolResult) -> "str | list[OutputPart]":
    if not attached(result):
        return rendered_text(result)
    return cast("list[OutputPart]", [_part(block) for block in (*taken(result), *documents(result))])


def _item(turn: Turn) -> "InputItem":
    return {"role": turn.role, "content": turn.text if turn.is_text else [*map(_part, turn.parts)]}


def _part(block: Part) -> "InputPart":
    match block:
        case Text():
            return {"type": "input_text", "text": block.text}
        case Document():
            return {"type": "input_file", "filename": block.name, "file_data": data_url(block)}
        case _:
            return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}
