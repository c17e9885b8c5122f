"""Tools and prompts for the Microsoft Agent Framework.

For tools, `Agent(client, context_providers=[toolset(bus)])`; for a prompt, `agent.run(messages(prompt))`.
"""

import json
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from toolbus.adapters.approval import ApprovalRule, NeedsApproval, may_ask, needs_approval
from toolbus.adapters.media import (
    Document,
    Part,
    described,
    model_blocks,
    prompt_turns,
)
from toolbus.adapters.options import AdapterOptions, require_extra
from toolbus.adapters.tool_calls import definition_of, run_tool, tool_metadata
from toolbus.adapters.tool_list import Servers, ToolList, ToolSource, shown
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.values.records import JSON, PromptResult, Text, ToolResult
from toolbus.shape import Dialect

with require_extra("agent-framework"):
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

__all__ = ["messages", "tools", "toolset"]

FACE = "agent-framework"
_IN_RUN: ContextVar[bool] = ContextVar("toolbus_agent_framework_run", default=False)


def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    approve: ApprovalRule[NeedsApproval] = "never",
    audio: bool = False,
    files: bool = False,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> ToolList[FunctionTool]:
    """The current tools, for `Agent(client, tools=...)`; an agent copies the list.

    Set `dialect` to the client's provider. Calls wait for approval if the policy of the bus or `approve` asks
    about them. The model gets images. If it also accepts audio or PDFs, set `audio` or `files`.
    """
    options = AdapterOptions(dialect=dialect, approve=approve, audio=audio, files=files)
    return ToolList(shown(source, expose, always), lambda tool: BusTool(tool, options), servers, face=FACE)


def toolset(
    source: ToolSource,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    approve: ApprovalRule[NeedsApproval] = "never",
    audio: bool = False,
    files: bool = False,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> "BusProvider":
    """A context provider that updates the tools before every model request; options as for `tools`."""
    options = AdapterOptions(dialect=dialect, approve=approve, audio=audio, files=files)
    return BusProvider(
        ToolList(
            shown(source, expose, always), lambda tool: BusTool(tool, options), servers, face=FACE, live=True
        )
    )


def messages(prompt: PromptResult, *, audio: bool = False) -> list[Message]:
    """The messages of a prompt, as input for a run; set `audio` if the model accepts audio."""
    turns = prompt_turns(prompt.messages, audio=audio)
    return [Message(turn.role, [*map(_content, turn.parts)]) for turn in turns]


class BusProvider(ContextProvider):
    """A live catalog for any number of agents and concurrent runs."""

    def __init__(self, tools: ToolList[FunctionTool]) -> None:
        super().__init__("toolbus")
        self._tools = tools

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Add the tools to the run, and middleware that keeps them up to date."""
        self._tools.refresh()
        context.extend_tools(self.source_id, self._tools)
        context.extend_middleware(self.source_id, RefreshTools(self._tools))


class RefreshTools(ChatMiddleware):
    """Updates the tools of one run before every model request."""

    def __init__(self, tools: ToolList[FunctionTool]) -> None:
        self._tools = tools
        self._current: list[FunctionTool] = list(tools)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Change the run's list in place: the framework also looks up calls in it."""
        self._tools.refresh()
        if self._current != self._tools and isinstance(context.options, dict):
            run_tools = cast(list[Any], context.options.setdefault("tools", []))
            previous = {id(tool) for tool in self._current}
            self._current = list(self._tools)
            run_tools[:] = [*(tool for tool in run_tools if id(tool) not in previous), *self._current]
        await call_next()


class AnyArguments(BaseModel):
    """Accepts any arguments: the bus repairs and validates them, and reports what is wrong."""

    model_config = ConfigDict(extra="allow")


class FixedSchema(dict[str, JSON]):
    """A schema whose keys cannot be overwritten: the OpenAI client would forbid additional properties."""

    def __setitem__(self, key: str, value: JSON) -> None:
        self.setdefault(key, value)


class BusTool(FunctionTool):
    """One tool. Failures are ordinary results: the framework hides exceptions from the model."""

    def __init__(self, tool: Tool, options: AdapterOptions) -> None:
        definition = definition_of(tool, options.dialect)
        self._parameters = definition.parameters

        asks = needs_approval(tool, options.approve) or may_ask(tool)

        async def call(**arguments: JSON) -> list[Content]:
            approved_by = FACE if asks and _IN_RUN.get() else None
            return _contents(tool, await run_tool(tool, _unwrapped(tool, arguments), approved_by), options)

        super().__init__(
            name=definition.name,
            description=definition.description,
            func=call,
            input_model=AnyArguments,
            approval_mode="always_require" if asks else "never_require",
            additional_properties=tool_metadata(tool),
        )

    async def invoke(self, **options: Any) -> Any:
        """Run the tool; a run passes the id of the model's call, and has asked for approval before."""
        # Programs that run tools from code skip parsing, and do not ask.
        is_in_run = options.get("tool_call_id") is not None and not options.get("skip_parsing")
        token = _IN_RUN.set(is_in_run)
        try:
            return await super().invoke(**options)
        finally:
            _IN_RUN.reset(token)

    def parameters(self) -> dict[str, JSON]:
        """The schema for the provider."""
        return FixedSchema(self._parameters)

    # Positional-only, so that a tool may have an argument called "self".
    def __call__(self, /, *args: Any, **arguments: Any) -> Any:
        """Run the tool."""
        assert self.func is not None
        return self.func(*args, **arguments)


def _unwrapped(tool: Tool, arguments: dict[str, JSON]) -> dict[str, JSON] | str:
    """The arguments as written: the framework wraps anything but a JSON object in an argument `raw`."""
    if arguments.keys() != {"raw"} or "raw" in tool.parameters.get("properties", {}):
        return arguments
    raw = arguments["raw"]
    return raw if isinstance(raw, str) else json.dumps(raw)


def _contents(tool: Tool, result: ToolResult, options: AdapterOptions) -> list[Content]:
    contents: list[Content] = []
    for block in model_blocks(result, options.media_types):
        if not isinstance(block, Text):
            # The text is for clients that drop media in results, such as Chat Completions.
            contents.append(_content(described(block)))
        contents.append(_content(block))
    contents[0].additional_properties = tool_metadata(tool, result)
    contents[0].raw_representation = result
    return [*contents, *map(_content, options.documents(result))]


def _content(part: Part) -> Content:
    if isinstance(part, Text):
        return Content.from_text(part.text)
    name = part.name if isinstance(part, Document) else None
    return Content.from_data(part.data, part.mime_type, name=name)
