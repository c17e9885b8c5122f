"""The keys of clients: only their SHA-256 is stored.

They are in a private file for each config, or in the store that the replicas of a gateway share. A file that
cannot be read, or that others can write, admits nobody. A running gateway looks keys up in memory, so a
request does not wait for a database. A revoked key is refused by all replicas within seconds.
"""

import asyncio
import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any

from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.access.admission import CredentialDenied, CredentialHolder, CredentialUndecided
from toolbus.gateway.protocol.principal import Principal
from toolbus.state.files import config_place, state_folder
from toolbus.state.values import DocumentForm, Mirror, PrivateValues, Records, Values

logger = logging.getLogger("toolbus")

KEY = "key"
PREFIX = "tb_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
"""The names that a person may give to a key."""
NAME_RULE = "a name has letters, digits and ._@+-, at most 64; such as ann or ci-bot"
LOOK_SECONDS = 1.0
"""The shortest interval between two looks at the file; a revoked key is refused after it."""
STALE_SECONDS = 300.0
"""Seconds for which the copy is used while the store does not respond: a key may be revoked meanwhile."""
_USE = "key use"
_KEY_BYTES = 32
_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A key without the key itself."""

    name: str
    digest: str = field(repr=False)
    """The SHA-256 of the key, in hexadecimal."""
    views: tuple[str, ...] = ()
    """The views of the config that it may use, its own first; empty for the default one."""
    user: str = ""
    """The user whose logins and secrets its calls use."""
    created: float
    expires: float | None = None
    """The time in seconds since the epoch."""


class KeyExists(ToolbusError):
    """A key of that name exists already."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a key named {name!r}; choose another name, or revoke it first")


class KeysUnusable(ToolbusError):
    """The stored keys cannot be read or written."""


@contextmanager
def explained(what: str = "keys") -> Generator[None]:
    """A file that cannot be used is an error with the next step."""
    try:
        yield
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        step = getattr(error, "remedy", "") or "check the permissions of your state folder"
        problem = error.strerror or str(error) or type(error).__name__
        raise KeysUnusable(f"{what} cannot be used: {place}{problem}; {step}") from error
    except ValueError as error:
        raise KeysUnusable(f"{what} cannot be used: {error}") from error


def digest_of_key(key: str) -> str:
    """The SHA-256 of a key. It has 256 random bits, so that no slower digest is needed."""
    return sha256(key.encode(errors="surrogateescape")).hexdigest()


class StoredKeys:
    """The keys of one config, or of all gateways that share a store.

    Methods raise OSError or ValueError if their file cannot be used, and StoreError if the store cannot.
    """

    def __init__(self, values: Values, mirror: Mirror | None = None) -> None:
        """With a `mirror` of the keys, reading them does not wait for a database."""
        self._values = values
        self._records = Records(values, KEY, read_key, mirror)
        self.mirror = mirror
        self.now = values.now
        """The time that decides whether a key has expired: the same for all replicas."""

    @property
    def version(self) -> object:
        """Differs whenever the keys have changed; None if there are none."""
        return self._records.version

    def all(self) -> list[StoredKey]:
        """The keys, the oldest first; also expired ones."""
        return sorted(self._records.all().values(), key=lambda key: key.created)

    def add(
        self, name: str, *, views: Sequence[str] = (), user: str = "", expires: float | None = None
    ) -> tuple[str, StoredKey]:
        """Make a key, and return it: it cannot be shown again. `KeyExists` if the name is taken."""
        key = PREFIX + secrets.token_urlsafe(_KEY_BYTES)
        made = StoredKey(
            name=name,
            digest=digest_of_key(key),
            views=tuple(views),
            user=user,
            created=self.now(),
            expires=expires,
        )
        value = json.dumps(asdict(made)).encode()
        if not self._values.wait(self._changed(self._values.add(KEY, name, value))):
            raise KeyExists(name)
        return key, made

    def revoke(self, name: str) -> bool:
        """Delete a key; returns whether there was one."""
        return self._values.wait(self._changed(self._values.remove(KEY, name)))

    async def _changed(self, change: Awaitable[bool]) -> bool:
        done = await change
        if self.mirror is not None:
            await self.mirror.look()
        return done

    def used(self) -> dict[str, float]:
        """The hour of the last use of each key, by the digest of the key."""
        found: dict[str, float] = {}
        with suppress(OSError, ValueError):
            for digest, hour in self._values.wait(self._values.items(_USE)).items():
                with suppress(ValueError):
                    found[digest] = float(hour)
        return found

    def record_use(self, used: Mapping[str, float]) -> None:
        """Record when keys were used; revoked keys are left out."""
        known = {key.digest: key for key in self.all()}
        self._values.wait(self._put_use(used, known, self.used()))
        # Looked up again, because a key may have been revoked in the meantime.
        self._values.wait(self._forget_use(self.used().keys() - {key.digest for key in self.all()}))

    async def _put_use(
        self, used: Mapping[str, float], known: Mapping[str, StoredKey], before: Mapping[str, float]
    ) -> None:
        # A kind of its own, which only gateways write: a revoked key never comes back with it.
        for digest, when in used.items():
            if digest in known and before.get(digest) != (hour := hour_of(when, known[digest])):
                await self._values.put(_USE, digest, str(hour).encode())

    async def _forget_use(self, revoked: Collection[str]) -> None:
        for digest in revoked:
            await self._values.remove(_USE, digest)


def file_keys(config_file: str | Path, now: Callable[[], float] = time.time) -> StoredKeys:
    """The keys of one config file, in the user's state folder."""
    return StoredKeys(key_files(config_file, now))


def key_files(config_file: str | Path, now: Callable[[], float] = time.time) -> PrivateValues:
    """The files for the keys of one config file, and for their use."""
    owner, digest = config_place(config_file)
    file = f"gateway/{digest}"
    keys = DocumentForm(
        path=f"{file}.keys.json",
        owner=owner,
        entries="keys",
        name_of=lambda one: read_key(one).name,
        damaged="{path} {reason}; delete it, and add keys again",
    )
    used = DocumentForm(path=f"{file}.used.json", is_replaceable=True)
    return PrivateValues(state_folder, {KEY: keys, _USE: used}, now)


def hour_of(when: float, key: StoredKey | None = None) -> float:
    """The hour of a time, as seconds since the epoch; not before a key was made that was used then."""
    hour = when // _HOUR * _HOUR
    return hour if key is None else max(hour, key.created)


def read_key(stored: Any) -> StoredKey:
    """The key in its JSON; KeyError, TypeError or ValueError if it is not one."""
    fields: dict[str, Any] = {**stored, "views": tuple(stored["views"])}
    key = StoredKey(**fields)
    texts = (key.name, key.digest, key.user, *key.views)
    times = (key.created, *(() if key.expires is None else (key.expires,)))
    if not all(isinstance(text, str) for text in texts) or not all(map(_is_number, times)):  # pyright: ignore[reportUnnecessaryIsInstance]  # from a file
        raise TypeError
    return key


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Keys:
    """Finds keys. A file that cannot be used lets nobody in."""

    def __init__(
        self,
        stored: StoredKeys,
        default_view: str,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stored = stored
        self._default_view = default_view
        self._now = now
        self._clock = clock
        self._keys: dict[str, StoredKey] = {}
        """By digest: how long a search takes says nothing about a key."""
        self._version: object = object()
        self._looked = float("-inf")
        self._used: dict[str, float] = {}
        """The hour in which each key was used last, by digest."""
        self._writing: asyncio.Future[None] | None = None

    def identity(self, key: str) -> CredentialHolder:
        """The holder of the key; `CredentialDenied` if it is unknown, revoked or expired.

        `CredentialUndecided` if the store of the keys does not respond. Needs a running loop.
        """
        if not self.is_current:
            raise CredentialUndecided("the store of the keys does not respond")
        self._look()
        digest = digest_of_key(key)
        found = self._keys.get(digest)
        if found is None or not compare_digest(found.digest, digest):
            raise CredentialDenied("unknown key")
        if found.expires is not None and self._now() >= found.expires:
            raise CredentialDenied(f"the key {found.name!r} has expired")
        if self._used.get(digest) != (hour := hour_of(self._now())):
            self._used[digest] = hour
            self._record_use()
        return CredentialHolder(
            kind="key",
            name=found.name,
            user=found.user,
            views=found.views or (self._default_view,),
            expires=found.expires,
            key=digest,
        )

    @property
    def is_current(self) -> bool:
        """Whether it is known which keys are valid."""
        mirror = self._stored.mirror
        return mirror is None or mirror.age < STALE_SECONDS

    def has(self, principal: Principal) -> bool:
        """Whether the key of a principal still lets it in as it did; costs no more than a look in memory."""
        self._look()
        found = self._keys.get(principal.key)
        return (
            found is not None
            and found.user == principal.user
            and principal.view in (found.views or (self._default_view,))
            and (found.expires is None or self._now() < found.expires)
        )

    async def recorded(self) -> None:
        """Wait until the use of keys is written."""
        if self._writing is not None:
            await self._writing

    def _look(self) -> None:
        now = self._clock()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        version = self._stored.version
        if version == self._version:
            return
        try:
            self._keys = {key.digest: key for key in self._stored.all()}
        except (OSError, ValueError) as error:
            self._keys = {}
            logger.warning("no key is accepted: %s", error)
        self._version = version

    def _record_use(self) -> None:
        """Write when keys were used, beside the requests; at most one write for a key and an hour."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().run_in_executor(None, self._write_use)

    def _write_use(self) -> None:
        try:
            self._stored.record_use(dict(self._used))
        except (OSError, ValueError, ToolbusError) as error:
            logger.debug("the use of keys is not recorded: %s", error)
