"""The open sessions of a tenant, and how many may have links of their own."""

import asyncio
from collections.abc import Callable, Hashable
from threading import RLock
from typing import TYPE_CHECKING

from toolbus.core.ask.interactions import Interactions
from toolbus.core.values.errors import TooManySessions

if TYPE_CHECKING:
    from toolbus.bus.engine.tenants import SessionTenant

MAX_SESSIONS = 100
"""The number of sessions that may have links of their own, unless the program sets another limit."""


class Sessions:
    """The open sessions of the bus, or of one of its users, by name. Can be used from any thread."""

    def __init__(self) -> None:
        self._open: dict[str, SessionTenant] = {}
        self._lock = RLock()

    def open(
        self, name: str, interactions: Interactions | None, create: "Callable[[], SessionTenant]"
    ) -> "SessionTenant":
        """The session of that name, a new one if there is none."""
        with self._lock:
            session = self._open.get(name)
            if session is None:
                session = self._open[name] = create()
            elif interactions is not None and interactions is not session.handlers:
                raise ValueError(f"session {name!r} is open, with other interactions; end it first")
        return session

    def forget(self, session: "SessionTenant") -> None:
        """Another one may have its name; any number of times."""
        with self._lock:
            if self._open.get(session.name) is session:
                del self._open[session.name]

    @property
    def all(self) -> "list[SessionTenant]":
        """All of them, as a copy."""
        with self._lock:
            return list(self._open.values())

    async def follow(self) -> None:
        """Let all of them use the current servers and the config."""
        await asyncio.gather(*(session.follow() for session in self.all))

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(session.end_session() for session in self.all))


class SessionLimit:
    """Counts the sessions with links of their own: each of them may be a process for each server."""

    def __init__(self) -> None:
        self.most = MAX_SESSIONS
        self._counted: dict[object, Hashable] = {}
        """The sessions with links of their own, and their owners."""

    def count(self, session: object, server: str, owner: Hashable = None) -> None:
        """Count a session that needs its own link to a server; `TooManySessions` if it is one too many.

        An owner has at most as many of them as are left.
        """
        if session in self._counted:
            return
        free = self.most - len(self._counted)
        if free <= (0 if owner is None else list(self._counted.values()).count(owner)):
            raise TooManySessions(server, self.most)
        self._counted[session] = owner

    def release(self, session: object) -> None:
        """The session has no links of its own any more."""
        self._counted.pop(session, None)
