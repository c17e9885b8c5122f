"""What an agent can do: functions of its user beside MCP tools, under one rule of approval."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from pydantic_ai import RunContext
from pydantic_ai import Tool as FunctionTool
from pydantic_ai.exceptions import ModelRetry, ToolFailed, ToolFailedError, ToolRetryError
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool

from toolbus.adapters.calls import outcome
from toolbus.adapters.pydantic_ai import BusTool, BusToolset, ToolsetOptions, returned
from toolbus.adapters.tool_list import Bus, Source, the_bus
from toolbus.agent.failures import NameClash
from toolbus.bus.sync import SyncTool
from toolbus.bus.tool import Tool
from toolbus.bus.toolbus import Toolbus
from toolbus.core.errors import BusClosed, ToolNotFound
from toolbus.core.records import JSON, ToolResult, ToolSpec
from toolbus.shape.budget import fitted

logger = logging.getLogger("toolbus")


class ToolLike(Protocol):
    """A tool of another program; what `execute` returns may be a `ToolResult`."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, JSON]:
        """The arguments, as JSON Schema."""
        ...

    @property
    def execute(self) -> Callable[..., Any]: ...


AgentTool: TypeAlias = Callable[..., Any] | FunctionTool[Any] | Tool | SyncTool | Bus | ToolLike
"""A function, a tool, or a bus whose tools are taken as they are at every turn."""
# Wrong arguments to a function cost a try of that function; what bounds a run are its limits.
TRIES = 1000
INSTRUCTIONS = 2_000
"""Characters of what one server says about itself; a model reads it in every request."""


class RunPort(Protocol):
    """The run that calls are made for."""

    async def refused(
        self, call: str, name: str, arguments: Mapping[str, JSON], spec: ToolSpec | None
    ) -> str | None:
        """Why the call must not be made; None if it may."""
        ...

    def progressed(
        self, call: str, name: str, progress: float, total: float | None, message: str | None
    ) -> None:
        """A call came further."""
        ...


class Toolbox:
    """The tools that an agent was given."""

    def __init__(self, tools: Iterable[AgentTool], own: Bus | None = None) -> None:
        """Raises `NameClash` for two tools of one name; what a bus has is looked at when a run begins."""
        given = [tool.tool if isinstance(tool, SyncTool) else tool for tool in tools]
        self.buses = [the_bus(tool) for tool in given if isinstance(tool, Bus)]
        if own is not None:
            self.buses.append(the_bus(own))
        self.chosen = [tool for tool in given if isinstance(tool, Tool)]
        behind = (tool.runner for tool in self.chosen if isinstance(tool.runner, Toolbus))
        self.known = list(dict.fromkeys([*self.buses, *behind]))
        """Every bus there is, also behind tools that were given one by one."""
        functions = [_function(tool) for tool in given if not isinstance(tool, Tool | Bus)]
        named: dict[str, Tool | FunctionTool[Any]] = {}
        for tool in (*functions, *self.chosen):
            other = named.setdefault(tool.name, tool)
            if other is not tool:
                raise NameClash(tool.name, _described(other), _described(tool))
        sources: list[Source] = [*self.buses, *([self.chosen] if self.chosen else [])]
        # Made once, so that a tool is declared once and not in every run.
        self._parts: list[AbstractToolset[Any]] = [
            FunctionToolset[Any](functions, max_retries=TRIES),
            *(McpTools(source) for source in sources),
        ]

    def for_run(self, port: RunPort) -> "RunTools":
        """As the model of one run gets them; the run has the port as its `deps`."""
        return RunTools(self._parts, port, self.known)

    def instructions(self) -> list[str]:
        """What the servers say about how to use them, each in bounds, in the order of the config."""
        return [
            f"How to use the tools of {alias!r}:\n{fitted(said, INSTRUCTIONS, None)}"
            for bus in self.known
            for alias, said in bus.instructions.items()
            if bus in self.buses or self._chose_from(bus, alias)
        ]

    def _chose_from(self, bus: Toolbus, server: str) -> bool:
        return any(tool.runner is bus and tool.server == server for tool in self.chosen)


class McpTools(BusToolset):
    """MCP tools; the run that calls one hears of its progress."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, None, None, ToolsetOptions())

    async def executed(self, tool: Tool, arguments: dict[str, JSON], ctx: RunContext[Any]) -> ToolResult:
        """The result of one call."""
        port: RunPort = ctx.deps
        told = partial(port.progressed, ctx.tool_call_id or "", tool.name)
        return await tool.run(arguments, on_progress=told)


class RunTools(AbstractToolset[Any]):
    """All tools of one run: what there is at every turn, and one way to call it."""

    def __init__(
        self, parts: list[AbstractToolset[Any]], port: RunPort, known: Sequence[Toolbus] = ()
    ) -> None:
        self._parts = parts
        self._port = port
        self._known = known
        self._names: frozenset[str] = frozenset()
        self._began = False
        self.servers: dict[str, str] = {}
        """Which server a name leads to."""

    @property
    def id(self) -> str:
        """The same on every run."""
        return "toolbus-agent"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """What there is now. Raises `NameClash` at the first turn; later the newcomer is left out."""
        found: dict[str, ToolsetTool[Any]] = {}
        for part in self._parts:
            for name, tool in (await part.get_tools(ctx)).items():
                if name not in found:
                    found[name] = tool
                    continue
                clash = NameClash(name, _described(found[name]), _described(tool))
                if not self._began:
                    raise clash
                logger.warning("%s; the new one is skipped", clash)
        self._began = True
        self._names = frozenset(found)
        self.servers.clear()
        for name, tool in found.items():
            if isinstance(tool, BusTool):
                self.servers[name] = tool.tool.server
        return found

    def report_unknown(self, name: str) -> None:
        """Report a call of a name that nothing has: pydantic-ai answers it by itself."""
        if name not in self._names and self._known:
            with suppress(BusClosed):  # nobody listens any more
                error = str(ToolNotFound(name, list(self._names)))
                self._known[0].report_unsent(name, "unknown_tool", error)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Ask if that is wanted, and run it; what goes wrong is told to the model."""
        spec = tool.tool.spec if isinstance(tool, BusTool) else None
        refusal = await self._port.refused(ctx.tool_call_id or "", name, tool_args, spec)
        if refusal is not None:
            if isinstance(tool, BusTool):
                tool.tool.report_unsent("refused", "not approved")
            raise ToolFailed(refusal)
        try:
            return _passed_on(await tool.toolset.call_tool(name, tool_args, ctx, tool))
        except (ModelRetry, ToolFailed, ToolFailedError, ToolRetryError):
            raise
        except Exception as error:  # of the user's function: the model can act on it, the run goes on
            logger.debug("the tool %r raised", name, exc_info=True)
            raise ToolFailed(f"{type(error).__name__}: {error}") from error


def _function(tool: Callable[..., Any] | FunctionTool[Any] | ToolLike) -> FunctionTool[Any]:
    if isinstance(tool, FunctionTool):
        return cast(FunctionTool[Any], tool)
    if callable(getattr(tool, "execute", None)):
        return _adopted(cast(ToolLike, tool))
    if not callable(tool):
        raise TypeError(
            f"a tool must be a function, a Tool, a bus, or an object with name, description, parameters and "
            f"execute; not a {type(tool).__name__}"
        )
    return FunctionTool[Any](tool)


def _adopted(tool: ToolLike) -> FunctionTool[Any]:
    made = FunctionTool[Any].from_schema(
        tool.execute, tool.name, tool.description, json_schema=dict(tool.parameters)
    )
    # Where nothing is said, the framework would make the schema strict for OpenAI by rewriting it.
    made.strict = False
    return made


def _passed_on(value: Any) -> Any:
    """What a tool returned, as the framework takes it; raises `ToolFailed` for a result that is an error."""
    if isinstance(value, ToolResult):
        return returned(value, outcome(value), ToolsetOptions())
    # Other programs have results of their own: a text, and whether it says what went wrong.
    text, failed = getattr(value, "content", None), getattr(value, "is_error", None)
    if isinstance(text, str) and isinstance(failed, bool):
        if failed:
            raise ToolFailed(text)
        return text
    return value


def _described(tool: Tool | FunctionTool[Any] | ToolsetTool[Any]) -> str:
    match tool:
        case FunctionTool():
            function = tool.function
            return f"the function {getattr(function, '__qualname__', tool.name)}"
        case Tool():
            return f"{tool.origin.tool!r} of server {tool.server!r}"
        case BusTool():
            return _described(tool.tool)
        case _:
            return f"the function {tool.tool_def.name}"
