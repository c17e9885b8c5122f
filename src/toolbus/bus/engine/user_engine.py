"""The engine of one user: own catalog, results, events and calls, over shared and own links."""

from collections.abc import Callable
from dataclasses import replace

from toolbus.bus.engine.engine import Access, Engine
from toolbus.bus.engine.session_engine import SessionEngine
from toolbus.bus.engine.sessions import LendingEngine, Sessions, SharedEvent
from toolbus.bus.engine.shared_parts import SharedParts
from toolbus.bus.engine.user_access import UserAccess
from toolbus.bus.engine.user_calls import UserCalls
from toolbus.core.ask.interactions import Interactions, for_user
from toolbus.core.operation.events import LoginNeeded


class UserEngine(LendingEngine):
    """The engine of one user."""

    def __init__(
        self, user: str, shared: SharedParts, bus: Engine, used: "Callable[[UserEngine], None]"
    ) -> None:
        """`bus` is the engine of the bus itself; `used` is called whenever the user needs the servers."""
        config = shared.lifecycle.config
        calls = UserCalls(shared.owners, lambda: used(self))
        super().__init__(
            config,
            replace(shared.extensions, interactions=for_user(shared.extensions.interactions, user)),
            shared.lock.approvals,
            policing=bus.policing,
            user=user,
            base=bus,
            observers=[calls],
        )
        calls.emit = self.hub.emit
        self._calls = calls
        self._bus_hub = bus.hub
        self._shared = shared
        self._owners = shared.owners
        self.sessions = Sessions(self._new_session)
        self._used = lambda: used(self)
        self._access = UserAccess(
            user, shared, self.servers, self.catalog, self.lock, self.hub.emit, self._used, self.sessions
        )
        self.catalog.outdate()
        if shared.lifecycle.closed:
            self.hub.end()

    @property
    def access(self) -> Access:
        """The way to the loop of the bus."""
        return self._access

    def _new_session(self, name: str, interactions: Interactions | None) -> SessionEngine:
        return SessionEngine(name, self._shared, self, self._used, interactions)

    @property
    def in_use(self) -> bool:
        """Whether it must be kept: somebody waits for a call, or for events, or has a session."""
        return bool(
            self._calls.in_flight
            or self._access.busy
            or self.hub.has_listeners
            or self.catalog.registrations.active
            or self.servers.has_subscriptions
            or len(self.sessions)
        )

    @property
    def has_own_links(self) -> bool:
        """Whether there are links of this user alone."""
        return len(self.servers.borrowed) < len(self.servers.by_alias)

    def catalog_changed(self) -> None:
        self.lock.outdate()
        self.outdate()

    def outdate(self) -> None:
        """A server offers something else now, an own or a shared one."""
        self.catalog.outdate()
        self.sessions.outdate()

    def emit_borrowed(self, event: SharedEvent) -> None:
        """Emit an event of a shared server, if it is borrowed."""
        if event.server in self.servers.borrowed:
            self.hub.emit(event)
            self.emit_shared(event)

    def emit_login(self, event: LoginNeeded) -> None:
        super().emit_login(event)
        self._bus_hub.emit(event)  # whoever supervises the bus has to reach the user

    async def follow(self) -> None:
        """Use the current servers and the config of the bus."""
        await self._access.follow()

    async def release(self) -> None:
        """Close the user's own links; the next use builds them again."""
        await self._access.release()

    async def close(self) -> None:
        """Close the user's own links for good, and end the events and the sessions."""
        self.catalog.registrations.sync(())
        await self.sessions.close()
        await self.servers.close()
        self.hub.end()
