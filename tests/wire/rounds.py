"""One conversation with two rounds of tool calls, spelt for each wire, and its expected reading."""

import base64
from dataclasses import replace
from typing import Any

from google.genai.types import FunctionResponsePart

from tests.wire.asked import Given, Wire
from tests.wire.clients import PROMPT

PIXEL = b"\x89PNG\r\n\x1a\n\xfb\xff\xfe not quite an image"
ENCODED = base64.b64encode(PIXEL).decode()
URL = f"data:image/png;base64,{ENCODED}"

CHAT_ROUNDS: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "tool_calls": [
            {"id": "old", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "old", "content": "before"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "fail", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "a", "content": [
            {"type": "text", "text": "one"}, {"type": "text", "text": "two"},
        ]},
        {"role": "tool", "tool_call_id": "b", "content": "broken"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}]},
    ],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
}  # fmt: skip
RESPONSES_ROUNDS: dict[str, Any] = {
    "instructions": "Be kind.",
    "input": [
        {"role": "user", "content": PROMPT},
        {"type": "function_call", "call_id": "old", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "old", "output": "before"},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "fail", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": [
            {"type": "input_text", "text": "one"},
            {"type": "input_text", "text": "two"},
            {"type": "input_image", "image_url": URL, "detail": "auto"},
        ]},
        {"type": "function_call_output", "call_id": "b", "output": "broken"},
    ],
    "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}],
}  # fmt: skip
ANTHROPIC_ROUNDS: dict[str, Any] = {
    "system": "Be kind.",
    "messages": [
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "old", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "old", "content": "before"}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "look", "input": {}},
            {"type": "tool_use", "id": "b", "name": "fail", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [
                {"type": "text", "text": "one"},
                {"type": "text", "text": "two"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}},
            ]},
            {"type": "tool_result", "tool_use_id": "b", "content": "broken", "is_error": True},
        ]},
    ],
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
}  # fmt: skip
PICTURE = FunctionResponsePart.from_bytes(data=PIXEL, mime_type="image/png")
GOOGLE_ROUNDS: dict[str, Any] = {
    "contents": [
        {"role": "user", "parts": [{"text": PROMPT}]},
        {"role": "model", "parts": [{"function_call": {"name": "look", "args": {}}}]},
        {"role": "user", "parts": [
            {"function_response": {"name": "look", "response": {"result": "before"}}},
        ]},
        {"role": "model", "parts": [
            {"function_call": {"id": "a", "name": "look", "args": {}}},
            {"function_call": {"name": "fail", "args": {}}},
        ]},
        {"role": "user", "parts": [
            {"function_response": {
                "id": "a", "name": "look", "response": {"one": 1, "two": "zwei"}, "parts": [PICTURE],
            }},
            {"function_response": {"name": "fail", "response": {"error": "broken"}}},
        ]},
    ],
    "config": {
        "system_instruction": "Be kind.",
        "tools": [{"function_declarations": [{"name": "look", "description": "Looks."}]}],
    },
}  # fmt: skip
ROUNDS: dict[Wire, dict[str, Any]] = {
    "chat": CHAT_ROUNDS,
    "responses": RESPONSES_ROUNDS,
    "anthropic": ANTHROPIC_ROUNDS,
    "google": GOOGLE_ROUNDS,
}

OLD = Given(id="old", name="look", text="before")
GOOD = Given(id="a", name="look", text="one\ntwo", images=(PIXEL,))
BAD = Given(id="b", name="fail", text="broken")
TOLD: dict[Wire, tuple[Given, ...]] = {
    "chat": (OLD, replace(GOOD, images=()), BAD),
    "responses": (OLD, GOOD, BAD),
    "anthropic": (replace(OLD, is_error=False), replace(GOOD, is_error=False), replace(BAD, is_error=True)),
    "google": (
        replace(OLD, id="call_1"),
        replace(GOOD, text='{"one":1,"two":"zwei"}'),
        replace(BAD, id="call_3", is_error=True),
    ),
}
