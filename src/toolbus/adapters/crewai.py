"""Tools and prompts for CrewAI: `Agent(tools=tools(bus))`, or `live(agent, bus)`."""

import json
import weakref
from collections.abc import Callable, KeysView
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from toolbus.adapters import openai
from toolbus.adapters.media import data_url, model_blocks
from toolbus.adapters.options import require_extra
from toolbus.adapters.tool_calls import (
    definition_of,
    in_thread,
    parse_arguments,
    run_tool_sync,
    tool_metadata,
)
from toolbus.adapters.tool_list import Bus, Servers, ToolList, ToolSource, shown
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.values.records import JSON, Image, PromptResult, ToolResult
from toolbus.shape import Dialect, rendered_text

with require_extra("crewai"):
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

__all__ = ["in_thread", "live", "messages", "tools"]


def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    expose: ExposeMode | None = None,
    always: Names = None,
) -> ToolList[BaseTool]:
    """The tools, for agents and tasks.

    CrewAI blocks while it runs; its async methods use a thread. `await in_thread(crew.kickoff)` does the
    same, and can be cancelled.
    """
    _register_hook()
    return ToolList(
        shown(source, expose, always), lambda tool: BusTool.of(tool, dialect), servers, face="crewai"
    )


def live(
    agent: Agent,
    bus: Bus,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    expose: ExposeMode | None = None,
    always: Names = None,
) -> Agent:
    """Add the tools of the catalog to an agent and return it; in a crew they are updated every turn."""
    _register_hook()
    # The finalizer keeps the list alive, and so up to date, as long as the agent exists.
    weakref.finalize(agent, LiveTools.clear, LiveTools(agent, shown(bus, expose, always), servers, dialect))
    return agent


def messages(prompt: PromptResult, *, media: bool = True) -> list[LLMMessage]:
    """The messages of a prompt, for `llm.call`; without `media`, they are text only and fit `agent.kickoff`.

    Images and PDFs are in OpenAI's format. CrewAI does not convert them, and its agents reject them.
    """
    return cast(list[LLMMessage], openai.messages(prompt, media=media))


class BusTool(BaseTool):
    """A CrewAI tool that runs a tool of a bus; `metadata` names its server. Results are not cached."""

    cache_function: Callable[..., bool] = Field(default=lambda *_: False)
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    _tool: Tool = PrivateAttr()
    _live_list: "LiveTools | None" = PrivateAttr(default=None)

    @classmethod
    def of(cls, tool: Tool, dialect: Dialect, live_list: "LiveTools | None" = None) -> "BusTool":
        """Convert a tool, with its whole schema."""
        definition = definition_of(tool, dialect)
        converted = cls(
            name=definition.name,
            description=definition.description,
            args_schema=_arguments_model(definition.parameters),
            metadata=tool_metadata(tool),
        )
        converted._tool, converted._live_list = tool, live_list
        return converted

    def result(self, arguments: dict[str, JSON]) -> ToolResult:
        """Run the tool. A failure is returned: CrewAI would run a tool that raises three times."""
        return run_tool_sync(self._tool, arguments)

    def live_list(self) -> "LiveTools | None":
        """The list that keeps it up to date."""
        return self._live_list

    def to_structured_tool(self) -> "BoundTool":
        """The tool for one run of one agent."""
        return BoundTool(self)

    # Positional-only, so that a tool may have an argument called "self".
    def _run(self, /, **arguments: JSON) -> str:
        return rendered_text(self.result(arguments))

    def _generate_description(self) -> None:
        schema = json.dumps(self.args_schema.model_json_schema(), ensure_ascii=False)
        details = f"Tool Arguments: {schema}\nTool Description: {self.description}"
        self.description = f"Tool Name: {self.name}\n{details}"


class BoundTool(CrewStructuredTool):
    """The tool in one run of one agent, as CrewAI's hooks see it; `result` is the last full result."""

    def __init__(self, tool: BusTool) -> None:
        super().__init__(
            name=tool.name,
            description=tool.description,
            args_schema=tool.args_schema,
            func=self._call,
            result_as_answer=tool.result_as_answer,
            max_usage_count=tool.max_usage_count,
            current_usage_count=tool.current_usage_count,
        )
        self._original_tool = tool
        self._bus_tool = tool
        self.metadata = tool.metadata
        self.cache_function = tool.cache_function
        self.result: ToolResult | None = None
        self.pending_images: list[Image] = []

    @property
    def tool(self) -> BusTool:
        """The tool it was made from."""
        return self._bus_tool

    def _call(self, /, **arguments: JSON) -> str:
        self.result = self.tool.result(arguments)
        self.pending_images += [block for block in model_blocks(self.result) if isinstance(block, Image)]
        return rendered_text(self.result)

    def _parse_args(self, raw_args: str | dict[str, JSON]) -> dict[str, JSON]:
        arguments = parse_arguments(raw_args)
        if isinstance(arguments, ToolResult):
            raise ValueError(arguments.text)
        # CrewAI adds the fingerprints of agent and task; a server must not get them.
        if "security_context" not in self.tool.args_schema.model_json_schema().get("properties", {}):
            arguments.pop("security_context", None)
        return arguments


class LiveTools(ToolList[BaseTool]):
    """The tools of one agent, kept up to date with the catalog."""

    def __init__(self, agent: Agent, bus: Bus, servers: Servers, dialect: Dialect) -> None:
        self._agent = weakref.ref(agent)
        super().__init__(bus, lambda tool: BusTool.of(tool, dialect, self), servers, follow=True)

    def refresh(self) -> None:
        """Update the agent's tools, for its next run."""
        super().refresh()
        if agent := self._agent():
            agent.tools = self.merged_with(agent.tools or [])

    def merged_with(self, tools: list[BaseTool]) -> list[BaseTool]:
        """The given tools that are not from this list, and the tools of this list."""
        others = [tool for tool in tools if not isinstance(tool, BusTool) or tool.live_list() is not self]
        return [*others, *self]


def _register_hook() -> None:
    if _before_llm_call not in get_before_llm_call_hooks():
        register_before_llm_call_hook(_before_llm_call)


def _before_llm_call(context: LLMCallHookContext) -> None:
    """Before a crew calls its model: update live tools, and show the images of results."""
    executor: Any = context.executor
    bus_tools = [tool for tool in executor.tools if isinstance(tool, BoundTool)]
    last = executor.tools_handler and executor.tools_handler.last_used_tool
    if last and last.tool_name in {tool.name for tool in bus_tools}:
        # CrewAI rejects the same call twice in a row, but a server may return another result by now.
        executor.tools_handler.last_used_tool = None
    images = [image for tool in bus_tools for image in tool.pending_images]
    if images and executor.agent.multimodal and _accepts_images(executor.llm):
        parts = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
        context.messages.append({"role": "user", "content": parts})
    for tool in bus_tools:
        tool.pending_images.clear()
    _update_tools(executor)


def _accepts_images(llm: Any) -> bool:
    """Whether messages are sent in OpenAI's format; CrewAI does not convert images for other providers."""
    return bool(llm.is_litellm) or llm.provider in ("openai", "azure")


def _update_tools(executor: Any) -> None:
    previous: list[BaseTool] = executor.original_tools
    current = previous
    for tool in previous:
        if isinstance(tool, BusTool) and (live_list := tool.live_list()) is not None:
            current = live_list.merged_with(current)
    if {*map(id, current)} == {*map(id, previous)}:
        return
    bound = {id(tool._original_tool): tool for tool in executor.tools}
    executor.original_tools = current
    executor.tools = [bound.get(id(tool)) or tool.to_structured_tool() for tool in current]
    description, names = (executor.tools_description, executor.tools_names)
    executor.tools_description = render_text_description_and_args(executor.tools)
    executor.tools_names = get_tool_names(executor.tools)
    for message in executor.messages:
        if isinstance(message["content"], str):
            content = message["content"].replace(description, executor.tools_description)
            message["content"] = content.replace(names, executor.tools_names)


def _arguments_model(parameters: dict[str, JSON]) -> type[BaseModel]:
    """A pydantic model, which CrewAI requires: it accepts anything, and returns exactly this schema."""

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return {**parameters, "properties": OpenProperties(parameters.get("properties") or {})}

    return Arguments


class OpenProperties(dict[str, JSON]):
    """Properties that contain any key: CrewAI silently drops arguments that are not among the keys."""

    def keys(self) -> Any:
        """Keys that contain any name."""
        return _AnyKey(self)


class _AnyKey(KeysView[str]):
    def __contains__(self, key: object) -> bool:
        return True
