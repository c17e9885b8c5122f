"""One login: the tokens of one user for one server, and all that is needed to renew them."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

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
        return f"Login(issuer={self.issuer!r}, resource={shown_url(self.resource)!r}, user={self.user!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a login is not pickled: it contains tokens")

    def to_json(self) -> str:
        """The record as it is stored."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return json.dumps({"v": VERSION, **{name: _plain(value) for name, value in values.items()}})

    @classmethod
    def from_json(cls, text: str) -> "Login":
        """The record as it was stored; NewerRecord if it is of a newer version, ValueError if damaged."""
        data = read_record(text)
        if not data.keys() <= {one.name for one in fields(cls)}:
            raise NewerRecord("a login with unknown fields")
        if not {"issuer", "resource"} <= data.keys() or not all(map(_fits, data, data.values())):
            raise ValueError("not a login")
        return cls(**data)


class NewerRecord(ValueError):
    """A record was written by a newer version of toolbus."""


def read_record(text: str) -> dict[str, Any]:
    """The content of a stored record; NewerRecord or ValueError as above, without the text in them."""
    try:
        text.encode()
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    # Not inside the handler: those errors hold the text.
    if not isinstance(found, dict):
        raise ValueError("not a record")
    data: dict[str, Any] = {**found}
    version = data.pop("v", None)
    if isinstance(version, int) and version > VERSION:
        raise NewerRecord("a record of a newer version")
    if version != VERSION:
        raise ValueError("not a record of a known version")
    return data


def shown_url(url: str) -> str:
    """The URL for messages, without user info and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "***"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


_TEXTS = {"issuer", "resource", "user", "access", "type"}
_MAPPINGS = {"client", "metadata"}


def _fits(name: str, value: Any) -> bool:
    """Whether a field may have this value."""
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _MAPPINGS:
        return isinstance(value, dict)
    if name == "renewed_at":
        return isinstance(value, int | float)
    return value is None or isinstance(value, {"expires_at": int | float, "jwk": dict}.get(name, str))


def _plain(value: Any) -> Any:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value
