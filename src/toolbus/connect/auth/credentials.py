"""What an HTTP transport needs to authorize its requests, and on whose behalf; without an HTTP library."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote_to_bytes, urlsplit

from toolbus.config import Resolved, Secrets
from toolbus.state.tokens.tokens import TokenSource, open_tokens


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HttpRefusal:
    """A response with status 401 or 403."""

    status: int
    url: str
    headers: Mapping[str, str]
    """Of the response, by name in lower case."""
    sent: Mapping[str, str]
    """The credentials that the request had."""
    earlier: int
    """How often this request was refused before."""


class Credentials(Protocol):
    """Asked before every request to one server, and again if the server refuses it."""

    def headers(self, method: str, url: str) -> Mapping[str, str] | None:
        """The headers to add to the next request, by name in lower case; None to await `renew` first."""
        ...

    async def renew(self) -> None:
        """Load credentials, or renew those that have expired."""
        ...

    async def refused(self, refusal: HttpRefusal) -> bool:
        """Handle a refusal; returns whether to send the request again, with new `headers()`."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class StaticHeaders:
    """The same headers for every request."""

    values: Mapping[str, str]

    def headers(self, method: str, url: str) -> Mapping[str, str]:
        return self.values

    async def renew(self) -> None:
        """They do not expire."""

    async def refused(self, refusal: HttpRefusal) -> bool:
        return False


def static_headers(values: Resolved) -> dict[str, str]:
    """The headers of the config, by name in lower case, and the user and password in the URL."""
    headers = {name.lower(): value for name, value in values.headers.items()}
    userinfo, _, _ = urlsplit(values.url or "").netloc.rpartition("@")
    if userinfo:
        headers.setdefault("authorization", f"Basic {base64.b64encode(unquote_to_bytes(userinfo)).decode()}")
    return headers


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LinkOwner:
    """Whose secrets and tokens a link uses."""

    secrets: Secrets = field(default_factory=Secrets)
    tokens: TokenSource = field(default_factory=lambda: open_tokens("memory"))
    user: str = ""
    """Empty for the user of the bus itself."""
