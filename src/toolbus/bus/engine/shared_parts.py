"""What the users and the sessions of a bus share."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from toolbus.bus.engine.engine import Extensions
from toolbus.bus.engine.lifecycle import Lifecycle
from toolbus.bus.engine.servers import Servers
from toolbus.bus.rules.lock import BusLock
from toolbus.core.operation.events import Emit
from toolbus.core.values.errors import TooManySessions

MAX_SESSIONS = 100
"""How many sessions may have links of their own, unless the program sets another limit."""


class SessionLimit:
    """Counts the sessions with links of their own: each of them may be a process for each server."""

    def __init__(self) -> None:
        self.most = MAX_SESSIONS
        self._counted: dict[object, Hashable] = {}
        """With their owners."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedParts:
    """The parts of a bus that its users and sessions share."""

    extensions: Extensions
    lifecycle: Lifecycle
    servers: Servers
    lock: BusLock
    owners: dict[int, Emit] = field(default_factory=dict[int, Emit])
    """Where the events of a call go, by the id of the call; those of the bus itself are not here."""
    session_limit: SessionLimit = field(default_factory=SessionLimit)
