"""One login: the tokens of one user for one server, and all that is needed to renew them."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Login:
    """The tokens of one user for one server, from one authorization server."""

    issuer: str
    resource: str
    """The server."""
    user: str = ""
    client: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The client that the tokens were issued to, as registered (RFC 7591)."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The metadata of the authorization server (RFC 8414), so that a renewal needs no discovery."""
    audience: str | None = None
    """The `resource` parameter of requests for tokens; None for none."""
    access: str = ""
    """The access token; empty if only the registration of the client is known."""
    type: str = "Bearer"
    scope: str | None = None
    expires_at: float | None = None
    renewed_at: float = 0.0
    refresh: str | None = None
    jwk: Mapping[str, str] | None = None
    """The private key that the tokens are bound to (DPoP)."""

    @property
    def expires_in(self) -> float | None:
        """Seconds until the access token expires; None if that is unknown."""
        return None if self.expires_at is None else self.expires_at - time.time()

    def __repr__(self) -> str:
        return f"Login(issuer={self.issuer!r}, resource={self.resource!r}, user={self.user!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a login is not pickled: it contains tokens")

    def to_json(self) -> str:
        """The record as it is stored."""
        return json.dumps({"v": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> "Login":
        """The record as it was stored; ValueError if it is not one, or of a newer version."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.pop("v", None) != VERSION:
            raise ValueError("not a login of this version")
        try:
            login = cls(**data)
        except TypeError as error:
            raise ValueError("not a login of this version") from error
        return login
