"""The logins that survive a restart: found, saved and removed by server and user, and locked for a renewal.

A damaged record, or one of a newer version, is an error and stays as it is. A new login that replaces a
damaged record keeps a copy of it.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

from toolbus.core.values.errors import TokenStoreError
from toolbus.state.thread import to_its_end
from toolbus.state.tokens.keyring import AutoStore, described_keyring
from toolbus.state.tokens.store import (
    ELSEWHERE,
    DescribedStore,
    KeptTokens,
    OtherStore,
    StoreCalls,
    TokenLocks,
    TokenStore,
    values_in,
    values_of_user,
)

logger = logging.getLogger("toolbus")

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Login:
    """The tokens of one user for one server, from one authorization server."""

    issuer: str
    resource: str
    """The server."""
    user: str = ""
    client: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The client that the tokens were issued to, as registered (RFC 7591)."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The metadata of the authorization server (RFC 8414), so that a renewal needs no discovery."""
    audience: str | None = None
    """The `resource` parameter of requests for tokens; None for none."""
    access: str = ""
    """The access token; empty if only the registration of the client is known."""
    type: str = "Bearer"
    scope: str | None = None
    expires_at: float | None = None
    renewed_at: float = 0.0
    refresh: str | None = None
    jwk: Mapping[str, str] | None = None
    """The private key that the tokens are bound to (DPoP)."""
    reached: str = ""
    """Another `Host` and another way to verify the certificate, with which the user signed in."""

    @property
    def expires_in(self) -> float | None:
        """Seconds until the access token expires; None if that is unknown."""
        return None if self.expires_at is None else self.expires_at - time.time()

    def __repr__(self) -> str:
        return f"Login(issuer={self.issuer!r}, resource={shown_url(self.resource)!r}, user={self.user!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a login is not pickled: it contains tokens")

    def to_json(self) -> str:
        """The record as it is stored."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return json.dumps({"v": VERSION, **{name: _plain(value) for name, value in values.items()}})

    @classmethod
    def from_json(cls, text: str) -> "Login":
        """The record as it was stored; NewerRecord if it is of a newer version, ValueError if damaged."""
        data = read_record(text)
        if not data.keys() <= {one.name for one in fields(cls)}:
            raise NewerRecord("a login with unknown fields")
        if not {"issuer", "resource"} <= data.keys() or not all(map(_fits, data, data.values())):
            raise ValueError("not a login")
        return cls(**data)


class NewerRecord(ValueError):
    """A record was written by a newer version of toolbus."""


def read_record(text: str) -> dict[str, Any]:
    """The content of a stored record; NewerRecord or ValueError as above, without the text in them."""
    try:
        text.encode()
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    # Not inside the handler: those errors hold the text.
    if not isinstance(found, dict):
        raise ValueError("not a record")
    data: dict[str, Any] = {**found}
    version = data.pop("v", None)
    if isinstance(version, int) and version > VERSION:
        raise NewerRecord("a record of a newer version")
    if version != VERSION:
        raise ValueError("not a record of a known version")
    return data


def shown_url(url: str) -> str:
    """The URL for messages, without user info and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "***"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


_TEXTS = {"issuer", "resource", "user", "access", "type"}
_MAPPINGS = {"client", "metadata"}


def _fits(name: str, value: Any) -> bool:
    """Whether a field may have this value."""
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _MAPPINGS:
        return isinstance(value, dict)
    if name == "renewed_at":
        return isinstance(value, int | float)
    return value is None or isinstance(value, {"expires_at": int | float, "jwk": dict}.get(name, str))


def _plain(value: Any) -> Any:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value


T = TypeVar("T")
_CHECK_DISK = "check the disk"


class TokenSource:
    """The logins in one store.

    Nothing is cached, and every method may wait for a disk or a person: keep the login while you use it.
    """

    lock_seconds = 60.0
    """The time to wait for a lock that another task, thread or process holds."""

    def __init__(self, store: DescribedStore, locks: TokenLocks) -> None:
        self._calls = StoreCalls(store)
        self._locks = locks

    def __repr__(self) -> str:
        return f"Tokens({self.place!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a token store is not pickled: open it again in the other process")

    @property
    def place(self) -> str:
        """The place where they are kept, for messages; `auto` decides it at the first access."""
        return self._calls.place

    async def find(self, resource: str, user: str, issuer: str | None = None) -> Login | None:
        """The user's login for a server: the current one, or the one from this issuer."""
        if issuer is None:
            issuer = (await self._index(resource)).get(user)
        return None if issuer is None else await self._load(_login_record(issuer, resource, user))

    async def logins(self, resource: str) -> list[Login]:
        """The current logins of all users, sorted by user; those without tokens included."""
        index = sorted((await self._index(resource)).items())
        found = [await self._load(_login_record(issuer, resource, user)) for user, issuer in index]
        return [login for login in found if login is not None]

    async def save(self, login: Login) -> None:
        """Replace the user's login for that server and issuer, and make it the current one.

        The login of another issuer is removed, unless this one has no tokens yet. Call it under `lock`; it
        goes on to the end if it is cancelled.
        """
        await to_its_end(self._save(login))

    async def remove(self, login: Login) -> None:
        """Delete a login, if it is stored. Call it under `lock`; it goes on to the end if it is cancelled."""
        await to_its_end(self._remove(login))

    def lock(self, resource: str, user: str) -> AbstractAsyncContextManager[None]:
        """Have the login of this user for yourself, among all tasks, threads and processes of this machine.

        Raises TokenStoreError if it is not free within `lock_seconds`.
        """
        return self._hold(f"{resource}\n{user}")

    async def _save(self, login: Login) -> None:
        resource, user = login.resource, login.user
        await self._replace(_login_record(login.issuer, resource, user), login.to_json())
        current = (await self._replaceable_index(resource)).get(user)
        if current == login.issuer or (current is not None and not login.access):
            return
        async with self._index_lock(resource):
            index = {**await self._replaceable_index(resource), user: login.issuer}
            await self._save_index(resource, index)
        if current is not None:
            await self._calls.remove(_login_record(current, resource, user).key)

    async def _remove(self, login: Login) -> None:
        issuer, resource, user = login.issuer, login.resource, login.user
        await self._calls.remove(_login_record(issuer, resource, user).key)
        if (await self._index(resource)).get(user) != issuer:
            return
        async with self._index_lock(resource):
            index = {other: of for other, of in (await self._index(resource)).items() if other != user}
            if index:
                await self._save_index(resource, index)
            else:
                await self._calls.remove(_index_record(resource).key)

    def _index_lock(self, resource: str) -> AbstractAsyncContextManager[None]:
        # One for all users of a server: each has a lock of their own.
        return self._hold(_index_record(resource).key)

    def _hold(self, what: str) -> AbstractAsyncContextManager[None]:
        digest = sha256(what.encode(errors="surrogateescape")).hexdigest()[:32]
        return self._locks.hold(digest, self.place, self.lock_seconds)

    async def _index(self, resource: str) -> dict[str, str]:
        """The issuer of each user's current login."""
        return await self._load(_index_record(resource)) or {}

    async def _replaceable_index(self, resource: str) -> dict[str, str]:
        """The same; empty if it is damaged, because it is kept aside when it is saved."""
        try:
            return await self._index(resource)
        except TokenStoreError as error:
            if error.reason != "damaged":
                raise
            return {}

    async def _save_index(self, resource: str, index: dict[str, str]) -> None:
        await self._replace(_index_record(resource), json.dumps({"v": VERSION, "logins": index}))

    async def _load(self, record: "_Record[T]") -> T | None:
        text = await self._calls.load(record.key)
        return None if text is None else self._read(record, text)

    async def _replace(self, record: "_Record[Any]", text: str) -> None:
        """Save a record; a damaged one is kept aside, one of a newer version is not replaced."""
        before = await self._calls.load(record.key)
        if before is not None:
            try:
                self._read(record, before)
            except TokenStoreError as error:
                if error.reason != "damaged":
                    raise
                await self._calls.set_aside(record.key, before)
                logger.warning("%s was damaged; it is kept aside in %s", record.name, self.place)
        await self._calls.save(record.key, text)

    def _read(self, record: "_Record[T]", text: str) -> T:
        try:
            return record.read(text)
        except NewerRecord:
            problem = f"{record.name} was written by a newer version of toolbus, and was left as it is"
            step = f"update toolbus, or {ELSEWHERE}"
            raise TokenStoreError(self._calls.place_of(record.key), "newer", problem, step) from None
        except ValueError:
            problem = f"{record.name} is damaged, and was left as it is"
            step = "sign in again; it will be kept aside"
            raise TokenStoreError(self._calls.place_of(record.key), "damaged", problem, step) from None


@dataclass(frozen=True, slots=True)
class _Record(Generic[T]):
    """One entry of a store: its key, its name in messages, and how its text is read."""

    key: str
    name: str
    read: Callable[[str], T]


def _login_record(issuer: str, resource: str, user: str) -> _Record[Login]:
    def read(text: str) -> Login:
        login = Login.from_json(text)
        if (login.issuer, login.resource, login.user) != (issuer, resource, user):
            raise ValueError("the login of another user, server or issuer")
        return login

    whose = f" of {user!r}" if user else ""
    return _Record(f"login {issuer} {resource} {user}", f"the login{whose} for {shown_url(resource)}", read)


def _index_record(resource: str) -> _Record[dict[str, str]]:
    return _Record(f"index {resource}", f"the list of logins for {shown_url(resource)}", _read_index)


def _read_index(text: str) -> dict[str, str]:
    logins: Any = read_record(text).get("logins")
    if not isinstance(logins, dict):
        raise ValueError("not an index")
    index = cast("dict[str, Any]", logins)
    if not all(isinstance(issuer, str) for issuer in index.values()):
        raise ValueError("not an index")
    return index


def open_tokens(setting: object) -> TokenSource:
    """The tokens in `auto`, `keyring`, `memory`, `file:DIR`, or an object with three methods.

    Nothing is read or created yet. Raises TokenStoreError for anything else.
    """
    own = values_of_user()
    match setting:
        case TokenSource():
            return setting
        case "memory":
            return TokenSource(OtherStore(MemoryTokens(), "memory", "choose another store"), TokenLocks([]))
        case "keyring":
            return TokenSource(described_keyring(), TokenLocks([own]))
        case "auto":
            return TokenSource(AutoStore(KeptTokens(own, _CHECK_DISK)), TokenLocks([own]))
        case str() if (path := setting.removeprefix("file:")) not in ("", setting):
            kept = values_in(Path(os.path.expanduser(path)))
            # In that folder, because others with another home may use it, too; unless it is read-only.
            return TokenSource(KeptTokens(kept, _CHECK_DISK), TokenLocks([kept, own]))
        case TokenStore() if not isinstance(setting, type):
            return TokenSource(
                OtherStore(setting, type(setting).__name__, "check the store"), TokenLocks([own])
            )
        case _:
            shown = repr(setting) if isinstance(setting, str | type) else type(setting).__name__
            step = "use auto, keyring, memory, file:DIR, or an object with load, save and remove"
            raise TokenStoreError(shown, "unavailable", "there is no such store", step)


class MemoryTokens:
    """Keeps tokens for as long as the program runs. Its methods are async, so none is called in a thread."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    async def load(self, key: str, /) -> str | None:
        return self._values.get(key)

    async def save(self, key: str, value: str, /) -> None:
        self._values[key] = value

    async def remove(self, key: str, /) -> None:
        self._values.pop(key, None)
