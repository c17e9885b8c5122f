"""The engine of one session: the links of its user, and own ones to servers with `per_session`.

An own link is built when the session first needs it. Until it has listed something else, what the server
offers is known from the link of the user.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from toolbus.bus.engine.engine import Access, Engine
from toolbus.bus.engine.servers import Server
from toolbus.bus.engine.shared_parts import SharedParts
from toolbus.bus.engine.user_calls import UserCalls
from toolbus.config import BusConfig
from toolbus.core.ask.interactions import Interactions, for_user
from toolbus.core.loop import OwnerLoop
from toolbus.core.operation.events import Event, ListChanged, LoginNeeded, StateChanged
from toolbus.core.values.errors import BusClosed
from toolbus.core.values.records import State


class SessionEngine(Engine):
    """The engine of one session."""

    def __init__(
        self,
        name: str,
        shared: SharedParts,
        parent: Engine,
        used: Callable[[], None],
        interactions: Interactions | None,
    ) -> None:
        """`parent` is the engine of the user, or of the bus; `used` is called whenever it is needed.

        `interactions` answers the requests of its own servers, instead of those of the bus.
        """
        self.name = name
        self.interactions = interactions
        handlers = shared.extensions.interactions if interactions is None else interactions
        calls = UserCalls(shared.owners, used)
        super().__init__(
            shared.lifecycle.config,
            replace(shared.extensions, interactions=for_user(handlers, parent.user)),
            shared.lock.approvals,
            policing=parent.policing,
            user=parent.user,
            base=parent,
            observers=[calls],
        )
        calls.emit = self.hub.emit
        self._calls = calls
        self._parent = parent
        self._lifecycle = shared.lifecycle
        self._limit = shared.session_limit
        self._access = SessionAccess(name, parent.access)
        self._new: set[str] = set()
        """The servers whose own links have listed nothing yet."""
        self.servers.base = parent.servers
        self.servers.build_one = self._build
        self._place(frozenset())
        self.catalog.outdate()
        if shared.lifecycle.closed:
            self.hub.end()

    @property
    def access(self) -> Access:
        """The way to the loop of the bus."""
        return self._access

    def catalog_changed(self) -> None:
        self.lock.outdate()
        self.catalog.outdate()

    def emit_of_link(self, event: Event) -> None:
        if isinstance(event, ListChanged) and event.server in self._new:
            shown = self._parent.servers.inventories.get(event.server)
            if self.servers.inventories[event.server] is shown:
                return  # what it lists first is what the session shows already
        if isinstance(event, StateChanged) and event.state == "ready":
            self._new.discard(event.server)
        super().emit_of_link(event)

    def emit_login(self, event: LoginNeeded) -> None:
        super().emit_login(event)
        self._parent.emit_login(event)  # whoever supervises the bus has to reach the user

    # The servers

    @property
    def _own(self) -> frozenset[str]:
        """The servers with links of this session."""
        return frozenset(self.servers.by_alias) - self.servers.borrowed

    def _build(self, alias: str) -> None:
        """Build the link to a server, which is needed now."""
        if self._access.ended or self._lifecycle.closed:
            raise BusClosed(f"the session {self.name!r}")
        self._limit.count(self, alias, None if self.interactions is None else self.interactions.owner)
        self._new.add(alias)
        self._place(self._own | {alias})

    def _place(self, own: frozenset[str]) -> dict[str, Server]:
        """Install the servers of the user, and own ones as far as they are needed; returns those to close."""
        servers, lent = self.servers, self._parent.servers.by_alias
        config = self._lifecycle.usable_config
        separate = {alias for alias, server in config.servers.items() if server.per_session}
        borrowed = {alias: lent[alias] for alias in config.servers if alias in lent and alias not in separate}
        built = {
            alias: server.model_copy(update={"required": False})
            for alias, server in config.servers.items()
            if alias in separate and alias in own
        }
        taken_back: dict[str, State] = {
            alias: servers.links[alias].state for alias in servers.borrowed & separate
        }
        identity = self._lifecycle.identity(config, self.user)
        fresh = servers.build(config.model_copy(update={"servers": built}), identity) if built else {}
        unknown = config.servers.keys() - built.keys() - borrowed.keys()
        gone = servers.install(borrowed | fresh, config, borrowed=frozenset(borrowed), without=unknown)
        servers.unbuilt = frozenset(separate) - built.keys()
        if not built:
            self._limit.release(self)
        for alias, state in taken_back.items():  # as if it was closed: the subscriptions have ended
            self.emit_of_link(StateChanged(server=alias, state="closed", previous=state))
        return gone

    async def follow(self) -> None:
        """Use the current servers and the config of the bus."""
        if self._access.ended:
            return
        self.lock.use(self._parent.lock.approvals)
        gone = self._place(self._own)
        self.catalog.use(self._lifecycle.config)
        self.catalog.outdate()
        await self.servers.close_servers(gone)
        await self.servers.notify_roots_changed()

    async def close(self) -> None:
        """Close its own links for good, and end its subscriptions and events."""
        self._access.ended = True
        self.catalog.registrations.sync(())
        await asyncio.gather(self.servers.close(), self.servers.unsubscribe())
        self._limit.release(self)
        self.hub.end()


T = TypeVar("T")


class SessionAccess:
    """Runs work on the loop of a bus until the session ends."""

    def __init__(self, name: str, parent: Access) -> None:
        """`parent` is the way of the user, or of the bus itself."""
        self._name = name
        self._parent = parent
        self.ended = False

    @property
    def config(self) -> BusConfig:
        """The config in use."""
        return self._parent.config

    @property
    def installed(self) -> bool:
        """Whether the links exist that are not built when they are first needed."""
        return self._parent.installed

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self._parent.running and not self.ended

    @property
    def loop(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if the bus is not running or the session has ended."""
        loop = self._parent.loop
        if self.ended:
            raise BusClosed(f"the session {self._name!r}")
        return loop

    def check_process(self) -> None:
        """Raise `BusClosed` if the bus was started before this process was forked."""
        self._parent.check_process()

    def check_running(self) -> None:
        """Raise `BusClosed` if the bus is not running or the session has ended."""
        _ = self.loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the bus, from any task, thread or loop."""
        self._check(work)
        return await self._parent.run(work)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from a thread without a loop; RuntimeError if it would never return."""
        self._check(work)
        return self._parent.wait(work)

    def _check(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            self.check_running()
        except BusClosed:
            work.close()
            raise
