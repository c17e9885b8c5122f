"""The inputs that an HTTP transport needs to authorize its requests for a user; without an HTTP library."""

import asyncio
import base64
import time
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes, urlsplit

from toolbus.config import Resolved, Secrets, ServerConfig
from toolbus.config.settings.auth import forwarding_problem
from toolbus.state.tokens.tokens import Login, TokenSource, open_tokens


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
    """The number of earlier refusals of this request."""


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


def static_headers(values: Resolved, forwarded: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers of the config, by name in lower case, and the user and password in the URL.

    The `forwarded` headers of a client replace none of them.
    """
    headers = {**(forwarded or {}), **{name.lower(): value for name, value in values.headers.items()}}
    userinfo, _, _ = urlsplit(values.url or "").netloc.rpartition("@")
    if userinfo:
        headers.setdefault("authorization", f"Basic {base64.b64encode(unquote_to_bytes(userinfo)).decode()}")
    return headers


class SubjectToken:
    """The newest token of a client, and the tokens that were issued in exchange."""

    def __init__(self, value: str, expires: float | None = None) -> None:
        self.value = value
        self.expires = expires
        self.issued: dict[Hashable, Login] = {}
        """The tokens for servers, by what they were asked for."""
        self.locks: defaultdict[Hashable, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held during an exchange, so that one serves all who need it."""

    @property
    def has_expired(self) -> bool:
        return self.expires is not None and self.expires <= time.time()

    def renew(self, other: "SubjectToken") -> None:
        """Use the token of a newer request from now on; an older one replaces nothing."""
        if self.expires is None or other.expires is None or other.expires >= self.expires:
            self.value, self.expires = other.value, other.expires

    def __repr__(self) -> str:
        return "SubjectToken(***)"

    def __reduce__(self) -> Any:
        raise TypeError("a token is not pickled")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdentity:
    """The forwarded identity of a client. Equal ones share connections; their tokens are not compared."""

    subject: str = ""
    """The digest of what its token grants; empty without a token."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The forwarded headers, sorted, by name in lower case."""
    token: SubjectToken | None = field(default=None, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """A name that contains no part of it."""
        return sha256(repr((self.subject, self.headers)).encode()).hexdigest()

    def reaches(self, server: ServerConfig) -> bool:
        """Whether a server gets something of it."""
        exchanges = server.auth is not None and server.auth.type == "token_exchange"
        return (exchanges and bool(self.subject)) or bool(self.forwarded(server))

    def forwarded(self, server: ServerConfig) -> dict[str, str]:
        """The headers for a server."""
        return {name: value for name, value in self.headers if name in server.forward_headers}

    def json(self, *, with_token: bool) -> dict[str, Any]:
        """The identity as JSON, with its token only for another replica."""
        token = [self.token.value, self.token.expires] if with_token and self.token is not None else None
        return {"subject": self.subject, "headers": self.headers, "token": token}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "ClientIdentity":
        """The identity in its JSON."""
        token = stored["token"]
        return cls(
            subject=stored["subject"],
            headers=tuple((name, value) for name, value in stored["headers"]),
            token=None if token is None else SubjectToken(*token),
        )


MAX_HEADER = 1_000
"""Characters of a forwarded header."""
MAX_TOKEN = 16_384
_GIVEN = "given"


def header_problem(name: str, value: str) -> str | None:
    """The problem with the value of a header; a line break in it would begin another header."""
    if len(value) > MAX_HEADER:
        return f"the header {name} is longer than {MAX_HEADER:,} characters"
    if not (value.isascii() and value.isprintable()):
        return f"the header {name} may have printable ASCII characters only"
    return None


def given_identity(token: str | None, headers: Mapping[str, str]) -> ClientIdentity | None:
    """The identity that a program forwards for a user; ValueError if it cannot be sent."""
    if token is not None and not (0 < len(token) <= MAX_TOKEN and token.isascii() and token.isprintable()):
        raise ValueError(f"a token is a text of printable ASCII characters, at most {MAX_TOKEN:,}")
    for name, value in headers.items():
        if problem := forwarding_problem(name) or header_problem(name, value):
            raise ValueError(problem)
    if token is None and not headers:
        return None
    return ClientIdentity(
        subject="" if token is None else _GIVEN,
        headers=tuple(sorted({name.lower(): value for name, value in headers.items()}.items())),
        token=None if token is None else SubjectToken(token),
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LinkOwner:
    """The owner of the secrets and tokens that a link uses."""

    secrets: Secrets = field(default_factory=Secrets)
    tokens: TokenSource = field(default_factory=lambda: open_tokens("memory"))
    user: str = ""
    """Empty for the user of the bus itself."""
    passed: ClientIdentity | None = None
    """The forwarded identity of the client, if there is one."""

    def forwarded(self, server: ServerConfig) -> dict[str, str]:
        """The headers of the client for a server."""
        return {} if self.passed is None else self.passed.forwarded(server)
