"""The seam to where tokens are kept: three methods, and how they are called.

No call blocks the loop, and each is bounded. An exception of a store becomes a TokenStoreError that quotes
nothing: the text of a foreign exception may contain a token.
"""

import asyncio
import inspect
from collections.abc import Awaitable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from toolbus.core.text.display import in_seconds
from toolbus.core.values.errors import TokenProblem, TokenStoreError
from toolbus.state.thread import in_thread


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


class CustomStore:
    """A store of the user, described."""

    remedy = "check the store"

    def __init__(self, store: TokenStore) -> None:
        self.load, self.save, self.remove = store.load, store.save, store.remove
        self.place = type(store).__name__

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
