"""The tools of an agent: MCP tools and the user's functions, with one approval rule."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai import Tool as FunctionTool
from pydantic_ai.capabilities import ToolSearch
from pydantic_ai.exceptions import ModelRetry, ToolFailed, ToolFailedError, ToolRetryError
from pydantic_ai.messages import ToolCallPart, ToolReturnPart
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool

from toolbus.adapters.options import AdapterOptions
from toolbus.adapters.pydantic_ai import BusTool, BusToolset, tool_return
from toolbus.adapters.pydantic_ai_options import request_models
from toolbus.adapters.tool_calls import report_unsent, result_metadata
from toolbus.adapters.tool_list import (
    Bus,
    ToolSource,
    bus_of,
    shown,
    with_face,
)
from toolbus.agent.run import FACE
from toolbus.bus.catalog.exposure import CALL_READ_TOOL, CALL_TOOL, SEARCH
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.catalog.tool_search import MOST_TOOLS, found_names, inner_call
from toolbus.bus.engine.lookup import reason_of
from toolbus.bus.inner import calls_of, view_of
from toolbus.bus.rules.scope import Names
from toolbus.bus.sync import SyncTool
from toolbus.bus.view import View
from toolbus.config.settings.expose import ExposeMode, check_mode
from toolbus.core.ask.approval import Approval
from toolbus.core.values.errors import ArgumentsError, BusClosed, CallDenied, ToolbusError, ToolNotFound
from toolbus.core.values.records import JSON, ToolResult
from toolbus.shape.budget import fitted

logger = logging.getLogger("toolbus")
F = TypeVar("F", bound=Callable[..., Any])


def repeatable(function: F) -> F:
    """Mark your function as safe to repeat: a durable run calls it again if a crash hid its outcome."""
    function.toolbus_repeatable = True  # pyright: ignore[reportFunctionMemberAccess]  # any callable that takes attributes
    return function


def is_repeatable(tool: object) -> bool:
    """Whether a function, or the function of a tool, is marked as safe to repeat."""
    if isinstance(tool, FunctionTool):
        tool = cast("FunctionTool[Any]", tool).function
    return getattr(tool, "toolbus_repeatable", False) is True


class ToolLike(Protocol):
    """A tool of another library; `execute` may return a `ToolResult`."""

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
"""A function, a tool, or a bus whose tools are updated every turn."""
# Wrong arguments use up a retry of that function; a run is bounded by its limits instead.
MAX_RETRIES = 1000
MAX_INSTRUCTIONS = 2_000
"""Characters of one server's instructions; the model reads them in every request."""


class NameClash(ToolbusError, ValueError):
    """Two tools of an agent have the same name; the message names both."""

    def __init__(self, name: str, one: str, other: str) -> None:
        self.name = name
        hint = "rename the function, or the tool under `override`"
        super().__init__(f"two tools are named {name!r}: {one} and {other}; {hint}")


class RunCallbacks(Protocol):
    """The run that the calls belong to."""

    @property
    def id(self) -> str:
        """The `run` of the caller of its calls."""
        ...

    async def approval(
        self, call: str, name: str, arguments: Mapping[str, JSON], tool: Tool | None
    ) -> Approval | str | None:
        """The approval of a call, or why it is denied; None if nobody has to be asked here."""
        ...

    async def make(
        self,
        call: str,
        name: str,
        arguments: Mapping[str, JSON],
        tool: ToolsetTool[Any],
        work: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Make a call that was approved; `work` makes it."""
        ...

    async def shown(self, tools: Mapping[str, ToolsetTool[Any]]) -> Mapping[str, ToolsetTool[Any]]:
        """The tools as this run offers them to the model."""
        ...

    def report_progress(
        self, call: str, name: str, progress: float, total: float | None, message: str | None
    ) -> None:
        """Report the progress of a call."""
        ...


class Toolbox:
    """All tools of an agent."""

    def __init__(
        self,
        tools: Iterable[AgentTool],
        own: Bus | None = None,
        *,
        expose: ExposeMode | None = None,
        always: Names = None,
    ) -> None:
        """Raise `NameClash` for two tools of the same name; a run checks a bus's tools when it starts."""
        check_mode(expose)
        given = [tool.tool if isinstance(tool, SyncTool) else tool for tool in tools]
        views: dict[View, View] = {}

        def own_view(view: View) -> View:
            return views.setdefault(view, bus_of(shown(with_face(view, FACE), expose, always)))

        self.buses = [own_view(bus_of(tool)) for tool in given if isinstance(tool, Bus)]
        if own is not None:
            self.buses.append(own_view(bus_of(own)))
        chosen = {id(tool): tool for tool in given if isinstance(tool, Tool)}  # one may be given twice
        self.chosen = [Tool(tool.spec, own_view(view_of(tool))) for tool in chosen.values()]
        self.all_buses = list(dict.fromkeys([*self.buses, *map(view_of, self.chosen)]))
        """Every bus, including the buses of individual tools."""
        own_functions = [tool for tool in given if not isinstance(tool, Tool | Bus)]
        functions = [_function(tool) for tool in own_functions]
        self.repeatable = frozenset(
            function.name
            for function, tool in zip(functions, own_functions, strict=True)
            if is_repeatable(tool)
        )
        """The functions that a durable run may call again if a crash hid their outcome."""
        self._functions = [function.name for function in functions]
        named: dict[str, Tool | FunctionTool[Any]] = {}
        for tool in (*functions, *self.chosen):
            other = named.setdefault(tool.name, tool)
            if other is not tool:
                raise NameClash(tool.name, _described(other), _described(tool))
        sources: list[ToolSource] = [*self.buses, *([self.chosen] if self.chosen else [])]
        # Created once, so that tools are not converted again in every run.
        self._toolsets: list[AbstractToolset[Any]] = [
            FunctionToolset[Any](functions, max_retries=MAX_RETRIES),
            *(McpTools(source) for source in sources),
        ]

    @property
    def names(self) -> frozenset[str]:
        """The functions and servers, which tell this agent from others."""
        servers = [alias for bus in self.buses for alias in bus.servers]
        return frozenset([*self._functions, *servers, *(tool.server for tool in self.chosen)])

    @property
    def offered(self) -> frozenset[str]:
        """The names of all tools, including MCP tools as `server/tool`; `server/*` for an unlisted server."""
        found = set(self._functions)
        for tool in (*self.chosen, *(spec for bus in self.buses for spec in bus.catalog)):
            found |= {tool.name, str(tool.origin)}
        for bus in self.buses:
            for alias, status in bus.servers.items():
                if not status.tools and status.state != "ready":
                    found.add(f"{alias}/*")
        return frozenset(found)

    def for_run(self, callbacks: RunCallbacks) -> "RunTools":
        """The tools for one run; the run passes the callbacks as its `deps`."""
        return RunTools(self._toolsets, callbacks, self.all_buses)

    def instructions(self) -> list[str]:
        """The instructions of the servers, in config order, each cut to a maximum length."""
        return [
            f"How to use the tools of {alias!r}:\n{fitted(instructions, MAX_INSTRUCTIONS, None)}"
            for bus in self.all_buses
            for alias, instructions in bus.instructions.items()
            if bus in self.buses or self._has_tools_of(bus, alias)
        ]

    def _has_tools_of(self, bus: View, server: str) -> bool:
        return any(view_of(tool) is bus and tool.server == server for tool in self.chosen)


class McpTools(BusToolset):
    """MCP tools that report progress to the run that calls them."""

    def __init__(self, source: ToolSource) -> None:
        super().__init__(source, None, None, AdapterOptions(), FACE)

    def loads_tools(self, ctx: RunContext[Any]) -> bool:
        """The run has passed its search to the framework, if its model loads tools."""
        return loads_tools(ctx.model)

    async def run_tool(self, tool: BusTool, arguments: dict[str, JSON], ctx: RunContext[Any]) -> ToolResult:
        """Run one call; the run has asked for its approval."""
        callbacks: RunCallbacks = ctx.deps
        on_progress = partial(callbacks.report_progress, ctx.tool_call_id or "", tool.tool.name)
        return await tool.tool.run(
            arguments, on_progress=on_progress, approval=tool.approval, run=callbacks.id
        )


class RunTools(AbstractToolset[Any]):
    """All tools of one run: the current ones at every turn, with approval before every call."""

    def __init__(
        self, toolsets: list[AbstractToolset[Any]], callbacks: RunCallbacks, buses: Sequence[View] = ()
    ) -> None:
        self._toolsets = toolsets
        self._callbacks = callbacks
        self._buses = buses
        self._names: frozenset[str] = frozenset()
        self._started = False
        self.servers: dict[str, str] = {}
        """The server of each tool name."""

    @property
    def id(self) -> str:
        """The same on every run."""
        return "toolbus-agent"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The current tools. Raises `NameClash` on the first turn; later the new tool is skipped."""
        found: dict[str, ToolsetTool[Any]] = {}
        for toolset in self._toolsets:
            for name, tool in (await toolset.get_tools(ctx)).items():
                if name not in found:
                    found[name] = tool
                    continue
                if isinstance(tool, BusTool) and tool.tool.spec.route == "toolbus/read_result":
                    continue  # of another bus
                clash = NameClash(name, _described(found[name]), _described(tool))
                if not self._started:
                    raise clash
                logger.warning("%s; the new one is skipped", clash)
        self._started = True
        found |= await self._callbacks.shown(found)
        self._names = frozenset(found)
        if any(tool.tool_def.defer_loading for tool in found.values()):
            self._names |= {ToolSearch.function_tool_name}
        for part in ctx.messages[-1].parts if ctx.messages else ():
            self.explain(part)
        self.servers.clear()
        for name, tool in found.items():
            if isinstance(tool, BusTool):
                self.servers[name] = tool.tool.server
        return found

    def lacking(self, calls: Iterable[ToolCallPart], output: Set[str]) -> list[str]:
        """The tools of these calls that are neither known here nor `output`; held ones are known."""
        names = {_called(call) for call in calls} - self._names - output
        catalogs = [bus.catalog for bus in self._buses]
        return sorted(
            name for name in names if self._held(name) is None and not any(name in one for one in catalogs)
        )

    def report_unknown(self, name: str) -> None:
        """Report a call of an unknown tool, which Pydantic AI answers itself."""
        if name not in self._names and self._buses:
            with suppress(BusClosed):  # no one to report to
                error = self._held(name) or ToolNotFound(name, list(self._names))
                calls_of(self._buses[0]).report_unsent(name, reason_of(error), str(error))

    def explain(self, part: object) -> None:
        """Replace Pydantic AI's answer to the call of a held tool, which is that it is unknown."""
        if isinstance(part, ToolReturnPart) and part.retry and part.retry.cause == "unknown_tool":
            part.content = str(self._held(part.tool_name) or part.content)

    def _held(self, name: str) -> CallDenied | None:
        errors = (calls_of(bus).missing(name, list(self._names)) for bus in self._buses)
        return next((error for error in errors if isinstance(error, CallDenied)), None)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run the tool after approval, if needed; the model gets the errors."""
        mcp_tool = tool.tool if isinstance(tool, BusTool) else None
        approval = await self._callbacks.approval(ctx.tool_call_id or "", name, tool_args, mcp_tool)
        if isinstance(approval, str):
            if mcp_tool is not None:
                report_unsent(mcp_tool, "refused", "not approved")
            raise ToolFailed(approval)
        if isinstance(tool, BusTool):
            tool = replace(tool, approval=approval)
        make = partial(tool.toolset.call_tool, name, tool_args, ctx, tool)
        try:
            return _converted(await self._callbacks.make(ctx.tool_call_id or "", name, tool_args, tool, make))
        except (ModelRetry, ToolFailed, ToolFailedError, ToolRetryError):
            raise
        except Exception as error:  # from the user's function: the model can act on it, the run continues
            logger.debug("the tool %r raised", name, exc_info=True)
            raise ToolFailed(f"{type(error).__name__}: {error}") from error


def _function(tool: Callable[..., Any] | FunctionTool[Any] | ToolLike) -> FunctionTool[Any]:
    if isinstance(tool, FunctionTool):
        return cast(FunctionTool[Any], tool)
    if callable(getattr(tool, "execute", None)):
        return _from_tool_like(cast(ToolLike, tool))
    if not callable(tool):
        raise TypeError(
            f"a tool must be a function, a Tool, a bus, or an object with name, description, parameters and "
            f"execute; not a {type(tool).__name__}"
        )
    return FunctionTool[Any](tool)


def _from_tool_like(tool: ToolLike) -> FunctionTool[Any]:
    converted = FunctionTool[Any].from_schema(
        tool.execute, tool.name, tool.description, json_schema=dict(tool.parameters)
    )
    # If unset, the framework would rewrite the schema to make it strict for OpenAI.
    converted.strict = False
    return converted


def by_name_only(tool: ToolsetTool[Any], text: str) -> ToolsetTool[Any]:
    """A tool whose definition the model does not read, only a text instead."""
    schema: dict[str, Any] = {"type": "object", "additionalProperties": True}
    shown = replace(
        tool.tool_def, description=text, parameters_json_schema=schema, strict=False, metadata=None
    )
    return replace(tool, tool_def=shown)


def _converted(value: Any) -> Any:
    """A return value in the framework's type; raises `ToolFailed` for a result that is an error."""
    if isinstance(value, ToolResult):
        return tool_return(value, result_metadata(value), AdapterOptions())
    # Other libraries have their own results: a text, and whether it is an error.
    text, failed = getattr(value, "content", None), getattr(value, "is_error", None)
    if isinstance(text, str) and isinstance(failed, bool):
        if failed:
            raise ToolFailed(text)
        return text
    return value


def _called(call: ToolCallPart) -> str:
    """The tool that a call is of; for `call_tool`, the one that it names."""
    if call.tool_name not in (CALL_TOOL.name, CALL_READ_TOOL.name):
        return call.tool_name
    with suppress(ArgumentsError, ValueError):
        return inner_call(call.args_as_dict())[0]
    return call.tool_name


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


def loads_tools(model: object) -> bool:
    """Whether the provider of a model loads tools during a conversation."""
    models = list(request_models(model))
    return bool(models) and all(
        getattr(each, "tool_deferral_mode", None) is not None  # of recent versions
        and any(one.kind == "tool_search" for one in each.profile.get("supported_native_tools", ()))
        for each in models
    )


def tool_search(buses: Iterable[View], model: object) -> list[ToolSearch[Any]]:
    """The capability of Pydantic AI for searching with us; empty if nothing is hidden.

    This is for providers that load tools during a run. Elsewhere a model gets `search_tools` and `call_tool`,
    whose definitions never change. Pydantic AI would add the tools it finds to the next request, so no prompt
    cache would hit.
    """
    if not loads_tools(model):
        return []
    searches = [tool for bus in buses for tool in bus.tools(loadable=True) if tool.spec.route == SEARCH]
    if not searches:
        return []

    async def strategy(
        ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]
    ) -> list[str]:
        return await _found(searches, queries, ctx.deps.id)

    queries = searches[0].parameters["properties"]["queries"]["description"]
    return [
        ToolSearch(
            strategy=strategy,
            max_results=MOST_TOOLS,
            tool_description="\n".join(tool.description for tool in searches),
            parameter_description=queries,
        )
    ]


async def _found(searches: Sequence[Tool], queries: Sequence[str], run: str) -> list[str]:
    """The tools that the buses found: the best of each come before the second best."""
    results = [await search.run({"queries": list(queries)}, run=run) for search in searches]
    ranked = zip_longest(*map(found_names, results))
    return [name for name in chain.from_iterable(ranked) if name is not None]
