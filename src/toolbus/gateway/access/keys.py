"""The keys of a running gateway: looked up in memory, and read again when their file changes."""

import asyncio
import logging
import time
from collections.abc import Callable
from hmac import compare_digest

from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.access.identity import CannotTell, Denied, Identity
from toolbus.gateway.access.shared_keys import SharedKeys
from toolbus.gateway.access.stored_keys import StoredKey, StoredKeys, digest_of_key, hour_of
from toolbus.gateway.protocol.principal import Principal

logger = logging.getLogger("toolbus")

LOOK_SECONDS = 1.0
"""How often the file is looked at, at most; a key that is revoked is refused after that."""


class Keys:
    """Finds keys. A file that cannot be used lets nobody in."""

    def __init__(
        self,
        stored: StoredKeys | SharedKeys,
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

    def identity(self, key: str) -> Identity:
        """Who holds the key; `Denied` if it is unknown, revoked or expired. In a running loop only.

        `CannotTell` if the store of the keys does not respond.
        """
        if not self.is_current:
            raise CannotTell("the store of the keys does not respond")
        self._look()
        digest = digest_of_key(key)
        found = self._keys.get(digest)
        if found is None or not compare_digest(found.digest, digest):
            raise Denied("unknown key")
        if found.expires is not None and self._now() >= found.expires:
            raise Denied(f"the key {found.name!r} has expired")
        if self._used.get(digest) != (hour := hour_of(self._now())):
            self._used[digest] = hour
            self._record_use()
        return Identity(
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
        return self._stored.is_current

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
