"""The number of sessions, and of second links, that there may be."""

from collections.abc import Hashable

from toolbus.core.values.errors import TooManySessions

MAX_SESSIONS = 100
"""The number of sessions that may have links of their own, unless the program sets another limit."""


class SessionLimit:
    """Counts the sessions with links of their own: each of them may be a process for each server."""

    def __init__(self) -> None:
        self.most = MAX_SESSIONS
        self._counted: dict[object, Hashable] = {}
        """The sessions with links of their own, and their owners."""

    def __len__(self) -> int:
        return len(self._counted)

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
