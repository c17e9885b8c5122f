"""The tools and prompts of a bus for Microsoft's Agent Framework.

`Agent(client, context_providers=[toolset(bus)])` has the tools, `agent.run(messages(prompt))` a prompt.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from toolbus.adapters.approval import ApprovalRule, NeedsApproval, needs_approval
from toolbus.adapters.calls import executed, facts
from toolbus.adapters.declared import declared
from toolbus.adapters.extra import needs
from toolbus.adapters.media import PICTURES, SOUNDS, Document, documents, taken, told
from toolbus.adapters.prompts import SHOWN, Part, turns
from toolbus.adapters.tool_list import Offer, Servers, Source
from toolbus.bus.tool import Tool
from toolbus.core.records import JSON, PromptResult, Text, ToolResult
from toolbus.shape import Dialect

with needs("agent-framework"):
    from agent_framework import (
        AgentSession,
        ChatContext,
        ChatMiddleware,
        Content,
        ContextProvider,
        FunctionTool,
        Message,
        SessionContext,
        SupportsAgentRun,
    )


def tools(
    source: Source,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    approve: ApprovalRule[NeedsApproval] = "never",
    audio: bool = False,
    files: bool = False,
) -> Offer[FunctionTool]:
    """The tools as they are now, for `Agent(client, tools=...)`; an agent copies the list.

    `dialect` is the one of the client's provider; `approve` says which calls wait until a person agrees.
    Pictures are given to the model; `audio`, and `files` for PDFs, are for one that takes these too.
    """
    options = ToolsetOptions(dialect=dialect, approve=approve, audio=audio, files=files)
    return Offer(source, lambda tool: BusTool(tool, options), servers)


def toolset(
    source: Source,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    approve: ApprovalRule[NeedsApproval] = "never",
    audio: bool = False,
    files: bool = False,
) -> "BusProvider":
    """A context provider with the tools as they are at every request to the model; else as `tools`."""
    options = ToolsetOptions(dialect=dialect, approve=approve, audio=audio, files=files)
    return BusProvider(Offer(source, lambda tool: BusTool(tool, options), servers, live=True))


def messages(prompt: PromptResult, *, audio: bool = False) -> list[Message]:
    """The messages of a prompt as the input of a run; `audio` is for a model that takes sound too."""
    said = turns(prompt.messages, SHOWN | SOUNDS if audio else SHOWN)
    return [Message(turn.role, [*map(_content, turn.parts)]) for turn in said]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsetOptions:
    """How to declare a tool, whether to ask before a call, and what of its result to show."""

    dialect: Dialect
    approve: ApprovalRule[NeedsApproval]
    audio: bool
    files: bool


class BusProvider(ContextProvider):
    """A live catalog, for any number of agents and of runs at a time."""

    def __init__(self, offer: Offer[FunctionTool]) -> None:
        super().__init__("toolbus")
        self._offer = offer

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Give the run its tools, and a watch that keeps them up to date."""
        self._offer.refresh()
        context.extend_tools(self.source_id, self._offer)
        context.extend_middleware(self.source_id, Watch(self._offer))


class Watch(ChatMiddleware):
    """Takes over the changes of a catalog before every request to the model of one run."""

    def __init__(self, offer: Offer[FunctionTool]) -> None:
        self._offer = offer
        self._given: list[FunctionTool] = list(offer)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Change the list of the run in place: it is also the one that calls are looked up in."""
        self._offer.refresh()
        if self._given != self._offer and isinstance(context.options, dict):
            listed = cast(list[Any], context.options.setdefault("tools", []))
            before = {id(tool) for tool in self._given}
            self._given = list(self._offer)
            listed[:] = [*(tool for tool in listed if id(tool) not in before), *self._given]
        await call_next()


class Anything(BaseModel):
    """Arguments as they come: the bus mends and checks them, and says what is wrong with them."""

    model_config = ConfigDict(extra="allow")


class Schema(dict[str, JSON]):
    """A schema in which nothing is overwritten: the OpenAI client forbids additional properties."""

    def __setitem__(self, key: str, value: JSON) -> None:
        self.setdefault(key, value)


class BusTool(FunctionTool):
    """One tool. Results that fail are ordinary ones: of an exception the model would not be told."""

    def __init__(self, tool: Tool, options: ToolsetOptions) -> None:
        said = declared(tool, options.dialect)
        self._said = said.parameters

        async def call(**arguments: JSON) -> list[Content]:
            return _contents(tool, await executed(tool, _given(tool, arguments)), options)

        super().__init__(
            name=said.name,
            description=said.description,
            func=call,
            input_model=Anything,
            approval_mode="always_require" if needs_approval(tool.spec, options.approve) else "never_require",
            additional_properties=facts(tool),
        )

    def parameters(self) -> dict[str, JSON]:
        """The schema for the provider."""
        return Schema(self._said)

    # Positional-only, so that a tool may have an argument called "self".
    def __call__(self, /, *args: Any, **arguments: Any) -> Any:
        """Run it."""
        assert self.func is not None
        return self.func(*args, **arguments)


def _given(tool: Tool, arguments: dict[str, JSON]) -> dict[str, JSON] | str:
    """The arguments; what is no JSON object comes from the framework as an argument called `raw`."""
    if arguments.keys() != {"raw"} or "raw" in tool.parameters.get("properties", {}):
        return arguments
    raw = arguments["raw"]
    return raw if isinstance(raw, str) else json.dumps(raw)


def _contents(tool: Tool, result: ToolResult, options: ToolsetOptions) -> list[Content]:
    contents: list[Content] = []
    for block in taken(result, PICTURES | SOUNDS if options.audio else PICTURES):
        if not isinstance(block, Text):
            # The line is for clients that leave media out of results, such as Chat Completions.
            contents.append(_content(told(block)))
        contents.append(_content(block))
    contents[0].additional_properties = facts(tool, result)
    contents[0].raw_representation = result
    if options.files:
        contents += map(_content, documents(result))
    return contents


def _content(part: Part) -> Content:
    if isinstance(part, Text):
        return Content.from_text(part.text)
    name = part.name if isinstance(part, Document) else None
    return Content.from_data(part.data, part.mime_type, name=name)
