"""The engine of one user: own catalog, results, events and calls, over shared and own links."""

from collections.abc import Callable
from dataclasses import replace

from toolbus.bus.engine import Access, Engine, Extensions
from toolbus.bus.user_access import SharedParts, UserAccess
from toolbus.core.events import Emit, LoginNeeded
from toolbus.core.interactions import for_user
from toolbus.core.operation import Failure, Operation
from toolbus.core.records import ToolResult


class UserCalls:
    """Observes the calls of one user, whose events reach no one else."""

    def __init__(self, owners: dict[int, Emit], used: Callable[[], None]) -> None:
        """`owners` has the calls of all users, by id."""
        self._owners = owners
        self._used = used
        self.emit: Emit = lambda event: None
        self.in_flight = 0

    def start(self, operation: Operation, /) -> "_UserCall":
        """Register a call; its links may be shared."""
        self._used()
        self.in_flight += 1
        self._owners[operation.id] = self.emit
        return _UserCall(self, operation.id)

    def end(self, call: int) -> None:
        """Forget a call."""
        self.in_flight -= 1
        self._owners.pop(call, None)


class _UserCall:
    def __init__(self, calls: UserCalls, id_: int) -> None:
        self._calls = calls
        self._id = id_

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        pass

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        self._calls.end(self._id)


class UserEngine(Engine):
    """The engine of one user."""

    def __init__(
        self,
        user: str,
        extensions: Extensions,
        bus: Engine,
        shared: SharedParts,
        owners: dict[int, Emit],
        used: "Callable[[UserEngine], None]",
    ) -> None:
        """`bus` is the engine of the bus itself; `used` is called whenever the user needs the servers."""
        config = shared.lifecycle.config
        calls = UserCalls(owners, lambda: used(self))
        super().__init__(
            config,
            replace(extensions, interactions=for_user(extensions.interactions, user)),
            shared.lock.approvals,
            policing=bus.policing,
            user=user,
            store=bus.results.store,
            observers=[calls],
        )
        calls.emit = self.hub.emit
        self._calls = calls
        self._bus_hub = bus.hub
        self._access = UserAccess(
            user, shared, self.servers, self.catalog, self.lock, self.hub.emit, lambda: used(self)
        )
        self.catalog.outdate()
        if shared.lifecycle.closed:
            self.hub.end()

    @property
    def access(self) -> Access:
        """The way to the loop of the bus."""
        return self._access

    @property
    def in_use(self) -> bool:
        """Whether it must be kept: somebody waits for a call, or for events."""
        return bool(
            self._calls.in_flight
            or self._access.busy
            or self.hub.has_listeners
            or self.catalog.registrations.active
            or self.servers.has_subscriptions
        )

    @property
    def has_own_links(self) -> bool:
        """Whether there are links of this user alone."""
        return len(self.servers.borrowed) < len(self.servers.by_alias)

    def catalog_changed(self) -> None:
        self.catalog.outdate()

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
        """Close the user's own links for good, and end the events."""
        self.catalog.registrations.sync(())
        await self.servers.close()
        self.hub.end()
