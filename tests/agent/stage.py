"""Shared parts of the agent tests: a local provider that plays a model on every wire, and bounded waits."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

from tests.patience import PATIENCE
from tests.wire import Asked, Fault, Provider, Turn
from tests.wire.asked import Wire
from toolbus import Toolbus
from toolbus.agent import Agent, Run, RunEvent
from toolbus.events import CatalogChanged
from toolbus.testing import ScriptedModel

T = TypeVar("T")
Script = Sequence[Turn] | Callable[[Asked], Turn]
MODELS: Mapping[Wire, str] = {
    "chat": "openai-chat:gpt-5.1",
    "responses": "openai-responses:gpt-5.1",
    "anthropic": "anthropic:claude-sonnet-5",
    "google": "google:gemini-3-pro",
}


@contextmanager
def provided(script: Script) -> Generator[Provider]:
    """A provider that plays the script; the environment of this process leads to it."""
    with Provider(script) as provider, pytest.MonkeyPatch.context() as patch:
        for name, value in provider.environment.items():
            patch.setenv(name, value)
        yield provider


@asynccontextmanager
async def talking(wire: Wire, script: Script, **options: Any) -> AsyncGenerator[tuple[Agent, Provider]]:
    """An agent whose model plays the script over that wire, and what it was asked; no request is repeated."""
    options.setdefault("settings", {"max_retries": 0})
    with provided(script) as provider:
        async with asyncio.timeout(PATIENCE), Agent(MODELS[wire], **options) as agent:
            yield agent, provider


@dataclass
class Hanging:
    """A model that never answers, and says when it was asked."""

    asked: asyncio.Event
    loop: asyncio.AbstractEventLoop

    @classmethod
    def here(cls) -> "Hanging":
        """A model for the running loop."""
        return cls(asyncio.Event(), asyncio.get_running_loop())

    def __call__(self, _: Asked) -> Turn:
        self.loop.call_soon_threadsafe(self.asked.set)
        return Fault(hangs=True)


def scripted(agent: Agent) -> ScriptedModel:
    """The model of the agent, which is a scripted one."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


async def heard(run: Run[Any]) -> list[RunEvent]:
    """All events of a run that comes to its end."""
    async with asyncio.timeout(PATIENCE):
        return [event async for event in run]


async def final(run: Run[T]) -> T:
    """The output of a run, in time."""
    async with asyncio.timeout(PATIENCE):
        return await run.final


def told(messages: Sequence[ModelMessage]) -> list[str]:
    """A conversation in short: who says what."""
    lines: list[str] = []
    for part in (part for message in messages for part in message.parts):
        match part:
            case UserPromptPart(content=str(text)):
                lines.append(f"user: {text}")
            case UserPromptPart(content=content):
                lines += [f"user: {getattr(item, 'media_type', item)}" for item in content]
            case TextPart(content=text):
                lines.append(f"model: {text}")
            case ToolCallPart():
                lines.append(f"call: {part.tool_name} {part.args_as_json_str()}")
            case ToolReturnPart():
                lines.append(f"result: {part.model_response_str(wrap_if_error=False)}")
            case _:
                lines.append(type(part).__name__)
    return lines


@contextmanager
def changes(bus: Toolbus) -> Generator[Callable[[], Awaitable[str]]]:
    """A tool that waits for the next change of the catalog; a change since the last call counts."""
    happened = asyncio.Event()
    end = bus.on_event(lambda event: happened.set() if isinstance(event, CatalogChanged) else None)

    async def changed() -> str:
        """Wait for a change."""
        async with asyncio.timeout(PATIENCE):
            await happened.wait()
        happened.clear()
        return "changed"

    yield changed
    end()
