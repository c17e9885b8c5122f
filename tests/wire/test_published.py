"""The scripted provider refuses what the real ones refuse, each in its own words and form."""

import json
from copy import deepcopy
from typing import Any

import httpx2
import pytest

from tests.wire import Provider, ToolCall
from tests.wire.asked import Wire
from tests.wire.rounds import ANTHROPIC_ROUNDS, CHAT_ROUNDS, ENCODED, RESPONSES_ROUNDS

pytestmark = pytest.mark.anyio

PATHS: dict[Wire, str] = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/scripted:generateContent",
}
GOOGLE: dict[str, Any] = {
    "contents": [
        {"role": "user", "parts": [{"text": "Go."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "3"}}}]},
    ],
    "tools": [{"functionDeclarations": [{"name": "look", "parameters": {"type": "OBJECT"}}]}],
}
GOOD: dict[Wire, dict[str, Any]] = {
    "chat": {"model": "scripted", **CHAT_ROUNDS},
    "responses": {"model": "scripted", **RESPONSES_ROUNDS},
    "anthropic": {"model": "scripted", "max_tokens": 9, **ANTHROPIC_ROUNDS},
    "google": GOOGLE,
}
REMOTE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
TEXT = {"type": "text", "text": "one"}
SVG = f"data:image/svg+xml;base64,{ENCODED}"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}}
Step = str | int
# A wire, the place of one value, what is put there (None: nothing), and what the provider says.
CASES: list[tuple[Wire, tuple[Step, ...], Any, str]] = [
    ("chat", ("messages", 7, "content", 0), "From the result of look:", "messages.7.content.0: "),
    ("chat", ("messages", 5, "content", 0), REMOTE, "messages.5.content.0.type: Input should be 'text'"),
    ("chat", ("messages", 7, "content", 0, "image_url", "url"), SVG, "unsupported image"),
    ("chat", ("messages", 6), None, "did not have response messages: b"),
    ("chat", ("messages", 6, "tool_call_id"), "other", "must be a response to a preceding message"),
    ("chat", ("messages", 4), {"role": "user", "content": "no"}, "must be a response to a preceding message"),
    ("chat", ("messages", 2, "tool_calls", 0, "function", "name"), "a.b", "string does not match pattern"),
    ("chat", ("messages", 2), {"role": "assistant", "content": None}, "content of an assistant message"),
    ("chat", ("tools", 0, "function", "name"), "a" * 65, "string does not match pattern"),
    ("chat", ("tools", 0, "function", "parameters"), {"type": "array", "items": {}}, "'type: \"object\"'"),
    ("chat", ("tools", 0, "function", "strict"), True, "'additionalProperties' is required"),
    ("chat", ("unknown",), 1, "unknown: Extra inputs are not permitted"),
    ("chat", ("messages", 0, "unknown"), 1, "messages.0.unknown: Extra inputs are not permitted"),
    ("chat", ("messages", 0, "content"), None, "messages.0.content: Field required"),
    ("responses", ("input", 5, "output", 0), "bare", "input.5.output.0: "),
    ("responses", ("input", 5, "output", 2, "image_url"), SVG, "unsupported image"),
    ("responses", ("input", 6), None, "No tool output found for function call b"),
    ("responses", ("input", 3), None, "No tool call found for function call output with call_id a"),
    ("responses", ("input", 3, "id"), "call_1", "Expected an ID that begins with 'fc'"),
    ("responses", ("tools", 0, "name"), "a b", "string does not match pattern"),
    ("responses", ("tools", 0, "parameters"), {"type": "string"}, "'type: \"object\"'"),
    ("responses", ("tools", 0, "unknown"), 1, "tools.0.unknown: Extra inputs are not permitted"),
    ("anthropic", ("max_tokens",), None, "max_tokens: Field required"),
    ("anthropic", ("messages", 4, "content", 0, "content", 0), "bare", "messages.4.content.0.content.0: "),
    ("anthropic", ("messages", 4, "content", 1, "content"), [IMAGE], "all content must be type `text`"),
    ("anthropic", ("messages", 4, "content", 0), TEXT, "tool_result blocks must come first"),
    ("anthropic", ("messages", 4, "content", 1), None, "need tool_result blocks here"),
    ("anthropic", ("messages", 4), None, "without tool_result blocks immediately after"),
    ("anthropic", ("messages", 0), None, "first message must use the 'user' role"),
    ("anthropic", ("messages", 0, "content"), " ", "must contain non-whitespace text"),
    ("anthropic", ("messages", 4, "content", 0, "content", 2, "source", "media_type"), "image/bmp", "type"),
    ("anthropic", ("tools", 0, "name"), "a/b", "string does not match pattern"),
    ("anthropic", ("tools", 0, "input_schema", "type"), "array", "input_schema.type"),
    ("anthropic", ("tools", 0, "input_schema", "oneOf"), [{}], "does not support oneOf at the top level"),
    ("google", ("contents", 0, "parts", 0), "bare", "contents.0.parts.0: "),
    ("google", ("contents", 0, "parts"), [], "at least one parts field"),
    ("google", ("contents", 2), None, "0 function responses for 1 function calls"),
    ("google", ("contents", 0), None, "must come after a user or function response turn"),
    ("google", ("contents", 0, "unknown"), 1, "contents.0.unknown: Extra inputs are not permitted"),
    ("google", ("tools", 0, "functionDeclarations", 0, "name"), "1st", "string does not match pattern"),
    ("google", ("tools", 0, "functionDeclarations", 0, "parameters", "type"), "BOX", "not a valid Type"),
]  # fmt: skip


async def posted(provider: Provider, wire: Wire, body: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=provider.url) as client:
        return await client.post(PATHS[wire], json=body)


def changed(wire: Wire, steps: tuple[Step, ...], value: Any) -> Any:
    """The good request with another value at one place."""
    body: Any = deepcopy(GOOD[wire])
    *parents, last = steps
    holder = body
    for step in parents:
        holder = holder[step]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return body


@pytest.mark.parametrize("wire", PATHS)
async def test_a_request_of_the_published_types_is_answered(wire: Wire) -> None:
    with Provider(["Done."]) as provider:
        assert (await posted(provider, wire, GOOD[wire])).status_code == 200
        assert len(provider.asked) == 1


@pytest.mark.parametrize(("wire", "steps", "value", "said"), CASES)
async def test_what_the_real_provider_refuses_is_refused(
    wire: Wire, steps: tuple[Step, ...], value: Any, said: str
) -> None:
    with Provider(["Done."]) as provider:
        refused = await posted(provider, wire, changed(wire, steps, value))
        assert (provider.asked, provider.left) == ([], ["Done."])
    error = refused.json()["error"]
    assert refused.status_code == 400
    assert said in error["message"]
    kind = error["status"] if wire == "google" else error["type"]
    assert kind == ("INVALID_ARGUMENT" if wire == "google" else "invalid_request_error")


@pytest.mark.parametrize("wire", ["anthropic", "google"])
async def test_a_name_is_declared_once(wire: Wire) -> None:
    body = deepcopy(GOOD[wire])
    tools = body["tools"] if wire == "anthropic" else body["tools"][0]["functionDeclarations"]
    tools.append(tools[0])
    with Provider(["Done."]) as provider:
        assert "look" in json.dumps((await posted(provider, wire, body)).json()["error"])


async def test_a_kept_conversation_knows_its_calls_only() -> None:
    def answer(call: str) -> dict[str, Any]:
        item = {"type": "function_call_output", "call_id": call, "output": "3"}
        return {"model": "scripted", "input": [item], "previous_response_id": "resp_1"}

    with Provider([[ToolCall("look")], "Done."]) as provider:
        await posted(provider, "responses", {"model": "scripted", "input": "Go."})
        assert (await posted(provider, "responses", answer("call_2"))).status_code == 400
        assert (await posted(provider, "responses", answer("call_1"))).status_code == 200
