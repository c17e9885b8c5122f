"""The tools for a request to a model, and the replies to the calls in its response.

For the providers' own packages, whose users write the loop themselves. Nothing here imports them: requests
and replies are plain dicts, responses are read field by field, as records or as dicts.
"""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from toolbus.adapters.calls import executed, parsed
from toolbus.adapters.tool_list import Bus, Offer, Servers, Source, the_bus
from toolbus.bus.tool import Tool
from toolbus.core.errors import BusClosed, ToolNotFound
from toolbus.core.records import JSON, Text, ToolResult

T = TypeVar("T")
R = TypeVar("R")
Own: TypeAlias = Mapping[str, Callable[..., Any]]
"""Functions of yours, plain or async, by the names under which the model knows them."""
logger = logging.getLogger("toolbus")
_INCOMPLETE = "the response ended before the call was complete; it was not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A call as the model spelt it."""

    id: str
    name: str
    arguments: str | Mapping[str, JSON] | None = field(default=None, repr=False)
    whole: bool = True
    """False where the response ended within the call: it is not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A call and all that came of it; `tool` is None for a function of yours and for an unknown name."""

    call: Called
    tool: Tool | None
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(Generic[T, R]):
    """How one interface of a provider spells tools, calls and replies."""

    tool: Callable[[Tool], T]
    name: Callable[[T], str]
    calls: Callable[[object], list[Called]]
    """Of a response; TypeError for what is none."""
    replies: Callable[[Sequence[Answer], object], list[R]]
    """To the calls of that response, of which there is at least one."""


class Replies(list[R]):
    """What comes next in the conversation, empty where nothing was called; `answers` holds whole results."""

    def __init__(self, replies: Iterable[R] = (), answers: Iterable[Answer] = ()) -> None:
        super().__init__(replies)
        self.answers = tuple(answers)


class Exchange(Offer[T], Generic[T, R]):
    """The tools for a request: a list that follows the catalog. `replies` runs what the response calls."""

    def __init__(self, source: Source, servers: Servers, form: Form[T, R], *, follow: bool) -> None:
        self._form = form
        self._named: dict[str, Tool] = {}
        super().__init__(source, form.tool, servers, follow=follow)

    def refresh(self) -> None:
        """Take over what the catalog has now, in place; a tool that did not change stays the same object."""
        super().refresh()
        # A provider that refuses the name of a tool knows it under another one.
        self._named = {self._form.name(made): tool for tool, made in self._known.values()}

    async def replies(self, response: object, own: Own | None = None) -> Replies[R]:
        """Run all calls of the response at once; what goes wrong with one is told to the model.

        Cancelling it cancels the calls on their servers. Only tools of this list are run, and the functions
        in `own`.
        """
        calls = self._form.calls(response)
        if not calls:
            return Replies()
        answers = await asyncio.gather(*(self._answer(call, own or {}) for call in calls))
        return Replies(self._form.replies(answers, response), answers)

    def replies_sync(self, response: object, own: Own | None = None) -> Replies[R]:
        """As `replies`, from a thread without a loop; RuntimeError where waiting would never end."""
        work = self.replies(response, own)
        return the_bus(self._source).wait(work) if isinstance(self._source, Bus) else asyncio.run(work)

    async def _answer(self, call: Called, own: Own) -> Answer:
        tool = self._named.get(call.name)
        if not call.whole:
            result = ToolResult.failure(_INCOMPLETE)
            if tool is not None:
                tool.report_unsent("not_json", _INCOMPLETE)
        elif call.name in own:
            tool, result = None, await _returned(own[call.name], call)
        elif tool is None:
            result = self._missing(call.name, [*self._named, *own])
        else:
            result = await executed(tool, call.arguments)
        return Answer(call=call, tool=tool, result=result)

    def _missing(self, name: str, known: list[str]) -> ToolResult:
        error = str(ToolNotFound(name, known))
        if isinstance(self._source, Bus):
            with suppress(BusClosed):  # nobody listens any more
                the_bus(self._source).report_unsent(name, "unknown_tool", error)
        return ToolResult.failure(error)


def got(value: object, name: str) -> JSON:
    """A field of a record or of a dict; None where there is none."""
    if isinstance(value, Mapping):
        return value.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  JSON
    return getattr(value, name, None)


async def _returned(function: Callable[..., Any], call: Called) -> ToolResult:
    given = parsed(call.arguments)
    if isinstance(given, ToolResult):
        return given
    try:
        if inspect.iscoroutinefunction(function):
            value = await function(**given)
        else:
            # A plain function may block; in a thread it holds up neither the loop nor the other calls.
            value = await asyncio.to_thread(_run, function, given)
            value = await value if inspect.isawaitable(value) else value
    except Exception as error:  # of the user's function: the model can act on it, and the log has the trace
        logger.exception("%r raised", call.name)
        return ToolResult(content=(Text(text=f"{type(error).__name__}: {error}"),), is_error=True)
    if isinstance(value, ToolResult):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return ToolResult(content=(Text(text=text),))


def _run(function: Callable[..., Any], arguments: dict[str, JSON]) -> Any:
    try:
        return function(**arguments)
    except StopIteration as error:  # a future cannot hold it, and would never be done
        raise RuntimeError("StopIteration") from error
