"""The seam to where tokens are kept: three methods, and how they are called; and our own files and store.

No call blocks the loop, and each is bounded. An exception of a store becomes a TokenStoreError that quotes
nothing: the text of a foreign exception may contain a token.
"""

import asyncio
import inspect
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from toolbus.core.text.display import in_seconds
from toolbus.core.values.errors import StoreError, TokenProblem, TokenStoreError
from toolbus.state.files import FileExposed, Foreign, NoStateFolder, PrivateFolder, state_folder
from toolbus.state.lock import LockBusy, hold_in_process
from toolbus.state.thread import in_thread
from toolbus.state.values import FileForm, PrivateValues, Values

logger = logging.getLogger("toolbus")


@runtime_checkable
class TokenStore(Protocol):
    """A place for tokens. Each method may also be async; otherwise it is called in a thread.

    Keys and values are texts, to be kept as they are. Values are secrets.
    """

    def load(self, key: str, /) -> str | Awaitable[str | None] | None:
        """The value that was saved last; None if there is none."""
        ...

    def save(self, key: str, value: str, /) -> object:
        """Replace the value; once this returns, it must not get lost."""
        ...

    def remove(self, key: str, /) -> object:
        """Delete the value, if there is one."""
        ...


class DescribedStore(TokenStore, Protocol):
    """A store, and what messages say of it."""

    @property
    def remedy(self) -> str:
        """The next step if it does not respond or raises."""
        ...

    @property
    def place(self) -> str:
        """The place where it keeps tokens."""
        ...

    def place_of(self, key: str, /) -> str:
        """The place where it keeps one of them."""
        ...

    def set_aside(self, key: str, /) -> object:
        """Move a damaged value out of the way; false if it has to be saved under another key."""
        ...


class OtherStore:
    """A store that is not ours, described."""

    def __init__(self, store: TokenStore, place: str, remedy: str) -> None:
        self.load, self.save, self.remove = store.load, store.save, store.remove
        self.place = place
        self.remedy = remedy

    def place_of(self, _key: str, /) -> str:
        return self.place

    def set_aside(self, _key: str, /) -> bool:
        return False


class StoreCalls:
    """Calls the methods of a store: in a thread unless they are async, and never without end."""

    seconds = 60.0
    """The time that one call may take; a keyring may prompt the user to unlock it."""

    def __init__(self, store: DescribedStore) -> None:
        self._store = store

    @property
    def place(self) -> str:
        return self._store.place

    def place_of(self, key: str) -> str:
        return self._store.place_of(key)

    async def load(self, key: str) -> str | None:
        found = await self._call("unreadable", "load", key)
        if found is None or isinstance(found, str):
            return found
        problem = f"load returned {type(found).__name__}, not a string"
        raise TokenStoreError(self.place, "unreadable", problem, self._store.remedy)

    async def save(self, key: str, value: str) -> None:
        await self._call("unwritable", "save", key, value)

    async def remove(self, key: str) -> None:
        await self._call("unwritable", "remove", key)

    async def set_aside(self, key: str, value: str) -> None:
        """Keep a damaged value under another name, even if there is one already."""
        if await self._call("unwritable", "set_aside", key):
            return
        number = 1
        while await self.load(f"{key} corrupt {number}") not in (None, value):
            number += 1
        await self.save(f"{key} corrupt {number}", value)

    async def _call(self, reason: TokenProblem, name: str, *arguments: str) -> object:
        limit = asyncio.timeout(self.seconds)
        try:
            async with limit:
                return await _called(getattr(self._store, name), *arguments)
        except TokenStoreError:
            raise
        except Exception as error:  # the code of others: whatever it raises, the store cannot be used
            problem = f"{name} raised {type(error).__name__}"
        # Not inside the handler: the text of that error may contain a token.
        if limit.expired():
            problem = f"{name} did not return within {in_seconds(self.seconds)}"
        raise TokenStoreError(self.place, reason, problem, self._store.remedy)


async def _called(method: Any, *arguments: str) -> object:
    if inspect.iscoroutinefunction(method):
        return await method(*arguments)
    result = await in_thread(partial(method, *arguments))
    return await result if inspect.isawaitable(result) else result


ELSEWHERE = "choose another place: tokens: file:DIR"
_TOKEN = "token"
_STATE = "the state folder"


class KeptTokens:
    """Keeps tokens; of names only digests, because they contain users and servers."""

    def __init__(self, values: Values, remedy: str, seconds: float | None = None) -> None:
        """Tokens that nobody uses are kept for this many seconds; None for forever."""
        self._values = values
        self._seconds = seconds
        self.remedy = remedy

    @property
    def place(self) -> str:
        try:
            return self._values.place_of(_TOKEN)
        except NoStateFolder:
            return _STATE

    def place_of(self, key: str, /) -> str:
        return self._values.place_of(_TOKEN, _name(key))

    def load(self, key: str, /) -> str | None:
        name = _name(key)
        try:
            with self._explained("unreadable", key):
                value = self._values.wait(self._values.get(_TOKEN, name))
                if value is not None and self._seconds is not None:
                    self._values.wait(self._values.keep(_TOKEN, name, self._seconds))
        except NoStateFolder:  # then nothing can have been saved
            return None
        # Whatever it contains, as it is: whoever reads it decides whether it is damaged.
        return None if value is None else value.decode(errors="surrogateescape")

    def save(self, key: str, value: str, /) -> None:
        content = value.encode(errors="surrogateescape")
        try:
            with self._explained("unwritable", key):
                self._values.wait(self._values.put(_TOKEN, _name(key), content, self._seconds))
        except NoStateFolder:
            step = f"set HOME or XDG_STATE_HOME, or {ELSEWHERE}"
            raise TokenStoreError(_STATE, "unavailable", "there is no home for it", step) from None

    def remove(self, key: str, /) -> None:
        try:
            with self._explained("unwritable", key):
                self._values.wait(self._values.remove(_TOKEN, _name(key)))
        except NoStateFolder:
            return

    def set_aside(self, key: str, /) -> bool:
        with self._explained("unwritable", key):
            return self._values.set_aside(_TOKEN, _name(key))

    @contextmanager
    def _explained(self, reason: TokenProblem, key: str) -> Generator[None]:
        try:
            yield
        except StoreError as error:
            raise TokenStoreError(self.place, reason, error.problem, self.remedy) from error
        except NoStateFolder:
            raise
        except FileExposed as error:
            what = "folder" if os.path.isdir(error.filename) else "file"
            problem = f"other users can {'write' if error.what == 'written' else 'read'} this {what}"
            step = f"protect it: {error.remedy}; sign in again if anyone did"
            raise TokenStoreError(error.filename, "exposed", problem, step) from error
        except Foreign as error:
            problem = "it belongs to another user"
            raise TokenStoreError(error.filename, "exposed", problem, ELSEWHERE) from error
        except OSError as error:
            verb = "read" if reason == "unreadable" else "written"
            problem = f"it cannot be {verb} ({error.strerror or type(error).__name__})"
            step = f"check the permissions of the file and its folder, or {ELSEWHERE}"
            raise TokenStoreError(self.place_of(key), reason, problem, step) from error


def _name(key: str) -> str:
    return sha256(key.encode(errors="surrogateescape")).hexdigest()


def _forms(prefix: str) -> dict[str, FileForm]:
    token = FileForm(path=f"{prefix}{{name:.32}}.json", is_secret=True)  # half of the digest is enough
    return {_TOKEN: token, "lock": FileForm(path=f"{prefix}locks/{{name}}")}


def values_in(path: Path) -> PrivateValues:
    """The files for tokens in a folder that the user chose."""
    folder = PrivateFolder(path.absolute())
    return PrivateValues(lambda: folder, _forms(""))


def values_of_user() -> PrivateValues:
    """The files for tokens in the user's state folder."""
    return PrivateValues(state_folder, _forms("tokens/"))


class TokenLocks:
    """Exclusive use of names, among those who share tokens.

    Locks are among the first of some values that can be locked; if there are none, in this process only.
    """

    def __init__(self, places: Sequence[Values]) -> None:
        self._places = places
        self._has_warned = False

    @asynccontextmanager
    async def hold(self, name: str, place: str, seconds: float) -> AsyncGenerator[None]:
        """Hold the lock of that name; TokenStoreError about `place` if it is not free in time."""
        async with AsyncExitStack() as stack:
            try:
                await self._enter(stack, name, seconds)
            except LockBusy as busy:
                raise TokenStoreError(place, busy.reason, busy.problem, busy.step) from None
            except StoreError as error:
                raise TokenStoreError(place, "unavailable", error.problem, "check the database") from error
            yield

    async def _enter(self, stack: AsyncExitStack, name: str, seconds: float) -> None:
        problem = ""
        for values in self._places:
            try:
                await stack.enter_async_context(values.hold(name, seconds))
            except OSError as error:
                problem = error.strerror or type(error).__name__
            else:
                return
        if self._places and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "tokens are not locked against other processes (%s); two that renew the same login at once "
                "may have to sign in again",
                problem,
            )
        await stack.enter_async_context(hold_in_process(name, seconds))
