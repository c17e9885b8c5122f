"""Who a client of the gateway is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """One who may use the gateway: the holder of a key or of a token, or whoever started it."""

    name: str
    """What the audit trail calls it; unique among the principals of a gateway."""
    user: str = ""
    """The user whose logins and secrets its calls use (`bus.as_user`); empty for those of the bus."""
    view: str = "default"
    """The view of the config that it gets."""
    expires: float | None = None
    """When its key or token expires, as seconds since the epoch."""

    def is_like(self, other: "Principal") -> bool:
        """Whether it is the same one and gets the same; a new token may expire at another time."""
        return (self.name, self.user, self.view) == (other.name, other.user, other.view)


LOCAL = Principal(name="local")
"""Whoever started the gateway: its client over stdio, and clients on this machine without authentication."""
