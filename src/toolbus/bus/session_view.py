"""The view of a session, which ends it."""

from typing import Any

from toolbus.bus.engine.session_engine import SessionEngine
from toolbus.bus.engine.sessions import LendingEngine
from toolbus.bus.rules.scope import Scope
from toolbus.bus.view import View
from toolbus.core.values.errors import BusClosed


class SessionView(View):
    """A bus for one session."""

    def __init__(self, session: SessionEngine, owner: LendingEngine, scope: Scope) -> None:
        """`owner` is the engine of its user, or of the bus."""
        super().__init__(session, scope)
        self._session = session
        self._owner = owner

    def view(self, **narrower: Any) -> "SessionView":
        """As `View.view`; a part of a session can end it, too."""
        return SessionView(self._session, self._owner, super().view(**narrower)._scope)

    async def end_session(self) -> None:
        """End the session: disconnect from its own servers. Any number of times, from anywhere."""
        try:
            loop = self._owner.access.loop
        except BusClosed:  # so has every session ended
            return
        await loop.run(self._owner.sessions.end(self._session))
