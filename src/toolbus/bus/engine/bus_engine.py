"""The engine of a bus itself, whose links its users and sessions share."""

import asyncio

from toolbus.bus.engine.engine import Access, Extensions
from toolbus.bus.engine.lifecycle import Lifecycle
from toolbus.bus.engine.session_engine import SessionEngine
from toolbus.bus.engine.sessions import LendingEngine, Sessions, SharedEvent
from toolbus.bus.engine.shared_parts import SharedParts
from toolbus.bus.engine.user_engine import UserEngine
from toolbus.bus.engine.users import Users
from toolbus.bus.rules.enforcement import Policing
from toolbus.bus.rules.lock import Approvals
from toolbus.config import BusConfig
from toolbus.core.ask.interactions import Interactions
from toolbus.core.values.records import OWN


class BusEngine(LendingEngine):
    """The engine of a bus: starts and stops, and has the engines of its users and sessions."""

    def __init__(self, config: BusConfig, extensions: Extensions) -> None:
        """`LockError` if there is a lockfile that cannot be used."""
        policing = Policing(config)
        super().__init__(config, extensions, Approvals(config), policing=policing)
        policing.warn = lambda message: self.catalog.warn(OWN, None, message)
        policing.changed = self._enforce_everywhere
        self.users = Users(self._new_user)
        self.sessions = Sessions(self._new_session)
        """Those without a user."""
        self.lifecycle = Lifecycle(
            config,
            self.servers,
            self.catalog,
            self.lock,
            policing,
            self.hub,
            extensions.get_secret,
            self,
        )
        self.shared = SharedParts(
            extensions=extensions, lifecycle=self.lifecycle, servers=self.servers, lock=self.lock
        )
        self._owners = self.shared.owners
        if self.lock.approvals.file is not None:
            self.catalog.rebuild()

    def _enforce_everywhere(self) -> None:
        self.enforce()
        self.users.enforce()
        self.sessions.enforce()

    @property
    def access(self) -> Access:
        """The way to the loop of the bus."""
        return self.lifecycle

    def owner_of_sessions(self, user: str) -> LendingEngine:
        """The engine whose links the sessions of a user borrow; that of the bus if the name is empty."""
        return self.users[user] if user else self

    def _new_user(self, name: str) -> UserEngine:
        return UserEngine(name, self.shared, self, self.users.use)

    def _new_session(self, name: str, interactions: Interactions | None) -> SessionEngine:
        return SessionEngine(name, self.shared, self, lambda: None, interactions)

    def catalog_changed(self) -> None:
        super().catalog_changed()
        self.users.outdate()
        self.sessions.outdate()

    def emit_shared(self, event: SharedEvent) -> None:
        super().emit_shared(event)
        self.users.emit_shared(event)

    # Those who follow the lifecycle

    async def follow(self) -> None:
        """Let all users and sessions use the current servers and the config."""
        self.encoding.use(self.lifecycle.config)
        await asyncio.gather(self.users.follow(), self.sessions.follow())

    async def close(self) -> None:
        """Close the links of all users and sessions, and end their events."""
        self.encoding.close()
        await asyncio.gather(self.users.close(), self.sessions.close())
