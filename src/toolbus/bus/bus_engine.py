"""The engine of a bus itself, whose links its users share."""

from toolbus.bus.engine import Access, Engine, Extensions
from toolbus.bus.lifecycle import Lifecycle
from toolbus.bus.lock import Approvals
from toolbus.bus.policing import Policing
from toolbus.bus.user_access import SharedParts
from toolbus.bus.user_engine import UserEngine
from toolbus.bus.users import Users
from toolbus.config import BusConfig
from toolbus.core.events import Emit, Event, InputAnswered, InputAsked, Logged, StateChanged
from toolbus.core.records import OWN


class BusEngine(Engine):
    """The engine of a bus: starts and stops, and has the engines of its users."""

    def __init__(self, config: BusConfig, extensions: Extensions) -> None:
        """`LockError` if there is a lockfile that cannot be used."""
        policing = Policing(config)
        super().__init__(config, extensions, Approvals(config), policing=policing)
        policing.warn = lambda message: self.catalog.warn(OWN, None, message)
        policing.changed = self._enforce_everywhere
        self._extensions = extensions
        self._owners: dict[int, Emit] = {}
        """Where the events of a user's call go, by the id of the call."""
        self.users = Users(self._new_user)
        self.lifecycle = Lifecycle(
            config,
            self.servers,
            self.catalog,
            self.lock,
            policing,
            self.hub,
            extensions.get_secret,
            self.users,
        )
        self._shared = SharedParts(lifecycle=self.lifecycle, servers=self.servers, lock=self.lock)
        if self.lock.approvals.file is not None:
            self.catalog.rebuild()

    def _enforce_everywhere(self) -> None:
        self.enforce()
        self.users.enforce()

    @property
    def access(self) -> Access:
        """The way to the loop of the bus."""
        return self.lifecycle

    def _new_user(self, name: str) -> UserEngine:
        return UserEngine(name, self._extensions, self, self._shared, self._owners, self.users.use)

    def catalog_changed(self) -> None:
        super().catalog_changed()
        self.users.outdate()

    def emit_of_link(self, event: Event) -> None:
        is_of_call = isinstance(event, Logged | InputAsked | InputAnswered)
        owner = self._owners.get(event.id or 0) if is_of_call else None
        if owner is not None:
            owner(event)
            return
        super().emit_of_link(event)
        if isinstance(event, StateChanged):
            self.users.emit_shared(event)
