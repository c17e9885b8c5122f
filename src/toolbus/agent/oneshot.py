"""Answer a single prompt with an agent that is closed afterwards."""

from collections.abc import AsyncGenerator, Iterable
from typing import Any, TypedDict, TypeVar, Unpack, overload

from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from toolbus.adapters.approval import ApprovalRule, Approver
from toolbus.agent.agent import Agent
from toolbus.agent.events import TextDelta, ToolCalled
from toolbus.agent.limits import Limits
from toolbus.agent.tools import AgentTool
from toolbus.bus.toolbus import ConfigSource
from toolbus.core.ask.interactions import Interactions

T = TypeVar("T")


class Options(TypedDict, total=False):
    """The arguments of `Agent`, except its model."""

    tools: Iterable[AgentTool]
    mcp_servers: ConfigSource | None
    instructions: str | None
    approve: ApprovalRule[Approver]
    limits: Limits | None
    server_instructions: bool
    settings: ModelSettings | None
    interactions: Interactions | None


@overload
async def generate(model: str | Model, prompt: str, **options: Unpack[Options]) -> str: ...


@overload
async def generate(model: str | Model, prompt: str, *, output: type[T], **options: Unpack[Options]) -> T: ...


async def generate(
    model: str | Model, prompt: str, *, output: type[Any] = str, **options: Unpack[Options]
) -> Any:
    """The response to one prompt; takes the same options as `Agent`."""
    async with Agent(model, **options) as agent:
        return await agent.send(prompt, output=output).final


async def stream(model: str | Model, prompt: str, **options: Unpack[Options]) -> AsyncGenerator[str]:
    """Stream the text of the response to one prompt; takes the same options as `Agent`.

    A blank line follows the text that a model writes before it calls a tool.
    """
    separator, has_text = "", False
    async with Agent(model, **options) as agent:
        async for event in agent.send(prompt).watch():
            match event:
                case TextDelta(text=text):
                    yield separator + text
                    separator, has_text = "", True
                case ToolCalled() if has_text:
                    separator = "\n\n"
                case _:
                    pass
