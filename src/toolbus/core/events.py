"""What happens on a bus, as typed events, and the hub that hands them to whoever listens.

Listening costs nothing until someone does. A listener that does not keep up loses its oldest
events, never the bus its speed.
"""

import asyncio
import logging
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

from toolbus.core.records import JSON, State

logger = logging.getLogger("toolbus")

BACKLOG = 10_000
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
"""Why a call failed: refused by a hook, a guard or a person; arguments that do not fit, or that a model did
not write as a JSON object; no such tool; a server that did not answer or refused; a tool that reported an
error; a caller who gave up; a timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Happened:
    at: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged(_Happened):
    """A link entered another state."""

    server: str
    state: State
    previous: State
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChanged(_Happened):
    """The catalog was swapped; the public names that came, went, or have a new definition."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted(_Happened):
    """A call began, or another request of a server. For an unknown name, `server` is empty."""

    id: int
    name: str
    server: str
    tool: str
    """The server's own name of the tool; the URI of a resource, the name of a prompt."""
    route: str = "tools/call"
    """What was asked for, by MCP method: `resources/read`, `prompts/get` and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded(_Happened):
    """A call ended, with a result or without one; every `CallStarted` has one, with the same `id`."""

    id: int
    name: str
    server: str
    tool: str
    elapsed_ms: float
    is_error: bool
    error: str | None = None
    """What went wrong, without arguments and results; None if the tool itself reported an error."""
    reason: Reason | None = None
    """Why it failed; None if it did not."""
    route: str = "tools/call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(_Happened):
    """A server told how far a call has come."""

    id: int
    name: str
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(_Happened):
    """A server sent a log message."""

    server: str
    level: str
    data: JSON
    logger: str | None = None
    id: int | None = None
    """The call that it is about, where that is known."""
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUpdated(_Happened):
    """A resource that is subscribed to has changed."""

    server: str
    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAsked(_Happened):
    """A server asks: a person (elicitation), a model (sampling), or for folders (roots)."""

    server: str
    kind: Literal["elicitation", "sampling", "roots"]
    message: str
    id: int | None = None
    """The call that it is about, where that is known."""
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAnswered(_Happened):
    """What a server asked was answered: accept, decline or cancel."""

    server: str
    kind: Literal["elicitation", "sampling", "roots"]
    action: str
    id: int | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(_Happened):
    """Something a person should know that broke nothing: a tool left out, an empty list, odd output."""

    server: str
    message: str
    tool: str | None = None


Event: TypeAlias = (
    StateChanged
    | CatalogChanged
    | CallStarted
    | CallEnded
    | Progressed
    | Logged
    | ResourceUpdated
    | InputAsked
    | InputAnswered
    | Warned
)
Emit: TypeAlias = Callable[[Event], None]
Filter: TypeAlias = Callable[[Event], Event | None]
"""Passes an event on, changes it, or drops it by returning None."""
OnLog: TypeAlias = Callable[[Logged], Awaitable[None] | None]
"""Told what a server logs during a call."""


class Listening:
    """The events since it was made, for `async for`; ends when the bus stops."""

    def __init__(self, only: Filter | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._only = only
        self._backlog: deque[Event] = deque(maxlen=BACKLOG)
        self._wake = asyncio.Event()
        self._ended = False

    def __aiter__(self) -> "Listening":
        return self

    async def __anext__(self) -> Event:
        while not self._backlog:
            if self._ended:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._backlog.popleft()

    def take(self, event: Event) -> None:
        """Add an event, unless it is filtered out; from any thread."""
        wanted = event if self._only is None else self._only(event)
        if wanted is not None:
            self._backlog.append(wanted)
            self._rouse()

    def end(self) -> None:
        """Let the listener finish what it has, then stop; from any thread."""
        self._ended = True
        self._rouse()

    def _rouse(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)


class Hub:
    """Where events are emitted, and heard by callbacks and listeners."""

    def __init__(self) -> None:
        # Weak, so that a listener which is simply dropped costs nothing from then on.
        self._listeners: weakref.WeakSet[Listening] = weakref.WeakSet()
        self._callbacks: list[Emit] = []
        self._ended = False

    @property
    def heard(self) -> bool:
        """Whether anyone listens; the call path skips its events when nobody does."""
        return bool(self._callbacks or self._listeners)

    def on(self, callback: Emit, only: Filter | None = None) -> Callable[[], None]:
        """Call `callback` with events, all or filtered ones; returns a function that unsubscribes."""
        # One of its own each time, because the same callback may be here twice.
        own = partial(callback) if only is None else partial(_filtered, callback, only)
        self._callbacks = [*self._callbacks, own]
        return lambda: self._off(own)

    def _off(self, callback: Emit) -> None:
        # A new list: this may happen while the old one is gone through.
        self._callbacks = [other for other in self._callbacks if other is not callback]

    def listen(self, only: Filter | None = None) -> Listening:
        """A new listener, which receives events from now on, all or filtered ones."""
        listener = Listening(only)
        if self._ended:
            listener.end()
        self._listeners.add(listener)
        return listener

    def emit(self, event: Event) -> None:
        """Hand an event to everyone; a callback that raises is logged and hurts no one else."""
        for callback in self._callbacks:
            try:
                callback(event)
            except Exception:  # a user's callback: its failure must not reach the link that emitted
                logger.exception("an event callback raised on %s", type(event).__name__)
        for listener in tuple(self._listeners):
            listener.take(event)

    def end(self) -> None:
        """End every listener, and those to come."""
        self._ended = True
        for listener in tuple(self._listeners):
            listener.end()


def _filtered(callback: Emit, only: Filter, event: Event) -> None:
    if (wanted := only(event)) is not None:
        callback(wanted)
