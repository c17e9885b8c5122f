"""Replace the key of a store: find the key of each value, and encrypt all values with the first key."""

import logging
from collections import Counter
from dataclasses import dataclass, field

from toolbus.core.text.display import counted
from toolbus.core.values.errors import StoreError
from toolbus.state.store.cipher import VARIABLE, Undecipherable
from toolbus.state.store.store import Store

logger = logging.getLogger("toolbus")


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
