"""The users of a bus: one engine each, made when needed; the least recently used ones are released."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import RLock
from weakref import WeakValueDictionary

from toolbus.bus.engine.sessions import SharedEvent
from toolbus.bus.engine.user_engine import UserEngine
from toolbus.core.values.errors import BusClosed

MAX_USERS = 1_000
"""How many users are kept that nobody needs at the moment."""


class Users:
    """The engines of the users by name. Can be used from any thread."""

    def __init__(self, create: Callable[[str], UserEngine]) -> None:
        self._create = create
        # Weak: as long as somebody has a view of a user, the same name means the same engine.
        self._known: WeakValueDictionary[str, UserEngine] = WeakValueDictionary()
        self._recent: OrderedDict[str, UserEngine] = OrderedDict()
        """The users that are kept, the least recently used first."""
        self._releasing: set[asyncio.Task[None]] = set()
        self._lock = RLock()

    def __getitem__(self, name: str) -> UserEngine:
        """The engine of a user, a new one if there is none. Starts nothing."""
        with self._lock:
            engine = self._known.get(name)
            if engine is None:
                engine = self._known[name] = self._create(name)
            self.use(engine)
        return engine

    def use(self, engine: UserEngine) -> None:
        """Keep a user, who is used now."""
        with self._lock:
            is_new = engine.user not in self._recent
            self._recent[engine.user] = engine
            self._recent.move_to_end(engine.user)
            if is_new and len(self._recent) > MAX_USERS:
                self._drop_oldest(engine)

    def _drop_oldest(self, newest: UserEngine) -> None:
        """Drop users that nobody needs, the least recently used first; more are kept if more are needed."""
        unused = [other for other in self._recent.values() if other is not newest and not other.in_use]
        for dropped in unused[: len(self._recent) - MAX_USERS]:
            del self._recent[dropped.user]
            if dropped.has_own_links:
                with suppress(BusClosed):  # so are its links
                    dropped.access.loop.call_soon(partial(self._release, dropped))

    def _release(self, engine: UserEngine) -> None:
        if engine.user not in self._recent:  # else it was used again meanwhile
            task = asyncio.get_running_loop().create_task(engine.release(), name="toolbus release user")
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)

    @property
    def _all(self) -> list[UserEngine]:
        with self._lock:
            return list(self._known.values())

    def outdate(self) -> None:
        """A shared server offers something else now."""
        for engine in self._all:
            engine.outdate()

    def enforce(self) -> None:
        """The bus has another policy or audit trail now."""
        for engine in self._all:
            engine.enforce()
            engine.sessions.enforce()

    def emit_shared(self, event: SharedEvent) -> None:
        """Emit an event of a shared server to those who borrow it."""
        for engine in self._all:
            engine.emit_borrowed(event)

    async def follow(self) -> None:
        """Let all users use the current servers and the config of the bus."""
        await asyncio.gather(*(engine.follow() for engine in self._all))

    async def close(self) -> None:
        """Close the links of all users, and end their events."""
        await asyncio.gather(*(engine.close() for engine in self._all), *self._releasing)
