"""Anthropic Messages: POST /v1/messages."""

from collections.abc import Iterator

from tests.wire.answer import Answer, argument_pieces
from tests.wire.asked import Conversation, Entry, Given
from tests.wire.content import content_of
from tests.wire.dialect import Dialect, server_sent
from tests.wire.refusal import anthropic_error
from tests.wire.rules import anthropic_errors
from tests.wire.turn import JSON


def read(body: JSON) -> Conversation:
    """The system prompt, messages and tools of a request."""
    system: JSON = body.get("system")
    head = [Entry(role="system", content=content_of(system))] if system else []
    tools: list[JSON] = body.get("tools") or []
    return Conversation(
        entries=head + [_entry(message) for message in body["messages"]],
        tools={tool.get("name", tool.get("type")): tool for tool in tools},
    )


def plain(answer: Answer) -> JSON:
    """The answer as one object; raises Unsendable for arguments that are no JSON object."""
    content: list[JSON] = [{"type": "text", "text": answer.text}] if answer.text else []
    for call in answer.calls:
        content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.parsed})
    usage = _usage(answer, answer.tokens)
    return {**_head(answer), "content": content, "stop_reason": _stop(answer), "usage": usage}


def stream(answer: Answer) -> Iterator[str]:
    """The answer as events, each block opened and closed by its index."""
    for event in _events(answer):
        yield server_sent(event, event["type"])


def _events(answer: Answer) -> Iterator[JSON]:
    yield {"type": "message_start", "message": {**_head(answer), "usage": _usage(answer, 1)}}
    yield {"type": "ping"}
    if answer.text:
        yield _begun(0, {"type": "text", "text": ""})
        for piece in answer.text_pieces():
            yield _delta(0, {"type": "text_delta", "text": piece})
    if answer.breaks:
        return
    if answer.text:
        yield {"type": "content_block_stop", "index": 0}
    for index, call in enumerate(answer.calls, 1 if answer.text else 0):
        yield _begun(index, {"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
        yield _delta(index, {"type": "input_json_delta", "partial_json": ""})
        for piece in argument_pieces(call):
            yield _delta(index, {"type": "input_json_delta", "partial_json": piece})
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": _stop(answer), "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": answer.tokens}}
    yield {"type": "message_stop"}


def _begun(index: int, block: JSON) -> JSON:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, delta: JSON) -> JSON:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _entry(message: JSON) -> Entry:
    content: JSON = message["content"]
    blocks: list[JSON] = [] if isinstance(content, str) else content
    match message["role"]:
        case "assistant":
            calls = ((block["id"], block["name"]) for block in blocks if block["type"] == "tool_use")
            return Entry(role="model", content=content_of(content), calls=tuple(calls))
        case "system":
            return Entry(role="system", content=content_of(content))
        case _:
            results = (_given(block) for block in blocks if block["type"] == "tool_result")
            return Entry(role="user", content=content_of(content), results=tuple(results))


def _given(block: JSON) -> Given:
    content = content_of(block.get("content"))
    return Given(
        id=block["tool_use_id"],
        text=content.text,
        images=content.images,
        audio=content.audio,
        files=content.files,
        is_error=bool(block.get("is_error")),
    )


def _head(answer: Answer) -> dict[str, JSON]:
    return {
        "id": f"msg_{answer.number}",
        "type": "message",
        "role": "assistant",
        "model": answer.asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop(answer: Answer) -> str:
    return "tool_use" if answer.calls else "end_turn"


def _usage(answer: Answer, output: int) -> JSON:
    return {
        "input_tokens": answer.asked.tokens,
        "output_tokens": output,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "service_tier": "standard",
    }


MESSAGES = Dialect(
    wire="anthropic", errors=anthropic_errors, read=read, plain=plain, stream=stream, error=anthropic_error
)
