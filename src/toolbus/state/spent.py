"""Records that may be used once, even after a restart: approvals of clients, and resumed scripts."""

import os
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from toolbus.state.files import PrivateFolder

_MOST = 1_000
"""Used approvals that are remembered; of more, those that expire first are forgotten."""


class UsedOnce(Protocol):
    """Remembers used records, for one process or for several."""

    def issue(self, seconds: float) -> str:
        """The name of an approval that can be used once, within this many seconds."""
        ...

    async def use(self, approval: str) -> bool:
        """Use an approval; False if it was used before. OSError if its use cannot be recorded."""
        ...


class Spent:
    """Approvals that were used, until they expire: in memory, or as empty files in a private folder.

    Files, because two gateways may serve one config: only one of two that use an approval creates its file.
    """

    def __init__(
        self, folder: PrivateFolder | None = None, name: str = "", now: Callable[[], float] = time.time
    ) -> None:
        """`name` is that of the folder for the files, within `folder`."""
        self._folder = folder
        self._name = name
        self._now = now
        self._used: set[str] = set()

    def issue(self, seconds: float) -> str:
        """The name of an approval that can be used once, within this many seconds."""
        return f"{int(self._now() + seconds) + 1}-{secrets.token_hex(16)}"

    async def use(self, approval: str) -> bool:
        """The same as `take`, for those who would wait for a store."""
        return self.take(approval)

    def take(self, approval: str) -> bool:
        """Use an approval; False if it was used before. OSError if its use cannot be recorded."""
        if self._folder is None:
            is_new = approval not in self._used
            self._used.add(approval)
            self._used.difference_update(self._to_forget(self._used))
            return is_new
        path = self._folder.make_folders(f"{self._name}/{approval}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        for old in self._to_forget(os.listdir(path.parent)):
            (path.parent / old).unlink(missing_ok=True)
        return True

    def _to_forget(self, names: Iterable[str]) -> list[str]:
        """The records that have expired or exceed the limit."""
        expiries = sorted((_expiry(name), name) for name in names)
        first_kept = len(expiries) - _MOST
        now = self._now()
        return [name for place, (expiry, name) in enumerate(expiries) if expiry < now or place < first_kept]


def _expiry(name: str) -> int:
    time_part = name.partition("-")[0]
    return int(time_part) if time_part.isdecimal() else 0  # nothing of ours
