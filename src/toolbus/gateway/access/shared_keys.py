"""The keys that let clients in, in the store that the replicas of a gateway share.

A running gateway reads them from a copy in memory: a request does not wait for the database, and a key that
is revoked anywhere is refused everywhere within seconds.
"""

import json
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict

from toolbus.gateway.access.stored_keys import KeyExists, StoredKey, hour_of, new_key, read_key
from toolbus.state.store.mirror import Mirror
from toolbus.state.store.store import Store

KEY = "key"
_USE = "key use"
STALE_SECONDS = 300.0
"""How long the copy is used while the store does not respond: a key may be revoked in the meantime."""


class SharedKeys:
    """The keys in a store; methods raise StoreError if it cannot be used."""

    def __init__(self, store: Store, mirror: Mirror | None = None) -> None:
        """With a `mirror` of the keys, reading them does not wait."""
        self._store = store
        self._mirror = mirror
        self.now = store.now
        """The time that decides whether a key has expired: the same for all replicas."""

    @property
    def version(self) -> object:
        """Differs whenever the keys have changed."""
        return None if self._mirror is None else self._mirror.version

    @property
    def is_current(self) -> bool:
        """Whether it is known which keys are valid."""
        return self._mirror is None or self._mirror.age < STALE_SECONDS

    def all(self) -> list[StoredKey]:
        """The keys, the oldest first; also expired ones."""
        values = self._store.wait(self._store.items(KEY)) if self._mirror is None else self._mirror.values
        found = [key for value in values.values() if (key := _read(value)) is not None]
        return sorted(found, key=lambda key: key.created)

    def add(
        self, name: str, *, views: Sequence[str] = (), user: str = "", expires: float | None = None
    ) -> tuple[str, StoredKey]:
        """Make a key, and return it: it cannot be shown again. `KeyExists` if the name is taken."""
        key, made = new_key(name, views, user, self.now(), expires)
        value = json.dumps(asdict(made)).encode()
        if not self._store.wait(self._changed(self._store.add(KEY, name, value))):
            raise KeyExists(name)
        return key, made

    def revoke(self, name: str) -> bool:
        """Delete a key; returns whether there was one."""
        return self._store.wait(self._changed(self._store.remove(KEY, name)))

    async def _changed(self, change: Awaitable[bool]) -> bool:
        done = await change
        if self._mirror is not None:
            await self._mirror.look()
        return done

    def used(self) -> dict[str, float]:
        """When each key was last used, to the hour, by the digest of the key."""
        found: dict[str, float] = {}
        for digest, hour in self._store.wait(self._store.items(_USE)).items():
            with suppress(ValueError):
                found[digest] = float(hour)
        return found

    def record_use(self, used: Mapping[str, float]) -> None:
        """Record when keys were used."""
        self._store.wait(self._record_use(used))

    async def _record_use(self, used: Mapping[str, float]) -> None:
        read = map(_read, (await self._store.items(KEY)).values())
        known = {key.digest: key for key in read if key is not None}
        before = await self._store.items(_USE)
        for digest, when in used.items():
            key = known.get(digest)
            hour = str(hour_of(when, key)).encode()
            if key is not None and before.get(digest) != hour:
                await self._store.put(_USE, digest, hour)
        for digest in before.keys() - known.keys():
            await self._store.remove(_USE, digest)


def _read(value: bytes) -> StoredKey | None:
    """The key; None if it is not one that this version knows, which then lets nobody in."""
    try:
        return read_key(json.loads(value))
    except (KeyError, TypeError, ValueError):
        return None
