"""The view of a session, which ends it."""

from typing import Any

from toolbus.bus.engine.tenants import SessionTenant
from toolbus.bus.rules.scope import Scope
from toolbus.bus.view import View
from toolbus.core.values.errors import BusClosed


class SessionView(View):
    """A bus for one session."""

    def __init__(self, session: SessionTenant, scope: Scope) -> None:
        super().__init__(session, scope)
        self._session = session

    def view(self, **narrower: Any) -> "SessionView":
        """As `View.view`; a part of a session can end it, too."""
        return SessionView(self._session, super().view(**narrower)._scope)

    async def end_session(self) -> None:
        """End the session: disconnect from its own servers. Any number of times, from anywhere."""
        try:
            loop = self._session.engine.loop
        except BusClosed:  # so has every session ended
            return
        await loop.run(self._session.end_session())
