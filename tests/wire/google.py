"""Google generateContent: POST /v1beta/models/{model}:generateContent and :streamGenerateContent.

Google uses the JSON of protocol buffers, which may spell a field in camel or in snake case.
"""

import json
from collections.abc import Iterator

from tests.wire.answer import Answer
from tests.wire.asked import Conversation, Entry, Given
from tests.wire.content import content_of, listed_of
from tests.wire.dialect import Dialect
from tests.wire.refusal import google_error
from tests.wire.rules import google_errors
from tests.wire.turn import JSON

SINGLE_TEXTS = ("result", "output", "error")


def read(body: JSON) -> Conversation:
    """The system instruction, contents and function declarations of a request."""
    system: JSON = _either(body, "systemInstruction", "system_instruction")
    head = [Entry(role="system", content=content_of(system.get("parts")))] if system else []
    return Conversation(
        entries=head + _entries(listed_of(body["contents"])), tools=_tools(body.get("tools") or [])
    )


def plain(answer: Answer) -> JSON:
    """The answer as one object; raises Unsendable for arguments that are no JSON object."""
    return _chunk(answer, _parts(answer, [answer.text] if answer.text else []), last=True)


def stream(answer: Answer) -> Iterator[str]:
    """The answer as chunks of one part each; calls come whole, as Google sends them."""
    parts = _parts(answer, answer.text_pieces())
    for place, part in enumerate(parts, 1):
        last = place == len(parts) and not answer.breaks
        yield f"data: {json.dumps(_chunk(answer, [part], last=last), ensure_ascii=False)}\r\n\r\n"


def _parts(answer: Answer, texts: list[str]) -> list[JSON]:
    parts: list[JSON] = [{"text": text} for text in texts]
    for call in answer.calls:
        parts.append({"functionCall": {"id": call.id, "name": call.name, "args": call.parsed}})
    return parts or [{"text": ""}]


def _chunk(answer: Answer, parts: list[JSON], *, last: bool) -> JSON:
    candidate: JSON = {"content": {"role": "model", "parts": parts}, "index": 0}
    usage = {"promptTokenCount": answer.asked.tokens, "totalTokenCount": answer.asked.tokens}
    if last:
        candidate["finishReason"] = "STOP"
        usage["candidatesTokenCount"] = answer.tokens
        usage["totalTokenCount"] += answer.tokens
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": answer.asked.model,
        "responseId": f"response_{answer.number}",
    }


def _tools(tools: list[JSON]) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for tool in tools:
        declared: list[JSON] | None = _either(tool, "functionDeclarations", "function_declarations")
        if declared is None:
            found.update(dict.fromkeys(tool, tool))  # one of Google's own, known by its only key
        for declaration in declared or []:
            found[declaration["name"]] = declaration
    return found


def _entries(contents: list[JSON]) -> list[Entry]:
    """The contents in order. Ids are optional on this wire: one that is missing follows from the order."""
    entries: list[Entry] = []
    calls: list[tuple[str, str]] = []
    results = 0
    for content in contents:
        parts: list[JSON] = content.get("parts") or []
        begun = len(calls)
        for called in _each(parts, "functionCall", "function_call"):
            calls.append((called.get("id") or f"call_{len(calls) + 1}", called["name"]))
        given: list[Given] = []
        for response in _each(parts, "functionResponse", "function_response"):
            results += 1
            by_order = calls[results - 1][0] if results <= len(calls) else f"call_{results}"
            given.append(_given(response, response.get("id") or by_order))
        role = "model" if content.get("role") == "model" else "user"
        said = content_of(parts)
        entries.append(Entry(role=role, content=said, calls=tuple(calls[begun:]), results=tuple(given)))
    return entries


def _given(part: JSON, call: str) -> Given:
    response: dict[str, JSON] = part.get("response") or {}
    content = content_of(part.get("parts"))
    return Given(
        id=call,
        name=part.get("name"),
        text=_response_text(response),
        images=content.images,
        audio=content.audio,
        files=content.files,
        is_error=True if list(response) == ["error"] else None,
    )


def _response_text(response: dict[str, JSON]) -> str:
    if len(response) == 1:
        [(key, value)] = response.items()
        if key in SINGLE_TEXTS and isinstance(value, str):
            return value
    return json.dumps(response, ensure_ascii=False, separators=(",", ":"))


def _each(parts: list[JSON], camel: str, snake: str) -> Iterator[JSON]:
    for part in parts:
        if (found := _either(part, camel, snake)) is not None:
            yield found


def _either(record: JSON, camel: str, snake: str) -> JSON:
    return record.get(camel, record.get(snake))


GOOGLE = Dialect(
    wire="google", errors=google_errors, read=read, plain=plain, stream=stream, error=google_error
)
