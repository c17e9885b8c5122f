"""Tokens in the store that several gateways share, and the locks for renewing them."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from hashlib import sha256

from toolbus.core.text.display import in_seconds
from toolbus.core.values.errors import StoreError, TokenProblem, TokenStoreError
from toolbus.state.store.store import Store

_TOKEN, _LOCK = "token", "lock"
_LEASE = 30.0
"""Seconds after which the lock of a process that died is free."""
_RENEW = _LEASE / 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_REMEDY = "check the database"


class SharedTokens:
    """Keeps tokens in a store; of names only digests, because they contain users and servers."""

    remedy = _REMEDY

    def __init__(self, store: Store, seconds: float | None = None) -> None:
        """Tokens that nobody uses are kept for this many seconds; None for forever."""
        self._store = store
        self._seconds = seconds

    @property
    def place(self) -> str:
        return f"the store {self._store.place}"

    def place_of(self, _key: str, /) -> str:
        return self.place

    async def set_aside(self, _key: str, /) -> bool:
        return False

    async def load(self, key: str, /) -> str | None:
        with _explained(self.place, "unreadable"):
            value = await self._store.get(_TOKEN, _name(key))
            if value is not None and self._seconds is not None:
                await self._store.keep(_TOKEN, _name(key), self._seconds)
        return None if value is None else value.decode(errors="surrogateescape")

    async def save(self, key: str, value: str, /) -> None:
        with _explained(self.place, "unwritable"):
            await self._store.put(
                _TOKEN, _name(key), value.encode(errors="surrogateescape"), seconds=self._seconds
            )

    async def remove(self, key: str, /) -> None:
        with _explained(self.place, "unwritable"):
            await self._store.remove(_TOKEN, _name(key))


class SharedLocks:
    """Exclusive use of names among all who use a store; a lock ends some time after its process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @asynccontextmanager
    async def hold(self, name: str, place: str, seconds: float) -> AsyncGenerator[None]:
        """Hold the lock of that name; TokenStoreError about `place` if it is not free in time."""
        own = secrets.token_bytes(16)
        with _explained(place, "unavailable"):
            await self._take(name, own, place, seconds)
        renewing = asyncio.create_task(self._renew(name))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError, StoreError):
                await renewing
            with suppress(StoreError):  # it expires
                await asyncio.shield(self._release(name, own))

    async def _take(self, name: str, own: bytes, place: str, seconds: float) -> None:
        until, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while not await self._store.add(_LOCK, name, own, _LEASE):
            if time.monotonic() + pause > until:
                problem = f"they were in use for more than {in_seconds(seconds)}"
                raise TokenStoreError(place, "busy", problem, "wait for whoever renews them")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _renew(self, name: str) -> None:
        while True:
            await asyncio.sleep(_RENEW)
            await self._store.keep(_LOCK, name, _LEASE)

    async def _release(self, name: str, own: bytes) -> None:
        value, mark = await self._store.marked(_LOCK, name)
        if value == own:  # else it expired, and is somebody else's
            await self._store.replace(_LOCK, name, mark, b"", seconds=-1.0)


@contextmanager
def _explained(place: str, reason: TokenProblem) -> Generator[None]:
    try:
        yield
    except StoreError as error:
        raise TokenStoreError(place, reason, error.problem, _REMEDY) from error


def _name(key: str) -> str:
    return sha256(key.encode(errors="surrogateescape")).hexdigest()
