"""A tenant that borrows links: a user, a client or a session."""

from abc import abstractmethod
from collections.abc import Collection, Coroutine, Generator, Mapping
from contextlib import contextmanager
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, TypeVar

from toolbus.bus.engine.engine import BusLoop
from toolbus.bus.engine.eras import Server
from toolbus.bus.engine.tenant import Tenant
from toolbus.config import BusConfig, ServerConfig
from toolbus.core.ask.interactions import Interactions
from toolbus.core.loop import OwnerLoop
from toolbus.core.operation.events import StateChanged
from toolbus.core.values.records import State

T = TypeVar("T")


class Borrower(Tenant):
    """A user, a client or a session, with its own and borrowed links. Its events reach nobody else."""

    def __init__(self, parent: Tenant, user: str, handlers: Interactions | None = None) -> None:
        self._in_flight = 0
        self._running = 0
        """The number of coroutines that are being run for it."""
        super().__init__(parent.engine, parent, user, handlers)
        self.servers.lender = parent.servers
        self.calls = self
        self.place()
        if self.engine.closed:
            self.hub.end()

    @property
    def access(self) -> BusLoop:
        """The way to the loop of the bus."""
        return self

    # Its calls, whose events reach nobody else

    def begin(self, call: int) -> None:
        """Register a call; its link may be shared."""
        self.note_use()
        self._in_flight += 1
        self.engine.owners[call] = self.hub.emit

    def end(self, call: int) -> None:
        """Forget a call."""
        self._in_flight -= 1
        self.engine.owners.pop(call, None)

    @abstractmethod
    def note_use(self) -> None:
        """Keep its user, who is used now."""

    @property
    def in_use(self) -> bool:
        """Whether it must be kept: somebody waits for a call, or for events."""
        return bool(
            self._in_flight
            or self._running
            or self.hub.has_listeners
            or self.live.registrations.active
            or self.servers.has_subscriptions
        )

    # As the engine, for views

    @property
    def config(self) -> BusConfig:
        """The config in use."""
        return self.engine.config

    @property
    @abstractmethod
    def installed(self) -> bool:
        """Whether its links exist."""

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self.engine.running

    @property
    def is_here(self) -> bool:
        """Whether requests can be made at once, and the caller runs on the loop of the bus."""
        return self.loop.is_current and self.installed

    @property
    def loop(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if the bus is not running."""
        return self.engine.loop

    def check_process(self) -> None:
        """Raise `BusClosed` if the bus was started before this process was forked."""
        self.engine.check_process()

    def check_running(self) -> None:
        """Raise `BusClosed` if calls cannot be made."""
        _ = self.loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the bus, from any task, thread or loop."""
        with _closed_if_unstarted(work):
            return await self.loop.run(self._tracked(work))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from a thread without a loop; RuntimeError if it would never return."""
        with _closed_if_unstarted(work):
            return self.loop.wait(self._tracked(work))

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        self.note_use()
        self._running += 1
        try:
            await self.install()
            return await work
        finally:
            self._running -= 1

    @abstractmethod
    async def install(self) -> None:
        """Wait until its links exist."""

    # Its servers

    @abstractmethod
    def place(self) -> dict[str, Server]:
        """Install what it borrows, and its own servers as far as they are known; returns those to close."""

    def _placed(
        self,
        own: Mapping[str, ServerConfig],
        lent: Mapping[str, Server],
        *,
        apart: Collection[str],
        unbuilt: frozenset[str] = frozenset(),
    ) -> dict[str, Server]:
        """Install own and borrowed servers; those `apart` are not borrowed any more, if they were."""
        servers, config = self.servers, self.engine.usable_config
        was_lent = servers.borrowed & set(apart)
        taken_back: dict[str, State] = {alias: servers.links[alias].state for alias in was_lent}
        identity = self.link_owner(config)
        fresh = servers.build(config.model_copy(update={"servers": dict(own)}), identity) if own else {}
        unknown = config.servers.keys() - own.keys() - lent.keys()
        gone = servers.install({**lent, **fresh}, config, borrowed=frozenset(lent), without=unknown)
        servers.unbuilt = unbuilt
        for alias, state in taken_back.items():  # as if it was closed: the subscriptions have ended
            self.hub.emit(StateChanged(server=alias, state="closed", previous=state))
        self.live.outdate()
        return gone


async def installed_of(lender: Tenant) -> None:
    """Wait until the links of a user or client, or of the bus, exist."""
    await (lender.install() if isinstance(lender, Borrower) else lender.engine.wait_installed())


@contextmanager
def _closed_if_unstarted(work: Coroutine[Any, Any, Any]) -> Generator[None]:
    """Close work that was not begun, because something before it failed."""
    try:
        yield
    finally:
        if getcoroutinestate(work) == CORO_CREATED:
            work.close()
