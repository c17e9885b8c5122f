"""The tools for a request to a model, and the replies to the calls in its response.

For the providers' own packages, whose users write the loop themselves. Nothing here imports them: requests
and replies are plain dicts, and responses are read field by field, as objects or dicts.
"""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from toolbus.adapters.tool_calls import parse_arguments, report_unsent, run_tool
from toolbus.adapters.tool_list import Bus, Servers, ToolList, ToolSource, bus_of
from toolbus.bus.catalog.exposure import SEARCH
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.catalog.tool_search import found_names
from toolbus.bus.engine.lookup import reason_of
from toolbus.bus.inner import calls_of
from toolbus.core.values.errors import BusClosed
from toolbus.core.values.records import JSON, Text, ToolResult

T = TypeVar("T")
R = TypeVar("R")
Functions: TypeAlias = Mapping[str, Callable[..., Any]]
"""Your own functions, plain or async, by the names the model knows."""
logger = logging.getLogger("toolbus")
_INCOMPLETE = "the response ended before the call was complete; it was not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCall:
    """A call as the model wrote it."""

    id: str
    name: str
    arguments: str | Mapping[str, JSON] | None = field(default=None, repr=False)
    complete: bool = True
    """False if the response ended within the call; it is not run then."""
    is_search: bool = False
    """Whether the provider has its own form for it, as a search for tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedCall:
    """A call and its result; `tool` is None for your own function and for an unknown name."""

    call: RequestedCall
    tool: Tool | None
    result: ToolResult
    found: tuple[tuple[Tool, Any], ...] = ()
    """Of a search with a provider that loads tools: those it found, and their definitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFormat(Generic[T, R]):
    """The format of tools, calls and replies in a provider's API."""

    tool: Callable[[Tool], T]
    name: Callable[[T], str]
    calls: Callable[[object], list[RequestedCall]]
    """Read the calls of a response; TypeError if it is not a response."""
    replies: Callable[[Sequence[CompletedCall], object], list[R]]
    """Write the replies to the calls of that response, at least one."""
    loads: bool = False
    """Whether it loads tools during a conversation, so that those not shown are called as any other."""
    sends_loadable: bool = True
    """Whether a request has the definitions of tools that are not loaded yet; else the reply has them."""


class Replies(list[R]):
    """The next messages of the conversation, empty if nothing was called; `answers` holds full results."""

    def __init__(self, replies: Iterable[R] = (), answers: Iterable[CompletedCall] = ()) -> None:
        super().__init__(replies)
        self.answers = tuple(answers)


class ProviderTools(ToolList[T], Generic[T, R]):
    """The tools for a request: a list that follows the catalog. `replies` runs the calls of the response."""

    def __init__(
        self, source: ToolSource, servers: Servers, provider: ProviderFormat[T, R], *, face: str, follow: bool
    ) -> None:
        self._provider = provider
        self._by_name: dict[str, Tool] = {}
        self._loaded: dict[str, T] = {}
        super().__init__(source, provider.tool, servers, face=face, follow=follow, loadable=provider.loads)

    def refresh(self) -> None:
        """Update the list in place; an unchanged tool stays the same object."""
        super().refresh()
        # A tool whose name the provider does not allow is known to it by another name.
        self._by_name = {self._provider.name(item): tool for tool, item in self._converted.values()}
        if self._provider.sends_loadable:
            # The conversation refers to them, so a request without their definitions would be refused.
            self += [item for name, item in self._loaded.items() if name not in self._converted]
        elif any(tool.spec.route == SEARCH for tool, _ in self._converted.values()):
            self[:] = [item for item in self if field_of(item, "defer_loading") is not True]

    async def replies(self, response: object, own: Functions | None = None) -> Replies[R]:
        """Run all calls of the response concurrently; failures are replies for the model.

        Cancelling this cancels the calls on their servers. Only the tools of this list and the functions in
        `own` are run.
        """
        calls = self._provider.calls(response)
        if not calls:
            return Replies()
        answers = await asyncio.gather(*(self._run_call(call, own or {}) for call in calls))
        return Replies(self._provider.replies(answers, response), answers)

    def replies_sync(self, response: object, own: Functions | None = None) -> Replies[R]:
        """Like `replies`, from a thread without an event loop; RuntimeError where it would deadlock."""
        work = self.replies(response, own)
        return (
            calls_of(bus_of(self._source)).wait(work) if isinstance(self._source, Bus) else asyncio.run(work)
        )

    async def _run_call(self, call: RequestedCall, own: Functions) -> CompletedCall:
        tool = self._by_name.get(call.name) or self._hidden(call.name)
        if not call.complete:
            result = ToolResult.failure(_INCOMPLETE, sent=False)
            if tool is not None:
                report_unsent(tool, "not_json", _INCOMPLETE)
        elif call.name in own:
            tool, result = None, await _run_function(own[call.name], call)
        elif tool is None:
            result = self._unknown_tool(call.name, [*self._by_name, *own])
        else:
            result = await run_tool(tool, call.arguments)
        return CompletedCall(call=call, tool=tool, result=result, found=self._found(tool, result))

    def _found(self, tool: Tool | None, result: ToolResult) -> tuple[tuple[Tool, T], ...]:
        """The tools that a search found, if the provider loads them."""
        if not self._provider.loads or tool is None or tool.spec.route != SEARCH:
            return ()
        found = {name: self._converted[name] for name in found_names(result) if name in self._converted}
        self._loaded |= {name: item for name, (_, item) in found.items()}
        return tuple(found.values())

    def _hidden(self, name: str) -> Tool | None:
        """A tool of the catalog that a model is not shown, but may call."""
        if not isinstance(self._source, Bus):
            return None
        view = bus_of(self._source)
        view = view if self._servers is None else view.view(servers=self._connected_servers())
        known = view.catalog.for_models
        spec = None if calls_of(view).exposed is known else known.get(name)
        return None if spec is None else Tool(spec, view)

    def _unknown_tool(self, name: str, known: list[str]) -> ToolResult:
        error = self.missing(name, known)
        if isinstance(self._source, Bus):
            with suppress(BusClosed):  # no one to report to
                calls_of(bus_of(self._source)).report_unsent(name, reason_of(error), str(error))
        return ToolResult.failure(str(error), sent=False)


def field_of(value: object, name: str) -> JSON:
    """A field of an object or a dict; None if it is missing."""
    if isinstance(value, Mapping):
        return value.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  JSON
    return getattr(value, name, None)


async def _run_function(function: Callable[..., Any], call: RequestedCall) -> ToolResult:
    arguments = parse_arguments(call.arguments)
    if isinstance(arguments, ToolResult):
        return arguments
    try:
        if inspect.iscoroutinefunction(function):
            value = await function(**arguments)
        else:
            # A plain function may block; in a thread it blocks neither the loop nor the other calls.
            value = await asyncio.to_thread(_call, function, arguments)
            value = await value if inspect.isawaitable(value) else value
    except Exception as error:  # from the user's function: the model can act on it, and the log has the trace
        logger.exception("%r raised", call.name)
        return ToolResult(content=(Text(text=f"{type(error).__name__}: {error}"),), is_error=True)
    if isinstance(value, ToolResult):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return ToolResult(content=(Text(text=text),))


def _call(function: Callable[..., Any], arguments: dict[str, JSON]) -> Any:
    try:
        return function(**arguments)
    except StopIteration as error:  # a future cannot hold it, and would never be done
        raise RuntimeError("StopIteration") from error
