"""OpenAI Responses: POST /v1/responses."""

import json
from collections.abc import Iterator
from itertools import count

from tests.wire.answer import Answer, Call, argument_pieces
from tests.wire.asked import Conversation, Entry, Given
from tests.wire.content import content_of
from tests.wire.dialect import Dialect, server_sent
from tests.wire.refusal import openai_error
from tests.wire.rules import responses_errors
from tests.wire.turn import JSON

Event = tuple[str, dict[str, JSON]]


def read(body: JSON) -> Conversation:
    """The instructions, input items and tools of a request."""
    given: JSON = body.get("input") or []
    items: list[JSON] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    instructions: JSON = body.get("instructions")
    head = [Entry(role="system", content=content_of(instructions))] if instructions else []
    tools: list[JSON] = body.get("tools") or []
    return Conversation(
        entries=head + [_entry(item) for item in items],
        tools={tool.get("name", tool["type"]): tool for tool in tools},
    )


def plain(answer: Answer) -> JSON:
    """The answer as one object."""
    output = [_message(answer, "completed")] if _speaks(answer) else []
    output += [_item(answer, call, "completed") for call in answer.calls]
    return {**_response(answer, "completed"), "output": output, "usage": _usage(answer)}


def stream(answer: Answer) -> Iterator[str]:
    """The answer as typed events, numbered from 0."""
    for number, (kind, fields) in enumerate(_events(answer)):
        yield server_sent({"type": kind, "sequence_number": number, **fields}, kind)


def _events(answer: Answer) -> Iterator[Event]:
    yield "response.created", {"response": _response(answer, "in_progress")}
    yield "response.in_progress", {"response": _response(answer, "in_progress")}
    places = count()
    if _speaks(answer):
        yield from _message_events(answer, next(places))
    if answer.breaks:
        return
    for call in answer.calls:
        yield from _call_events(answer, call, next(places))
    yield "response.completed", {"response": plain(answer)}


def _message_events(answer: Answer, place: int) -> Iterator[Event]:
    item = _message(answer, "completed")
    where = {"item_id": item["id"], "output_index": place, "content_index": 0}
    begun: JSON = {**_message(answer, "in_progress"), "content": []}
    yield "response.output_item.added", {"output_index": place, "item": begun}
    yield "response.content_part.added", {**where, "part": _part("")}
    for piece in answer.text_pieces():
        yield "response.output_text.delta", {**where, "delta": piece, "logprobs": []}
    if answer.breaks:
        return
    yield "response.output_text.done", {**where, "text": answer.text, "logprobs": []}
    yield "response.content_part.done", {**where, "part": _part(answer.text)}
    yield "response.output_item.done", {"output_index": place, "item": item}


def _call_events(answer: Answer, call: Call, place: int) -> Iterator[Event]:
    item = _item(answer, call, "completed")
    if item["type"] == "tool_search_call":
        begun: JSON = {**item, "arguments": {}, "status": "in_progress"}
        yield "response.output_item.added", {"output_index": place, "item": begun}
        yield "response.output_item.done", {"output_index": place, "item": item}
        return
    where = {"item_id": item["id"], "output_index": place}
    begun = {**item, "status": "in_progress", "arguments": ""}
    yield "response.output_item.added", {"output_index": place, "item": begun}
    for piece in argument_pieces(call):
        yield "response.function_call_arguments.delta", {**where, "delta": piece}
    done = {**where, "name": call.name, "arguments": call.arguments}
    yield "response.function_call_arguments.done", done
    yield "response.output_item.done", {"output_index": place, "item": item}


def _entry(item: JSON) -> Entry:
    match item:
        case {"type": "function_call", "call_id": str(call), "name": str(name)}:
            return Entry(role="model", calls=((call, name),))
        case {"type": "function_call_output", "call_id": str(call)}:
            return Entry(role="user", results=(_given(call, item),))
        case {"type": "tool_search_call", "call_id": str(call)}:
            return Entry(role="model", calls=((call, "search_tools"),))
        case {"type": "tool_search_output", "call_id": str(call)}:
            return Entry(role="user", results=(Given(id=call, text=json.dumps(item["tools"])),))
        case {"role": "system" | "developer"}:
            return Entry(role="system", content=content_of(item["content"]))
        case {"role": "user"}:
            return Entry(role="user", content=content_of(item["content"]))
        case _:  # what the assistant said, thought, or had run by the provider
            return Entry(role="model", content=content_of(item.get("content")))


def _given(call: str, item: JSON) -> Given:
    content = content_of(item["output"])
    return Given(
        id=call,
        name=item.get("name"),
        text=content.text,
        images=content.images,
        audio=content.audio,
        files=content.files,
    )


def _speaks(answer: Answer) -> bool:
    return bool(answer.text) or not answer.calls


def _response(answer: Answer, status: str) -> dict[str, JSON]:
    body: JSON = answer.asked.body
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": answer.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "model": answer.asked.model,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": body.get("store") is not False,
        "temperature": 1.0,
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
    }


def _message(answer: Answer, status: str) -> JSON:
    return {
        "id": f"msg_{answer.number}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [_part(answer.text)],
    }


def _part(text: str) -> JSON:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call(call: Call, status: str) -> JSON:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def _item(answer: Answer, call: Call, status: str) -> JSON:
    """A call; of a tool in a namespace with its name, and a search for tools in its own form."""
    body: JSON = answer.asked.body
    tools: list[JSON] = body.get("tools") or []
    if call.name == "search_tools" and any(tool["type"] == "tool_search" for tool in tools):
        return {
            "id": f"ts_{call.id}",
            "type": "tool_search_call",
            "status": status,
            "execution": "client",
            "call_id": call.id,
            "arguments": call.parsed,
        }
    items: list[JSON] = body["input"] if isinstance(body.get("input"), list) else []
    loaded = [tool for item in items if item.get("type") == "tool_search_output" for tool in item["tools"]]
    for namespace in loaded:
        if call.name in [tool["name"] for tool in namespace.get("tools", ())]:
            return {**_call(call, status), "namespace": namespace["name"]}
    return _call(call, status)


def _usage(answer: Answer) -> JSON:
    return {
        "input_tokens": answer.asked.tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answer.tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.asked.tokens + answer.tokens,
    }


RESPONSES = Dialect(
    wire="responses", errors=responses_errors, read=read, plain=plain, stream=stream, error=openai_error
)
