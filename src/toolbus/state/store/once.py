"""Values that clients carry for all users of a store: sealed with one key, and used once."""

import os
import secrets
from dataclasses import dataclass

from toolbus.core.values.errors import StoreError
from toolbus.state.seal import KEY_BYTES, Seal
from toolbus.state.store.store import Store

_KIND = "used"
_SEAL = ("seal", "key")
_LEEWAY = 86_400.0
"""Seconds for which the use is remembered after the approval has expired: clocks may differ."""


class SharedSpent:
    """Approvals that were used: of several replicas that use one, only one can."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def issue(self, seconds: float) -> str:
        """The name of an approval that can be used once, within this many seconds."""
        return f"{int(self._store.now() + seconds) + 1}-{secrets.token_hex(16)}"

    async def use(self, approval: str) -> bool:
        """Use an approval; False if it was used before. OSError if its use cannot be recorded."""
        expires = approval.partition("-")[0]
        left = float(expires) - self._store.now() if expires.isdecimal() else 0.0
        try:
            return await self._store.add(_KIND, approval, seconds=max(left, 0.0) + _LEEWAY)
        except StoreError as error:
            raise OSError(error.problem) from error


@dataclass(frozen=True, slots=True)
class SharedOnce:
    """A seal, and the sealed values that were used."""

    seal: Seal
    spent: SharedSpent


async def shared_seal(store: Store) -> Seal:
    """The seal of all users of a store; the first user creates its key. Its clock is the store's."""
    await store.add(*_SEAL, os.urandom(KEY_BYTES))
    key = await store.get(*_SEAL)
    assert key is not None, "it was added"
    return Seal(key, store.now)
