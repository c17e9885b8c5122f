"""Values by kind and name, which several processes share.

Requests to a database that does not respond are retried for a while, and then fail with a clear error. The
log reports at once that it is gone, and that it is back. Every statement may be repeated: one whose response
was lost has the same effect as one that was never interrupted.

Work that uses several values, such as a request of a client, waits no longer for all of them than for one:
see `Allowance`.

Values are encrypted: a reader of the database, or of a copy, learns only names and times. The key is in
`$TOOLBUS_STORE_KEY` or in the system's keyring, never in the store.
"""

import asyncio
import base64
import binascii
import logging
import os
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

from toolbus.core.text.display import counted, in_seconds
from toolbus.core.values.errors import StoreError, TokenStoreError
from toolbus.state.files import state_folder
from toolbus.state.lock import LockBusy
from toolbus.state.seal import KEY_BYTES, SEAL, Cipher, Undecipherable, kept_key
from toolbus.state.store import sql
from toolbus.state.store.database import Database, Done, NoTables, StoreUrl, Unavailable, Unusable
from toolbus.state.store.postgres import PostgresDatabase
from toolbus.state.store.sqlite import SqliteDatabase
from toolbus.state.thread import LoopThread, in_thread
from toolbus.state.tokens.keyring import KeyringStore
from toolbus.state.values import FileForm, PrivateValues

VARIABLE = "TOOLBUS_STORE_KEY"
KEYRING_ENTRY = "toolbus store key"
_MAKE_ONE = f"set {VARIABLE} to the same 32 random bytes for all replicas, made by 'openssl rand -base64 32'"
_KEYRING_SECONDS = 60.0
"""The time the keyring may take; it may prompt the user to unlock it."""


async def store_cipher(url: StoreUrl) -> Cipher:
    """The cipher of a store. A file of this user may have its key in the state folder.

    StoreError if there is no key, or it is not one.
    """
    text = os.environ.get(VARIABLE) or await _from_keyring()
    if text:
        return Cipher([_key(url, part.strip()) for part in text.split(",")])
    if url.database != "sqlite":
        raise StoreError(url.place, "there is no key to encrypt it with", _MAKE_ONE)
    own = PrivateValues(state_folder, {SEAL: FileForm(path="store.key", is_secret=True)})
    try:
        return Cipher([await in_thread(lambda: own.wait(kept_key(own)))])
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(url.place, f"its key cannot be kept ({reason})", _MAKE_ONE) from error


async def _from_keyring() -> str | None:
    try:
        async with asyncio.timeout(_KEYRING_SECONDS):
            return await in_thread(lambda: KeyringStore().load(KEYRING_ENTRY))
    except (TokenStoreError, TimeoutError):  # there is none here
        return None


def _key(url: StoreUrl, text: str) -> bytes:
    try:
        key = base64.b64decode(
            text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True
        )
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise StoreError(url.place, "its key is not 32 bytes in base64", _MAKE_ONE)
    return key


T = TypeVar("T")
UrlOf: TypeAlias = Callable[[], Awaitable[StoreUrl]]
"""Finds the URL when it is needed; it may contain secrets that have to be looked up."""
logger = logging.getLogger("toolbus")
_lost: dict[str, bool] = {}
"""Stores that do not respond, by place: the log says it once for all of a process that use one.

True if it was a write: if the disk is full, reading goes on."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_NOTED_AFTER = 0.5
"""Seconds without a response until a warning is logged; it is normal that an idle connection was closed."""
_MARGIN = 1.0
"""Seconds beyond its patience after which a store is given up whose thread is stuck in the database."""
_PAGE = 500
"""Rows that are read at once."""
_LOCK, _LEASE = "lock", 30.0
"""The kind of locks, and the seconds after which the lock of a process that died is free."""
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.5
_PROOF = ("schema", "proof")
_CHECK = "check that the database is running and can be reached"


class Allowance:
    """The seconds that some work may wait for stores, in all; they pass only while it does."""

    __slots__ = ("left",)
    current: ContextVar["Allowance | None"] = ContextVar("toolbus store allowance", default=None)

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    @contextmanager
    def used(self) -> Generator[None]:
        """Use it in a block, and in tasks that are started there."""
        token = Allowance.current.set(self)
        try:
            yield
        finally:
            Allowance.current.reset(token)

    @staticmethod
    def leave() -> None:
        """Use a separate time limit from now on: for a task that outlives its creator."""
        Allowance.current.set(None)


class Row(NamedTuple):
    """A value as it is stored."""

    kind: str
    name: str
    stored: bytes
    mark: int


class Store:
    """The store at a URL, for any loop and any thread; it is opened when it is first used."""

    patience = 20.0
    """Seconds of retries for a database that does not respond."""

    def __init__(
        self, url: StoreUrl | UrlOf, cipher: Cipher | None = None, version: int = sql.VERSION
    ) -> None:
        """`version` is the version of the tables which this program knows."""
        self._url = url
        self._cipher = cipher
        self._version = version
        self._thread = LoopThread()
        self._database: Database | None = None
        self._opening: asyncio.Task[None] | None = None
        self._ahead = time.time() - time.monotonic()
        """The lead of the database's clock over ours, which never goes back."""

    def __repr__(self) -> str:
        return f"Store({self.place!r})"

    @property
    def place(self) -> str:
        return self._url.place if isinstance(self._url, StoreUrl) else "of the config"

    def place_of(self, kind: str, name: str = "") -> str:
        return f"the store {self.place}"

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    def beside(self, patience: float) -> "Store":
        """The same store, open or not, on a thread and connections of its own, with another patience."""
        made = Store(self._url, self._cipher, self._version)
        made.patience = patience
        return made

    async def open(self) -> None:
        """Connect, and check that it can be used; StoreError if not. A second time it does nothing."""
        await self._within(self._opened)

    async def close(self) -> None:
        """Release the connections; it is opened again if it is used again."""
        await self._thread.run(self._close())
        self._thread.stop()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.wait(work)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return self._thread.begin(work)

    def now(self) -> float:
        """The time of the database, as seconds since the epoch; the clock of this machine may be wrong."""
        return time.monotonic() + self._ahead

    async def local_address(self) -> str | None:
        """The address of this machine that the database sees; None if there is no network between them."""
        return await self._within(self._local_address)

    # Values, as `Values` describes them

    async def get(self, kind: str, name: str) -> bytes | None:
        return (await self.marked(kind, name))[0]

    async def marked(self, kind: str, name: str) -> tuple[bytes | None, int]:
        """The value, and the mark of its version, for `replace`."""
        rows = (await self._run(sql.GET, kind=kind, name=name)).rows
        if not rows:
            return None, 0
        value, mark = rows[0]
        return self._decrypted(kind, name, value), mark

    async def put(self, kind: str, name: str, value: bytes, seconds: float | None = None) -> None:
        await self._write(sql.PUT, kind, name, value, seconds)

    async def add(self, kind: str, name: str, value: bytes = b"", seconds: float | None = None) -> bool:
        return (await self._write(sql.ADD, kind, name, value, seconds)).count > 0

    async def replace(
        self, kind: str, name: str, mark: int, value: bytes, seconds: float | None = None
    ) -> bool:
        """Keep a value instead of the one with that mark; False if it was replaced or removed meanwhile."""
        return (await self._write(sql.REPLACE, kind, name, value, seconds, was=mark)).count > 0

    async def swap(
        self, kind: str, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None
    ) -> bool:
        if old is None:
            return new is not None and await self.add(kind, name, new, seconds)
        value, mark = await self.marked(kind, name)
        if new is None:
            new, seconds = b"", -1.0
        return value == old and await self.replace(kind, name, mark, new, seconds)

    async def keep(self, kind: str, name: str, seconds: float) -> bool:
        return (await self._run(sql.KEEP, kind=kind, name=name, seconds=seconds)).count > 0

    async def remove(self, kind: str, name: str) -> bool:
        return (await self._run(sql.REMOVE, kind=kind, name=name)).count > 0

    async def clear(self, kind: str) -> int:
        return (await self._run(sql.CLEAR, kind=kind)).count

    async def items(self, kind: str) -> dict[str, bytes]:
        return {name: value for name, (value, _) in (await self.marked_items(kind)).items()}

    async def marked_items(self, kind: str) -> dict[str, tuple[bytes, int]]:
        """The same, each with the mark of its version."""
        found: dict[str, tuple[bytes, int]] = {}
        for name, value, mark in (await self._run(sql.ITEMS, kind=kind)).rows:
            try:
                found[name] = self._decrypted(kind, name, value), mark
            except StoreError as error:
                logger.warning("%s", error)
        return found

    async def version(self, kind: str) -> object:
        return (await self._run(sql.STATE, kind=kind)).rows[0]

    async def purge(self) -> int:
        """Delete expired values; returns how many there were."""
        return (await self._run(sql.PURGE)).count

    @asynccontextmanager
    async def hold(self, name: str, seconds: float) -> AsyncGenerator[None]:
        """Hold the lock of that name among all who use the store; `LockBusy` if it is not free in time.

        A lock ends some time after its process.
        """
        own, until, pause = secrets.token_bytes(16), time.monotonic() + seconds, _FIRST_WAIT
        while not await self.add(_LOCK, name, own, _LEASE):
            if time.monotonic() + pause > until:
                problem = f"they were in use for more than {in_seconds(seconds)}"
                raise LockBusy(problem, "wait until their renewal has ended")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT)
        renewing = asyncio.create_task(self._renew(name))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError, StoreError):
                await renewing
            with suppress(StoreError):  # it expires
                await asyncio.shield(self._release(name, own))

    async def _renew(self, name: str) -> None:
        while True:
            await asyncio.sleep(_LEASE / 3)
            await self.keep(_LOCK, name, _LEASE)

    async def _release(self, name: str, own: bytes) -> None:
        value, mark = await self.marked(_LOCK, name)
        if value == own:  # else it expired, and is somebody else's
            await self.replace(_LOCK, name, mark, b"", seconds=-1.0)

    def set_aside(self, kind: str, name: str) -> bool:
        """A value stays where it is."""
        return False

    # All values, whatever they are encrypted with

    @property
    def cipher(self) -> Cipher:
        """The cipher of the values; the store is open."""
        assert self._cipher is not None, "it is open"
        return self._cipher

    async def rows(self) -> AsyncGenerator[Row]:
        """Every value that has not expired, as it is stored."""
        last = Row("", "", b"", 0)
        while True:
            page = (await self._run(sql.PAGE, kind=last.kind, name=last.name, most=_PAGE)).rows
            for kind, name, value, mark in page:
                last = Row(kind, name, _stored(value), mark)
                yield last
            if len(page) < _PAGE:
                return

    async def reencrypt(self, row: Row, value: bytes) -> bool:
        """Encrypt a value with the first key; False if it was changed meanwhile. Nothing else changes."""
        encrypted = self.cipher.encrypted(row.kind, row.name, value)
        values = {"kind": row.kind, "name": row.name, "value": encrypted, "was": row.mark}
        return (await self._run(sql.REENCRYPT, **values)).count > 0

    async def renew_proof(self) -> None:
        """From now on, who does not have the first key cannot open the store."""
        await self._run(sql.PROVE, proof=self.cipher.encrypted(*_PROOF, b""))

    # The database

    async def _write(
        self, statement: str, kind: str, name: str, value: bytes, seconds: float | None, **more: Any
    ) -> Done:
        values = {"kind": kind, "name": name, "mark": secrets.randbits(62), "seconds": seconds, **more}
        return await self._within(lambda until: self._run_here(statement, values, until, value))

    async def _run(self, statement: str, **values: Any) -> Done:
        return await self._within(lambda until: self._run_here(statement, values, until))

    async def _within(self, work: Callable[[float], Coroutine[Any, Any, T]]) -> T:
        """Have the thread of the store do some work until its own patience, or the caller's, ends."""
        began, allowance = time.monotonic(), Allowance.current.get()
        seconds = self.patience if allowance is None else max(0.0, min(self.patience, allowance.left))
        try:
            async with asyncio.timeout(seconds + _MARGIN):
                return await self._thread.run(work(began + seconds))
        except (TimeoutError, Unavailable) as error:
            problem = f"it has not responded for {seconds:.3g} s ({str(error) or 'its thread is busy'})"
            raise StoreError(self.place, problem, _CHECK) from error
        finally:
            if allowance is not None:
                allowance.left -= time.monotonic() - began

    # On its own thread

    async def _run_here(
        self, statement: str, values: dict[str, Any], until: float, value: bytes | None = None
    ) -> Done:
        """Run a statement; with `value`, which is to be encrypted, among its values."""
        await self._opened(until)
        if value is not None:
            values = {**values, "value": self.cipher.encrypted(values["kind"], values["name"], value)}
        writes = not statement.startswith("SELECT")
        return await self._tried(lambda database: database.run(statement, values), until, writes=writes)

    async def _local_address(self, until: float) -> str | None:
        await self._opened(until)
        return await self._tried(lambda database: database.local_address(), until)

    async def _tried(
        self, work: Callable[[Database], Awaitable[T]], until: float, *, writes: bool = False
    ) -> T:
        """Use the database, again and again while it does not respond; `Unavailable` if it never does."""
        began, pause, reason = time.monotonic(), _FIRST_PAUSE, "no response"
        while True:
            if self._database is None:
                raise StoreError(self.place, "it was closed", "open it again")
            try:
                async with asyncio.timeout_at(until):
                    done = await work(self._database)
            except (Unavailable, TimeoutError) as error:
                reason = str(error) or reason
                if time.monotonic() - began >= _NOTED_AFTER:
                    self._note_loss(reason, writes=writes)
                if time.monotonic() + pause > until:
                    raise Unavailable(reason) from error
            except Unusable as error:
                raise StoreError(self.place, str(error), "check its URL and its rights") from error
            else:
                self._note_return(writes=writes)
                return done
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _note_loss(self, reason: str, *, writes: bool) -> None:
        if self.place not in _lost:
            _lost[self.place] = writes
            logger.warning("the store %s does not respond (%s); retrying", self.place, reason)

    def _note_return(self, *, writes: bool) -> None:
        if self.place in _lost and (writes or not _lost[self.place]):
            del _lost[self.place]
            logger.warning("the store %s responds again", self.place)

    async def _opened(self, until: float) -> None:
        if self._opening is None or (self._opening.done() and _has_failed(self._opening)):
            # For all who wait for it: it has the patience of the store, whatever is left of theirs.
            work = self._open(time.monotonic() + self.patience)
            self._opening = asyncio.create_task(work, name="toolbus store")
            self._opening.add_done_callback(_has_failed)  # nobody may wait for it any more
        try:
            async with asyncio.timeout_at(until):
                await asyncio.shield(self._opening)
        except TimeoutError:
            raise Unavailable("no response") from None

    async def _close(self) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        self._opening = None
        if self._database is not None:
            database, self._database = self._database, None
            await database.close()

    async def _open(self, until: float) -> None:
        if not isinstance(self._url, StoreUrl):
            self._url = await self._url()
        url = self._url
        if self._cipher is None:
            self._cipher = await store_cipher(url)
        if self._database is None:
            self._database = (SqliteDatabase if url.database == "sqlite" else PostgresDatabase)(url.target)
        try:
            await self._check(self._cipher, until)
        except BaseException:
            await self._database.close()
            raise

    async def _check(self, cipher: Cipher, until: float) -> None:
        """Create missing tables, and check that the rest is ours: the version, and the key."""
        proof = cipher.encrypted(*_PROOF, b"")
        schema = {"version": self._version, "oldest": sql.OLDEST, "proof": proof}
        try:
            found = await self._tried(lambda database: database.run(sql.SCHEMA, {}), until)
        except NoTables:
            await self._tried(lambda database: database.create(sql.TABLES, schema), until)
            found = await self._tried(lambda database: database.run(sql.SCHEMA, {}), until)
        version, oldest, stored_proof, now = found.rows[0]
        if oldest > self._version:
            problem = (
                f"it belongs to a newer toolbus (version {version} of its tables, known: {self._version})"
            )
            raise StoreError(self.place, problem, "upgrade toolbus")
        try:
            cipher.decrypted(*_PROOF, _stored(stored_proof))
        except Undecipherable:
            raise self._other_key("it") from None
        if version < self._version:
            await self._tried(lambda database: database.run(sql.UPGRADE, schema), until)
        self._ahead = float(now) - time.monotonic()

    def _decrypted(self, kind: str, name: str, value: bytes) -> bytes:
        try:
            return self.cipher.decrypted(kind, name, _stored(value))
        except Undecipherable:
            raise self._other_key(f"its {kind} {name!r}") from None

    def _other_key(self, what: str) -> StoreError:
        step = (
            "use the key of those who wrote it, or several keys with a comma between them, the new one first"
        )
        return StoreError(self.place, f"{what} was encrypted with another key, or is damaged", step)


def _stored(value: object) -> bytes:
    """The value of a column; nothing, which no key decrypts, if it has another type, as SQLite allows."""
    return value if isinstance(value, bytes) else b""


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or task.exception() is not None


@dataclass(slots=True, kw_only=True)
class KeyUse:
    """The use of keys in a store."""

    total: int = 0
    other: int = 0
    """Values that need another key than the first."""
    unreadable: Counter[str] = field(default_factory=Counter[str])
    """Values that none of the keys opens, by kind."""

    @property
    def problem(self) -> str:
        """A message about unreadable values; empty if there are none."""
        kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(self.unreadable.items()))
        values = counted(self.unreadable.total(), "value")
        return f"none of the keys in {VARIABLE} decrypts {values} ({kinds})" if kinds else ""


async def key_use(store: Store) -> KeyUse:
    """See what the values are encrypted with; nothing is changed."""
    await store.open()
    return (await _look(store, changes=False))[0]


async def report_keys(store: Store) -> None:
    """Log which values need a key that is missing, or one that is to be replaced."""
    try:
        found = await key_use(store)
    except StoreError as error:
        logger.debug("%s", error)
        return
    if found.problem:
        logger.warning("%s; add the key of those who wrote them, after a comma", found.problem)
    if found.other:
        values = counted(found.other, "value")
        logger.warning("an older key is needed for %s; 'toolbus store rekey' re-encrypts them", values)


async def rekey(store: Store) -> tuple[int, KeyUse]:
    """Encrypt all values with the first key; returns how many were, and the keys in use afterwards.

    Something is left if others, whose first key is another one, write meanwhile.
    """
    await store.open()
    _, changed = await _look(store, changes=True)
    left = await key_use(store)
    if not left.other:
        await store.renew_proof()
    return changed, left


async def _look(store: Store, *, changes: bool) -> tuple[KeyUse, int]:
    found, changed = KeyUse(), 0
    async for row in store.rows():
        found.total += 1
        try:
            value, is_first = store.cipher.opened(row.kind, row.name, row.stored)
        except Undecipherable:
            found.unreadable[row.kind] += 1
            continue
        found.other += not is_first
        if changes and not is_first:
            changed += await store.reencrypt(row, value)
    return found, changed
