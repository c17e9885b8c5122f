"""What counts once, for all who use a store: approvals that clients carry."""

import secrets

from toolbus.state.store.error import StoreError
from toolbus.state.store.store import Store

_KIND = "used"
_LEEWAY = 3600.0
"""Seconds for which the use is remembered after the approval has expired."""


class SharedSpent:
    """Approvals that were used: of several replicas that use one, only one can."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def issue(self, seconds: float) -> str:
        """The name of an approval that can be used once, within so many seconds."""
        return f"{int(seconds) + 1}-{secrets.token_hex(16)}"

    async def use(self, approval: str) -> bool:
        """Use an approval; False if it was used before. OSError if its use cannot be recorded."""
        seconds = approval.partition("-")[0]
        try:
            lasts = float(seconds) + _LEEWAY if seconds.isdecimal() else None
            return await self._store.add(_KIND, approval, seconds=lasts)
        except StoreError as error:
            raise OSError(error.problem) from error
