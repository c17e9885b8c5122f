"""Where a request is: whether it has left this process when the connection is lost, and was answered."""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Delivery:
    """One request on its way to the server."""

    unsent: bool | None = None
    """True until the transport begins to write its body; None if the transport does not track it."""
    is_answered: bool = False
    """Whether the answer is here, and only waits for the handlers of what was sent before it."""

    @property
    def may_have_arrived(self) -> bool:
        """Whether the server may have received it."""
        return self.unsent is not True


DELIVERY: ContextVar[Delivery | None] = ContextVar("toolbus_delivery", default=None)
"""The delivery of the request that this task sends."""
