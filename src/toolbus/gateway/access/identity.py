"""Who a credential belongs to, or why it is not accepted."""

from dataclasses import dataclass, field

from toolbus.gateway.protocol.principal import HolderKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The holder of a key or of a token."""

    kind: HolderKind
    name: str
    issuer: str = ""
    user: str = ""
    """The user whose logins and secrets its calls use."""
    views: tuple[str, ...]
    """The views that it may use; the first one is its own. Empty if its scopes give it none."""
    expires: float | None = None
    key: str = field(default="", repr=False)
    """The SHA-256 of the key; empty for a token."""

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"{self.kind} {self.name!r}"


class Denied(Exception):
    """A credential is not accepted. The reason never quotes it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class CannotTell(Exception):
    """Whether a credential is valid is not known now: the authorization server does not respond."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
