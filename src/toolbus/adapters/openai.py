"""Tools and prompts for the `openai` package, with the Chat Completions or Responses API.

Pass `toolbox = tools(bus)` as the `tools` of a request. `await toolbox.replies(completion)` runs the calls of
the response and returns the next messages. `messages(prompt)` converts a prompt of a server.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

from toolbus.adapters.media import (
    PROMPT_TYPES,
    Document,
    Part,
    PromptTurn,
    attachments,
    data_url,
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
from toolbus.bus.catalog.exposure import SEARCH
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.values.records import JSON, PromptResult, Text, ToolResult
from toolbus.shape import rendered_text

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionContentPartParam as ChatPart
    from openai.types.chat import ChatCompletionFunctionToolParam as ChatTool
    from openai.types.chat import ChatCompletionMessageParam as ChatMessage
    from openai.types.responses import FunctionToolParam as ResponsesTool
    from openai.types.responses import ResponseFunctionCallOutputItemParam as OutputPart
    from openai.types.responses import ResponseInputContentParam as InputPart
    from openai.types.responses import ResponseInputItemParam as InputItem
    from openai.types.responses import ToolSearchToolParam

__all__ = ["messages", "tools"]

Chat: TypeAlias = Literal["openai", "openai-strict"]
Responses: TypeAlias = Literal["openai-responses"]


@overload
def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    dialect: Chat = "openai",
    media: bool = True,
    follow: bool = True,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> "ProviderTools[ChatTool, ChatMessage]": ...
@overload
def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    dialect: Responses,
    media: bool = True,
    follow: bool = True,
    native: bool = True,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> "ProviderTools[ResponsesTool, InputItem]": ...
def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    dialect: Chat | Responses = "openai",
    media: bool = True,
    follow: bool = True,
    native: bool = True,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> ProviderTools[Any, Any]:
    """The tools for Chat Completions, optionally strict (`openai-strict`), or Responses (`openai-responses`).

    Without `media`, images and PDFs are described in text, for models that accept only text. Without
    `follow`, the list changes only with `refresh()`. With Responses, `expose: search` uses the API's own tool
    search, which loads the tools that our index finds. Without `native`, it uses `search_tools` and
    `call_tool`: for models before gpt-5.4, and for other providers of this API.
    """
    provider = (
        _responses(media=media, native=native)
        if dialect == "openai-responses"
        else _chat(dialect, media=media)
    )
    return ProviderTools(shown(source, expose, always), servers, provider, face="openai", follow=follow)


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

    Without `media`, images and PDFs are described in text. Audio always is.
    """
    turns = prompt_turns(prompt.messages, PROMPT_TYPES if media else ())
    return [*map(_item, turns)] if dialect == "openai-responses" else [*map(_message, turns)]


def _chat(dialect: Chat, *, media: bool) -> "ProviderFormat[ChatTool, ChatMessage]":
    def definition(tool: Tool) -> "ChatTool":
        return cast("ChatTool", tool.definition(dialect))

    return ProviderFormat(
        tool=definition,
        name=lambda tool: tool["function"]["name"],
        calls=_chat_calls,
        replies=partial(_messages, media=media),
    )


def _chat_calls(response: object) -> list[RequestedCall]:
    """The calls of the first choice of a completion, or of its message."""
    choice = next(iter(field_of(response, "choices") or ()), None)
    message = response if choice is None else field_of(choice, "message")
    if field_of(message, "role") != "assistant":
        raise TypeError(
            f"{type(response).__name__} is neither a chat completion nor its message; "
            "for Responses, use tools(bus, dialect='openai-responses')"
        )
    calls = [call for call in field_of(message, "tool_calls") or () if field_of(call, "function") is not None]
    cut_off = field_of(choice, "finish_reason") == "length"
    return [
        RequestedCall(
            id=field_of(call, "id"),
            name=field_of(field_of(call, "function"), "name"),
            arguments=field_of(field_of(call, "function"), "arguments"),
            complete=not cut_off or call is not calls[-1],
        )
        for call in calls
    ]


def _messages(answers: Sequence[CompletedCall], _: object, *, media: bool) -> "list[ChatMessage]":
    """One message per call. Tool messages hold only text, so images and PDFs follow in a user message."""
    messages: list[ChatMessage] = []
    files: list[ChatPart] = []
    for answer in answers:
        call, result = answer.call, answer.result
        messages.append({"role": "tool", "tool_call_id": call.id, "content": rendered_text(result)})
        if media and (parts := attachments(result)):
            files.append({"type": "text", "text": f"From the result of {call.name} ({call.id}):"})
            files += map(_chat_part, parts)
    if files:
        messages.append({"role": "user", "content": files})
    return messages


def _message(turn: PromptTurn) -> "ChatMessage":
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


def _responses(*, media: bool, native: bool) -> "ProviderFormat[ResponsesTool, InputItem]":
    def definition(tool: Tool) -> "ResponsesTool":
        if native and tool.spec.route == SEARCH:
            return cast("ResponsesTool", _search_definition(tool))
        return cast("ResponsesTool", tool.definition("openai-responses"))

    return ProviderFormat(
        tool=definition,
        name=lambda tool: tool.get("name", "search_tools"),
        calls=_responses_calls,
        replies=partial(_items, media=media),
        loads=native,
        sends_loadable=False,
    )


def _responses_calls(response: object) -> list[RequestedCall]:
    output = field_of(response, "output")
    if not isinstance(output, list):
        raise TypeError(
            f"{type(response).__name__} is not a Responses API response; for Chat Completions, use tools(bus)"
        )
    calls = (
        RequestedCall(
            id=field_of(item, "call_id"),
            name=field_of(item, "name"),
            arguments=field_of(item, "arguments"),
            complete=field_of(item, "status") != "incomplete",
        )
        if field_of(item, "type") == "function_call"
        else _search_call(item)
        for item in cast(list[object], output)
    )
    return [call for call in calls if call is not None]


def _items(answers: Sequence[CompletedCall], _: object, *, media: bool) -> "list[InputItem]":
    return [
        _search_output(answer)
        if answer.call.is_search
        else {
            "type": "function_call_output",
            "call_id": answer.call.id,
            "output": _output(answer.result) if media else rendered_text(answer.result),
        }
        for answer in answers
    ]


def _output(result: ToolResult) -> "str | list[OutputPart]":
    if not attachments(result):
        return rendered_text(result)
    return cast(
        "list[OutputPart]", [_part(block) for block in (*model_blocks(result), *pdf_documents(result))]
    )


def _item(turn: PromptTurn) -> "InputItem":
    return {"role": turn.role, "content": turn.text if turn.is_text else [*map(_part, turn.parts)]}


def _part(block: Part) -> "InputPart":
    match block:
        case Text():
            return {"type": "input_text", "text": block.text}
        case Document():
            return {"type": "input_file", "filename": block.name, "file_data": data_url(block)}
        case _:
            return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}


_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64


def _search_definition(tool: Tool) -> "ToolSearchToolParam":
    """The search for tools in the Responses API, executed here: the model asks, our index answers.

    A request has it instead of the hidden tools. The reply to its call has the definitions of those found, in
    one namespace for each server, and the model calls them from then on. The API keeps them at the end of the
    conversation, so what requests begin with stays the same.
    """
    return {
        "type": "tool_search",
        "execution": "client",
        "description": tool.description,
        "parameters": tool.parameters,
    }


def _search_call(item: object) -> RequestedCall | None:
    """The search that an item of a response asks for; None if it is another one, or not ours to execute."""
    if field_of(item, "type") != "tool_search_call" or field_of(item, "execution") == "server":
        return None
    return RequestedCall(
        id=field_of(item, "call_id") or field_of(item, "id"),
        name="search_tools",
        arguments=field_of(item, "arguments"),
        complete=field_of(item, "status") != "incomplete",
        is_search=True,
    )


def _search_output(answer: CompletedCall) -> "InputItem":
    """The definitions that a search found, for the model to call."""
    namespaces: dict[str, dict[str, JSON]] = {}
    for tool, definition in answer.found:
        name = _ILLEGAL.sub("_", tool.server)[:_LONGEST]
        namespace: dict[str, JSON] = {
            "type": "namespace",
            "name": name,
            "description": f"Tools of the server {tool.server!r}.",
            "tools": [],
        }
        namespaces.setdefault(name, namespace)["tools"].append(definition)
    output = {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": answer.call.id,
        "status": "completed",
        "tools": list(namespaces.values()),
    }
    return cast("InputItem", output)
