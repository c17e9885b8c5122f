"""The events of a bus, and the hub that delivers them to callbacks and listeners.

Without listeners, events cost nothing. A slow listener loses its oldest events; it never slows the bus.
"""

import asyncio
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Literal, TypeAlias, TypeVar, cast, get_args

from toolbus.core.text.text import headed
from toolbus.core.values.errors import FORKED, BusClosed
from toolbus.core.values.records import JSON, OWN, State

logger = logging.getLogger("toolbus")
logger.addHandler(logging.NullHandler())  # or Python would print warnings if logging is not set up

BACKLOG = 10_000
BACKLOG_BYTES = 16 * 1024 * 1024
MOST_CHARACTERS = 2_000
"""Of a text in a warning, or in another event that tells of a problem or a question."""
_LONGEST_NAME = 200
Reason: TypeAlias = Literal[
    "refused",
    "invalid_arguments",
    "not_json",
    "unknown_tool",
    "server_failed",
    "tool_error",
    "cancelled",
    "timed_out",
]
"""The reason for a failed call:

- `refused`: a guard, a person or a hook refused it, or a hook raised
- `invalid_arguments`: its arguments do not match the schema; nothing was sent
- `not_json`: the model did not write a JSON object; nothing was sent
- `unknown_tool`: no tool has that name, and `server` is empty; nothing was sent
- `server_failed`: the server is down, was lost, or rejected the request
- `tool_error`: the tool reported an error; `error` is None
- `cancelled`: its caller cancelled it
- `timed_out`: it got no result in time
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    at: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told(_Event):
    """An event with texts that a server may have chosen: only the beginning of a long one is kept."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if isinstance(text := getattr(self, name), str) and len(text) > MOST_CHARACTERS:
                object.__setattr__(self, name, headed(text, MOST_CHARACTERS))


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged(_Told):
    """A server connects, is lost, fails or closes."""

    server: str
    state: State
    previous: State
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChanged(_Event):
    """The catalog was replaced; the public names that were added, removed, or redefined."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted(_Event):
    """A call, or another request to a server, began. For an unknown name, `server` is empty."""

    id: int
    name: str
    server: str
    tool: str
    """The server's own name for the tool; the URI of a resource; the name of a prompt."""
    route: str = "tools/call"
    """The MCP method: `resources/read`, `prompts/get` and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded(_Event):
    """A call ended, with or without a result; every `CallStarted` is followed by one with the same `id`."""

    id: int
    name: str
    server: str
    tool: str
    elapsed_ms: float
    """The duration, without the time that people took to answer."""
    is_error: bool
    error: str | None = None
    """The error message, without arguments and results; None if the tool itself reported an error."""
    reason: Reason | None = None
    """The reason for a failure; None if it did not fail."""
    route: str = "tools/call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(_Event):
    """A server reported progress."""

    id: int
    name: str
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(_Event):
    """A server sent a log message."""

    server: str
    level: str
    data: JSON
    logger: str | None = None
    id: int | None = None
    """The call that it belongs to, if known."""
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUpdated(_Told):
    """A subscribed resource changed."""

    server: str
    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListChanged(_Event):
    """A server announced a change of one of its lists and was listed again, or offers something else now."""

    server: str
    kind: Literal["tools", "resources", "prompts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAsked(_Told):
    """A server requests input: from a person (elicitation), a model (sampling), or folders (roots)."""

    server: str
    kind: Literal["elicitation", "sampling", "roots"]
    message: str
    id: int | None = None
    """The call that it belongs to, if known."""
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAnswered(_Event):
    """A server's request was answered: accept, decline or cancel."""

    server: str
    kind: Literal["elicitation", "sampling", "roots"]
    action: str
    id: int | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(_Told):
    """A problem that did not fail anything: a tool left out, an empty list, invalid output."""

    server: str
    message: str
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolHeld(_Told):
    """Something differs from the lockfile and was left out: a tool, or what `kind` says."""

    server: str
    tool: str
    """The server's own name for it; empty for instructions and the launch line."""
    reason: str
    kind: Literal["tool", "prompt", "template", "skill", "instructions", "launch"] = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginNeeded(_Told):
    """Somebody has to sign in to a server: `toolbus login SERVER`."""

    server: str
    user: str = ""
    """The user; empty if the bus has only one."""
    reason: str = ""


Event: TypeAlias = (
    StateChanged
    | CatalogChanged
    | CallStarted
    | CallEnded
    | Progressed
    | Logged
    | ResourceUpdated
    | ListChanged
    | InputAsked
    | InputAnswered
    | Warned
    | ToolHeld
    | LoginNeeded
)
"""Any event of a bus."""
E = TypeVar("E", bound=Event)
Emit: TypeAlias = Callable[[Event], None]
Filter: TypeAlias = Callable[[Event], Event | None]
"""Returns the event, a changed one, or None to drop it."""
OnLog: TypeAlias = Callable[[Logged], Awaitable[None] | None]
"""Receives the log messages of a server during a call."""


class EventStream(Generic[E]):
    """The events since it was created, for `async for`; ends when the bus stops."""

    def __init__(self, only: Filter | None = None, max_bytes: int = BACKLOG_BYTES) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
        self._only = only
        self._backlog: deque[tuple[Event, int]] = deque()
        """The events that were not read yet, with their sizes."""
        self._bytes = 0
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._wake = asyncio.Event()
        self._ended = False

    def __aiter__(self) -> "EventStream[E]":
        return self

    async def __anext__(self) -> E:
        while not self._backlog:
            if self._ended:
                raise StopAsyncIteration
            if self._process != os.getpid():  # nobody would wake it
                raise BusClosed("the event stream", reason=FORKED)
            self._wake.clear()
            await self._wake.wait()
        return self._next()

    def unread(self) -> Iterator[E]:
        """The events received so far; without waiting, so also after the loop has ended."""
        while self._backlog:
            yield self._next()

    def _next(self) -> E:
        with self._lock:
            event, size = self._backlog.popleft()
            self._bytes -= size
        return cast(E, event)  # `only` lets no others in

    def put(self, event: Event) -> None:
        """Add an event, unless it is filtered out; from any thread."""
        wanted = event if self._only is None else self._only(event)
        if wanted is not None:
            size = _size(wanted)
            with self._lock:
                self._backlog.append((wanted, size))
                self._bytes += size
                # A listener that does not read loses the oldest events, not the program its memory.
                while len(self._backlog) > BACKLOG or (
                    self._bytes > self._max_bytes and len(self._backlog) > 1
                ):
                    self._bytes -= self._backlog.popleft()[1]
            self._wake_up()

    def end(self) -> None:
        """End after the events received so far; from any thread."""
        self._ended = True
        self._wake_up()

    def _wake_up(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)


Listening = EventStream[Event]
"""The former name."""


def warn(emit: Emit, server: str, message: str, tool: str | None = None) -> None:
    """Log a problem of a server, of one of its tools, or of the bus, and emit it as `Warned`."""
    of_server = "" if server == OWN else f"server {server!r}: "
    of_tool = f"tool {headed(tool, _LONGEST_NAME)!r}: " if tool else ""
    shown = headed(message, MOST_CHARACTERS)
    logger.warning("%s%s%s", of_server, of_tool, shown)
    emit(Warned(server=server, message=shown, tool=tool))


class Hub:
    """Delivers events to callbacks and listeners."""

    def __init__(self, max_bytes: int = BACKLOG_BYTES) -> None:
        """`max_bytes` is for the events that one listener has not read."""
        self._max_bytes = max_bytes
        # Weak, so that a dropped listener costs nothing.
        self._listeners: weakref.WeakSet[EventStream[Event]] = weakref.WeakSet()
        self._callbacks: list[Emit] = []
        self._for_calls = 0
        """The number of callbacks that also receive the events of calls."""
        self._has_listened = False
        """Whether there has been a listener: until then, nobody has to ask how many are left."""
        self._ended = False

    @property
    def has_listeners(self) -> bool:
        """Whether there are callbacks or listeners."""
        return bool(self._callbacks or self._listeners)

    @property
    def follows_calls(self) -> bool:
        """Whether somebody receives the events of calls; otherwise the call path emits none."""
        return self._for_calls > 0 or (self._has_listened and bool(self._listeners))

    def on(self, callback: Emit, only: Filter | None = None, *, calls: bool = True) -> Callable[[], None]:
        """Call `callback` with events, all or filtered ones; returns a function that unsubscribes.

        Without `calls` it gets no events of calls, and costs them nothing.
        """
        # A new object each time, because the same callback may be registered twice.
        take = callback if calls else partial(_without_calls, callback)
        own = partial(take) if only is None else partial(_filtered, take, only)
        self._callbacks = [*self._callbacks, own]
        self._for_calls += calls
        return lambda: self._off(own, calls)

    def _off(self, callback: Emit, calls: bool) -> None:
        # A new list, because `emit` may be iterating over the old one.
        left = [other for other in self._callbacks if other is not callback]
        if len(left) < len(self._callbacks):
            self._callbacks = left
            self._for_calls -= calls

    def listen(self, only: Filter | None = None) -> EventStream[Event]:
        """A new listener for all events from now on, or for filtered ones."""
        listener = EventStream[Event](only, self._max_bytes)
        if self._ended:
            listener.end()
        self._listeners.add(listener)
        self._has_listened = True
        return listener

    def emit(self, event: Event) -> None:
        """Deliver an event; a callback that raises is logged and does not affect the others."""
        for callback in self._callbacks:
            try:
                callback(event)
            except Exception:  # a user's callback: its failure must not reach the link that emitted
                logger.exception("an event callback raised on %s", type(event).__name__)
        for listener in tuple(self._listeners):
            listener.put(event)

    def end(self) -> None:
        """End all listeners, present and future."""
        self._ended = True
        for listener in tuple(self._listeners):
            listener.end()


def of_types(kinds: tuple[type[Event], ...], only: Filter | None) -> Filter | None:
    """The filter `only`, for events of these types; TypeError for a type that no event has."""
    if not kinds:
        return only
    if wrong := [kind for kind in kinds if kind not in get_args(Event)]:
        raise TypeError(f"{wrong[0]!r} is not a type of event; toolbus.events has them")
    return lambda event: (event if only is None else only(event)) if isinstance(event, kinds) else None


def _size(event: Event) -> int:
    """About how many bytes an event takes."""
    texts = (getattr(event, name) for name in event.__dataclass_fields__)
    return 500 + sum(len(value) if isinstance(value, str) else len(repr(value)) for value in texts)


def _without_calls(callback: Emit, event: Event) -> None:
    if not isinstance(event, CallStarted | CallEnded | Progressed):
        callback(event)


def _filtered(callback: Emit, only: Filter, event: Event) -> None:
    if (wanted := only(event)) is not None:
        callback(wanted)
