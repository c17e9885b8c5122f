"""The sessions of a bus, or of one of its users: an engine for each, from its opening to its end."""

import asyncio
from collections.abc import Callable
from threading import RLock
from typing import TypeAlias

from toolbus.bus.engine.engine import Engine
from toolbus.bus.engine.session_engine import SessionEngine
from toolbus.core.ask.interactions import Interactions
from toolbus.core.operation.events import (
    Emit,
    Event,
    InputAnswered,
    InputAsked,
    ListChanged,
    Logged,
    StateChanged,
)

SharedEvent: TypeAlias = StateChanged | ListChanged
"""What those who borrow a server learn of it; they are not told of the calls of others."""


class Sessions:
    """The engines of the open sessions, by name. Can be used from any thread."""

    def __init__(self, create: Callable[[str, Interactions | None], SessionEngine]) -> None:
        self._create = create
        self._open: dict[str, SessionEngine] = {}
        self._lock = RLock()

    def open(self, name: str, interactions: Interactions | None) -> SessionEngine:
        """The session of that name, a new one if there is none. Starts nothing."""
        with self._lock:
            engine = self._open.get(name)
            if engine is None:
                engine = self._open[name] = self._create(name, interactions)
            elif interactions is not None and interactions is not engine.interactions:
                raise ValueError(f"session {name!r} is open, with other interactions; end it first")
        return engine

    async def end(self, engine: SessionEngine) -> None:
        """Close the links of a session for good, and forget it; any number of times."""
        with self._lock:
            if self._open.get(engine.name) is engine:
                del self._open[engine.name]
        await engine.close()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def _all(self) -> list[SessionEngine]:
        with self._lock:
            return list(self._open.values())

    def outdate(self) -> None:
        """A server that they may borrow offers something else now."""
        for engine in self._all:
            engine.catalog.outdate()

    def enforce(self) -> None:
        """The bus has another policy or audit trail now."""
        for engine in self._all:
            engine.enforce()

    def emit_shared(self, event: SharedEvent) -> None:
        """Emit an event of a server to those who borrow it."""
        for engine in self._all:
            if event.server in engine.servers.borrowed:
                engine.hub.emit(event)

    async def follow(self) -> None:
        """Let all sessions use the current servers and the config."""
        await asyncio.gather(*(engine.follow() for engine in self._all))

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(self.end(engine) for engine in self._all))


class LendingEngine(Engine):
    """An engine with sessions, which borrow its links."""

    sessions: Sessions
    _owners: dict[int, Emit]
    """Where the events of a call go, by the id of the call."""

    def emit_of_link(self, event: Event) -> None:
        is_of_call = isinstance(event, Logged | InputAsked | InputAnswered)
        owner = self._owners.get(event.id or 0) if is_of_call else None
        if owner is not None:
            owner(event)
            return
        super().emit_of_link(event)
        if isinstance(event, StateChanged | ListChanged):
            self.emit_shared(event)

    def emit_shared(self, event: SharedEvent) -> None:
        """Emit an event of a server to those who borrow it."""
        self.sessions.emit_shared(event)
