"""Whether a request has left this process, for a caller who is released from a lost connection meanwhile."""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Delivery:
    """One request on its way to the server."""

    held: bool | None = None
    """True until its first byte that counts is written; None if the transport does not tell."""

    @property
    def may_have_arrived(self) -> bool:
        """Whether the server may have seen it."""
        return self.held is not True


DELIVERY: ContextVar[Delivery | None] = ContextVar("toolbus_delivery", default=None)
"""The request that this task sends."""
