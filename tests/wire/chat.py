"""OpenAI Chat Completions: POST /v1/chat/completions."""

from collections.abc import Iterator

from tests.wire.answer import Answer, Call, argument_pieces
from tests.wire.asked import Conversation, Entry, Given
from tests.wire.content import content_of
from tests.wire.dialect import Dialect, server_sent
from tests.wire.refusal import openai_error
from tests.wire.rules import chat_errors
from tests.wire.turn import JSON


def read(body: JSON) -> Conversation:
    """The messages and tools of a request."""
    tools: list[JSON] = body.get("tools") or []
    return Conversation(
        entries=[_entry(message) for message in body["messages"]],
        tools={(tool.get(tool["type"]) or tool).get("name", tool["type"]): tool for tool in tools},
    )


def plain(answer: Answer) -> JSON:
    """The answer as one object."""
    message: JSON = {"role": "assistant", "content": _content(answer), "refusal": None, "annotations": []}
    if answer.calls:
        message["tool_calls"] = [_call(call) for call in answer.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def stream(answer: Answer) -> Iterator[str]:
    """The answer as chunks; the usage comes as a last chunk without choices, if it was asked for."""
    options: JSON = answer.asked.body.get("stream_options") or {}
    head = _head(answer, "chat.completion.chunk")
    if counts := bool(options.get("include_usage")):
        head["usage"] = None

    def chunk(delta: JSON, finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return server_sent({**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": "" if answer.text else _content(answer), "refusal": None})
    for piece in answer.text_pieces():
        yield chunk({"content": piece})
    if answer.breaks:
        return
    for index, call in enumerate(answer.calls):
        begun = _call(call)
        begun["function"]["arguments"] = ""
        yield chunk({"tool_calls": [{"index": index, **begun}]})
        for piece in argument_pieces(call):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _finish(answer))
    if counts:
        yield server_sent({**head, "choices": [], "usage": _usage(answer)})
    yield "data: [DONE]\n\n"


def _entry(message: JSON) -> Entry:
    content = content_of(message.get("content"))
    match message["role"]:
        case "system" | "developer":
            return Entry(role="system", content=content)
        case "assistant":
            calls: list[JSON] = message.get("tool_calls") or []
            pairs = ((call["id"], (call.get("function") or call.get("custom"))["name"]) for call in calls)
            return Entry(role="model", content=content, calls=tuple(pairs))
        case "tool":
            given = Given(
                id=message["tool_call_id"],
                name=message.get("name"),
                text=content.text,
                images=content.images,
                audio=content.audio,
                files=content.files,
            )
            return Entry(role="user", results=(given,))
        case _:
            return Entry(role="user", content=content)


def _head(answer: Answer, kind: str) -> dict[str, JSON]:
    return {
        "id": f"chatcmpl-{answer.number}",
        "object": kind,
        "created": answer.created,
        "model": answer.asked.model,
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def _content(answer: Answer) -> str | None:
    return answer.text or (None if answer.calls else "")


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _call(call: Call) -> JSON:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(answer: Answer) -> JSON:
    return {
        "prompt_tokens": answer.asked.tokens,
        "completion_tokens": answer.tokens,
        "total_tokens": answer.asked.tokens + answer.tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


CHAT = Dialect(wire="chat", errors=chat_errors, read=read, plain=plain, stream=stream, error=openai_error)
