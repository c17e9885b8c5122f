"""The providers' own packages as clients: one question, plain or streamed, told the same way for each.

None of them tries again, so that every request of a test is one request.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from anthropic.types import Message
from google import genai
from google.genai.types import GenerateContentResponse, HttpOptions
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from tests.wire.asked import Wire
from tests.wire.turn import JSON

PROMPT = "What is it?"
MODEL = "scripted"


@dataclass(slots=True, kw_only=True)
class Reply:
    """The client's reading of the answer; a stream adds to it as it comes, even until it breaks."""

    text: str = ""
    calls: list[tuple[str | None, str, JSON]] = field(default_factory=list[tuple[str | None, str, JSON]])
    tokens: int = 0
    """Of the answer, as the provider counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The fields of a request body besides the model; empty, it is a plain prompt."""

    url: str
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    timeout: float = 20


Client = Callable[[Question, Reply], Awaitable[None]]


@asynccontextmanager
async def _openai(question: Question) -> AsyncGenerator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{question.url}/v1", api_key="any", max_retries=0, timeout=question.timeout
    ) as client:
        yield client


async def chat(question: Question, reply: Reply) -> None:
    """Chat Completions, plain."""
    fields: dict[str, Any] = {"messages": [{"role": "user", "content": PROMPT}], **question.fields}
    async with _openai(question) as client:
        answer: ChatCompletion = await client.chat.completions.create(model=MODEL, stream=False, **fields)
    message = answer.choices[0].message
    reply.text = message.content or ""
    for call in message.tool_calls or []:
        assert call.type == "function"
        reply.calls.append((call.id, call.function.name, json.loads(call.function.arguments)))
    assert answer.usage is not None
    reply.tokens = answer.usage.completion_tokens


async def chat_streamed(question: Question, reply: Reply) -> None:
    """Chat Completions, streamed, put together by the package's own accumulator."""
    fields: dict[str, Any] = {"messages": [{"role": "user", "content": PROMPT}], **question.fields}
    counted: Any = {"include_usage": True}
    async with (
        _openai(question) as client,
        client.chat.completions.stream(model=MODEL, stream_options=counted, **fields) as stream,
    ):
        async for event in stream:
            if event.type == "chunk":
                reply.text += _delta(event.chunk)
        answer = await stream.get_final_completion()
    for call in answer.choices[0].message.tool_calls or []:
        reply.calls.append((call.id, call.function.name, json.loads(call.function.arguments)))
    assert answer.usage is not None
    reply.tokens = answer.usage.completion_tokens


def _delta(chunk: ChatCompletionChunk) -> str:
    return (chunk.choices[0].delta.content or "") if chunk.choices else ""


async def responses(question: Question, reply: Reply) -> None:
    """Responses, plain."""
    fields: dict[str, Any] = {"input": PROMPT, **question.fields}
    async with _openai(question) as client:
        answer: Response = await client.responses.create(model=MODEL, stream=False, **fields)
    reply.text = answer.output_text
    _take_responses(answer, reply)


async def responses_streamed(question: Question, reply: Reply) -> None:
    """Responses, streamed, put together by the package's own accumulator."""
    fields: dict[str, Any] = {"input": PROMPT, **question.fields}
    async with _openai(question) as client, client.responses.stream(model=MODEL, **fields) as stream:
        async for event in stream:
            if event.type == "response.output_text.delta":
                reply.text += event.delta
        answer = await stream.get_final_response()
    _take_responses(answer, reply)


def _take_responses(answer: Response, reply: Reply) -> None:
    for item in answer.output:
        if item.type == "function_call":
            reply.calls.append((item.call_id, item.name, json.loads(item.arguments)))
    assert answer.usage is not None
    reply.tokens = answer.usage.output_tokens


@asynccontextmanager
async def _anthropic(question: Question) -> AsyncGenerator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        base_url=question.url, api_key="any", max_retries=0, timeout=question.timeout
    ) as client:
        yield client


async def messages(question: Question, reply: Reply) -> None:
    """Anthropic Messages, plain."""
    fields: dict[str, Any] = {"messages": [{"role": "user", "content": PROMPT}], **question.fields}
    async with _anthropic(question) as client:
        answer: Message = await client.messages.create(model=MODEL, max_tokens=100, stream=False, **fields)
    reply.text = "".join(block.text for block in answer.content if block.type == "text")
    _take_message(answer, reply)


async def messages_streamed(question: Question, reply: Reply) -> None:
    """Anthropic Messages, streamed, put together by the package's own accumulator."""
    fields: dict[str, Any] = {"messages": [{"role": "user", "content": PROMPT}], **question.fields}
    async with (
        _anthropic(question) as client,
        client.messages.stream(model=MODEL, max_tokens=100, **fields) as stream,
    ):
        async for event in stream:
            if event.type == "text":
                reply.text += event.text
        answer = await stream.get_final_message()
    _take_message(answer, reply)


def _take_message(answer: Message, reply: Reply) -> None:
    for block in answer.content:
        if block.type == "tool_use":
            reply.calls.append((block.id, block.name, block.input))
    reply.tokens = answer.usage.output_tokens


@asynccontextmanager
async def _google(question: Question) -> AsyncGenerator[genai.client.AsyncClient]:
    options = HttpOptions(base_url=question.url, timeout=int(question.timeout * 1000))
    with genai.Client(api_key="any", http_options=options) as client:
        async with client.aio as face:
            yield face


async def google(question: Question, reply: Reply) -> None:
    """Google generateContent, plain."""
    fields: dict[str, Any] = {"contents": PROMPT, **question.fields}
    async with _google(question) as client:
        answer = await client.models.generate_content(model=MODEL, **fields)
    _take_google(answer, reply)


async def google_streamed(question: Question, reply: Reply) -> None:
    """Google generateContent, streamed."""
    fields: dict[str, Any] = {"contents": PROMPT, **question.fields}
    async with _google(question) as client:
        async for chunk in await client.models.generate_content_stream(model=MODEL, **fields):
            _take_google(chunk, reply)


def _take_google(answer: GenerateContentResponse, reply: Reply) -> None:
    assert answer.candidates
    content = answer.candidates[0].content
    for part in (content.parts if content else None) or []:
        reply.text += part.text or ""
        if part.function_call is not None:
            call = part.function_call
            reply.calls.append((call.id, call.name or "", call.args))
    assert answer.usage_metadata is not None
    reply.tokens = answer.usage_metadata.candidates_token_count or 0


CLIENTS: dict[tuple[Wire, bool], Client] = {
    ("chat", False): chat,
    ("chat", True): chat_streamed,
    ("responses", False): responses,
    ("responses", True): responses_streamed,
    ("anthropic", False): messages,
    ("anthropic", True): messages_streamed,
    ("google", False): google,
    ("google", True): google_streamed,
}
