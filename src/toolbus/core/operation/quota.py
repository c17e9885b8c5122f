"""The one rule for all that clients share: nobody holds more than is left.

A single client gets half, n clients get an (n+1)th each, and the next client always gets a slot. Nobody has
to give one up: if nine clients take all they can of 1,000 slots, some are left for a tenth.
"""

from collections.abc import Hashable
from math import ceil

from toolbus.core.text.display import duration
from toolbus.core.values.errors import CallDenied

__all__ = ["OverQuota"]


class OverQuota(CallDenied):
    """A quota has no call left, or its calls cannot be counted: nothing was sent.

    `retry_after` is when to try again, in whole seconds. `limit` is the one that is used up, such as
    `per_day`, or `uncounted`.
    Fix: try again after `retry_after` seconds, or raise the limit.
    """

    def __init__(self, what: str, reason: str, rule: str, *, limit: str, retry_after: float) -> None:
        self.limit, self.retry_after = limit, ceil(retry_after)
        again = f"{self.retry_after} s" if retry_after < 60 else duration(retry_after)
        super().__init__(what, f"{reason}; try again in {again}", rule)


class Quota:
    """Slots that several owners share; or bytes, if they take more than one at a time."""

    def __init__(self, most: int, each: int | None = None) -> None:
        """`most` slots in all, of which one owner gets at most `each`."""
        self.most = most
        self._each = most if each is None else each
        self._held: dict[Hashable, int] = {}
        self.taken = 0
        """The slots of all owners."""

    @property
    def free(self) -> int:
        """The slots that nobody has; below 0 if more were added than there are."""
        return self.most - self.taken

    def held(self, owner: Hashable) -> int:
        return self._held.get(owner, 0)

    def take(self, owner: Hashable, amount: int = 1) -> bool:
        """Take slots; False if the owner would then hold more than were left, or too many."""
        if self.held(owner) + amount > min(self.free, self._each):
            return False
        self.add(owner, amount)
        return True

    def add(self, owner: Hashable, amount: int = 1) -> None:
        """Count slots of an owner, even if they are too many."""
        self._set(owner, self.held(owner) + amount)

    def release(self, owner: Hashable, amount: int = 1) -> None:
        self._set(owner, self.held(owner) - amount)

    def _set(self, owner: Hashable, held: int) -> None:
        assert held >= 0, "more was given back than taken"
        self.taken += held - self.held(owner)
        if held:
            self._held[owner] = held
        else:
            self._held.pop(owner, None)
