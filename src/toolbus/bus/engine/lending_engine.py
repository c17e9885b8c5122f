"""An engine whose links others borrow: that of a bus, and that of a user with sessions."""

from toolbus.bus.engine.engine import Engine
from toolbus.bus.engine.sessions import Sessions, SharedEvent
from toolbus.core.operation.events import (
    Emit,
    Event,
    InputAnswered,
    InputAsked,
    ListChanged,
    Logged,
    StateChanged,
)


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
