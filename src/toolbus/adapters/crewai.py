"""The tools and prompts of a bus for CrewAI: `Agent(tools=tools(bus))`, or `live(agent, bus)`."""

import json
import weakref
from collections.abc import Callable, KeysView
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from toolbus.adapters import openai
from toolbus.adapters.calls import facts, parsed
from toolbus.adapters.declared import declared
from toolbus.adapters.extra import needs
from toolbus.adapters.media import data_url, taken
from toolbus.adapters.threads import in_thread, waited
from toolbus.adapters.tool_list import Bus, Offer, Servers, Source
from toolbus.bus.tool import Tool
from toolbus.core.records import JSON, Image, PromptResult, ToolResult
from toolbus.shape import Dialect, rendered_text

with needs("crewai"):
    from crewai import Agent
    from crewai.hooks.llm_hooks import (
        LLMCallHookContext,
        get_before_llm_call_hooks,
        register_before_llm_call_hook,
    )
    from crewai.tools import BaseTool
    from crewai.tools.structured_tool import CrewStructuredTool
    from crewai.utilities.agent_utils import get_tool_names, render_text_description_and_args
    from crewai.utilities.types import LLMMessage

__all__ = ["BoundTool", "BusTool", "LiveTools", "in_thread", "live", "messages", "tools"]


def tools(source: Source, servers: Servers = None, *, dialect: Dialect = "openai") -> Offer[BaseTool]:
    """The tools, for agents and tasks.

    CrewAI blocks while it runs, in a thread of its own if it is awaited. `await in_thread(crew.kickoff)` does
    that too, and can be cancelled.
    """
    _hook_in()
    return Offer(source, lambda tool: BusTool.of(tool, dialect), servers)


def live(agent: Agent, bus: Bus, servers: Servers = None, *, dialect: Dialect = "openai") -> Agent:
    """The same agent, with the tools of the catalog beside its own; in a crew, at every turn."""
    _hook_in()
    # It is held, and so follows the catalog, for as long as the agent is there.
    weakref.finalize(agent, LiveTools.clear, LiveTools(agent, bus, servers, dialect))
    return agent


def messages(prompt: PromptResult, *, media: bool = True) -> list[LLMMessage]:
    """The messages of a prompt, for `llm.call`; without `media`, in words only, also for `agent.kickoff`.

    CrewAI does not translate pictures and PDFs, which are in the form of OpenAI, and its agents refuse them.
    """
    return cast(list[LLMMessage], openai.messages(prompt, media=media))


class BusTool(BaseTool):
    """A tool of CrewAI that runs one of a bus; `metadata` says whose it is. What it gives is not cached."""

    cache_function: Callable[..., bool] = Field(default=lambda *_: False)
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    _tool: Tool = PrivateAttr()
    _live_in: "LiveTools | None" = PrivateAttr(default=None)

    @classmethod
    def of(cls, tool: Tool, dialect: Dialect, live_in: "LiveTools | None" = None) -> "BusTool":
        """The tool, which is told with its whole schema."""
        said = declared(tool, dialect)
        schema = _carrying(said.parameters)
        made = cls(name=said.name, description=said.description, args_schema=schema, metadata=facts(tool))
        made._tool, made._live_in = tool, live_in
        return made

    def result(self, arguments: dict[str, JSON]) -> ToolResult:
        """Run the tool. A failure is a result too: what raises, CrewAI runs three times."""
        return waited(self._tool, arguments)

    def live_in(self) -> "LiveTools | None":
        """The list that brings it up to date."""
        return self._live_in

    def to_structured_tool(self) -> "BoundTool":
        """The tool for one run of one agent."""
        return BoundTool(self)

    # Positional-only, so that a tool may have an argument called "self".
    def _run(self, /, **arguments: JSON) -> str:
        return rendered_text(self.result(arguments))

    def _generate_description(self) -> None:
        takes = json.dumps(self.args_schema.model_json_schema(), ensure_ascii=False)
        said = f"Tool Arguments: {takes}\nTool Description: {self.description}"
        self.description = f"Tool Name: {self.name}\n{said}"


class BoundTool(CrewStructuredTool):
    """The tool in one run of one agent, as hooks of CrewAI meet it; `result` is all that came last."""

    def __init__(self, tool: BusTool) -> None:
        super().__init__(
            name=tool.name,
            description=tool.description,
            args_schema=tool.args_schema,
            func=self._called,
            result_as_answer=tool.result_as_answer,
            max_usage_count=tool.max_usage_count,
            current_usage_count=tool.current_usage_count,
        )
        self._original_tool = tool
        self._bus_tool = tool
        self.metadata = tool.metadata
        self.cache_function = tool.cache_function
        self.result: ToolResult | None = None
        self.unseen: list[Image] = []

    @property
    def tool(self) -> BusTool:
        """What it was made of."""
        return self._bus_tool

    def _called(self, /, **arguments: JSON) -> str:
        self.result = self.tool.result(arguments)
        self.unseen += [block for block in taken(self.result) if isinstance(block, Image)]
        return rendered_text(self.result)

    def _parse_args(self, raw_args: str | dict[str, JSON]) -> dict[str, JSON]:
        given = parsed(raw_args)
        if isinstance(given, ToolResult):
            raise ValueError(given.text)
        # CrewAI puts the fingerprints of agent and task there, which are nothing for a server.
        if "security_context" not in self.tool.args_schema.model_json_schema().get("properties", {}):
            given.pop("security_context", None)
        return given


class LiveTools(Offer[BaseTool]):
    """The tools of one agent, in step with the catalog."""

    def __init__(self, agent: Agent, bus: Bus, servers: Servers, dialect: Dialect) -> None:
        self._agent = weakref.ref(agent)
        super().__init__(bus, lambda tool: BusTool.of(tool, dialect, self), servers, follow=True)

    def refresh(self) -> None:
        """Give the agent what the catalog has now, for its next run."""
        super().refresh()
        if agent := self._agent():
            agent.tools = self.beside(agent.tools or [])

    def beside(self, before: list[BaseTool]) -> list[BaseTool]:
        """The tools of before that come from elsewhere, and these."""
        others = [tool for tool in before if not isinstance(tool, BusTool) or tool.live_in() is not self]
        return [*others, *self]


def _hook_in() -> None:
    if _before_a_turn not in get_before_llm_call_hooks():
        register_before_llm_call_hook(_before_a_turn)


def _before_a_turn(context: LLMCallHookContext) -> None:
    """Before a crew asks its model: what is live, and what the model is to see."""
    executor: Any = context.executor
    ours = [tool for tool in executor.tools if isinstance(tool, BoundTool)]
    last = executor.tools_handler and executor.tools_handler.last_used_tool
    if last and last.tool_name in {tool.name for tool in ours}:
        # CrewAI refuses the same call twice in a row; but a server may have another answer by now.
        executor.tools_handler.last_used_tool = None
    shown = [image for tool in ours for image in tool.unseen]
    if shown and executor.agent.multimodal and _takes_pictures(executor.llm):
        parts = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in shown]
        context.messages.append({"role": "user", "content": parts})
    for tool in ours:
        tool.unseen.clear()
    _bring_up_to_date(executor)


def _takes_pictures(llm: Any) -> bool:
    """Whether messages go out in the form of OpenAI; CrewAI does not translate pictures for the others."""
    return bool(llm.is_litellm) or llm.provider in ("openai", "azure")


def _bring_up_to_date(executor: Any) -> None:
    """Give a run the tools that the catalog has now, if it has any that are live."""
    before: list[BaseTool] = executor.original_tools
    now = before
    for tool in before:
        if isinstance(tool, BusTool) and (lively := tool.live_in()) is not None:
            now = lively.beside(now)
    if {*map(id, now)} == {*map(id, before)}:
        return
    bound = {id(tool._original_tool): tool for tool in executor.tools}
    executor.original_tools = now
    executor.tools = [bound.get(id(tool)) or tool.to_structured_tool() for tool in now]
    told = (executor.tools_description, executor.tools_names)
    executor.tools_description = render_text_description_and_args(executor.tools)
    executor.tools_names = get_tool_names(executor.tools)
    for message in executor.messages:
        if isinstance(message["content"], str):
            said = message["content"].replace(told[0], executor.tools_description)
            message["content"] = said.replace(told[1], executor.tools_names)


def _carrying(parameters: dict[str, JSON]) -> type[BaseModel]:
    """The model that CrewAI wants in place of a schema: it takes everything, and gives that very schema."""

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return {**parameters, "properties": Open(parameters.get("properties") or {})}

    return Arguments


class Open(dict[str, JSON]):
    """Properties that let others in: CrewAI drops what is not among the keys, and tells nobody."""

    def keys(self) -> Any:
        """All there are, and any other."""
        return _AnyKey(self)


class _AnyKey(KeysView[str]):
    def __contains__(self, key: object) -> bool:
        return True
