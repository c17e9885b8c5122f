"""An HTTP request before it is admitted, the holder of its credential, and the response that refuses it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from toolbus.core.fast_init import with_fast_init
from toolbus.core.values.records import JSONObject
from toolbus.gateway.protocol.principal import HolderKind, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialHolder:
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
    """The SHA-256 of the key, or the grant of a sign-in; empty for a token of another issuer."""
    subject: str = field(default="", repr=False)
    """The digest of what its token grants, if it may be exchanged for another one."""

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.kind} {self.name!r}"


class CredentialDenied(Exception):
    """A credential is not accepted. The reason never quotes it."""

    def __init__(self, reason: str, *, is_guess: bool = True) -> None:
        """`is_guess` is false for a credential that was valid once: nobody has guessed it."""
        self.reason = reason
        self.is_guess = is_guess
        super().__init__(reason)


class CredentialUndecided(Exception):
    """Whether a credential is valid is not known now: the authorization server does not respond."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """The head of an HTTP request, as it came over the wire."""

    method: str
    path: str
    """The path, without the query."""
    headers: Mapping[str, str] = field(repr=False)
    """The headers by lowercase name. Values of a repeated header are joined by `, `, so none is overlooked.
    """
    address: str
    """The IP address of the peer; empty if it has none, as over a Unix socket."""
    scheme: str = "http"
    """`http` or `https`, of the connection to us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The response to a request that is not let in."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The headers, without content-length."""
    body: bytes = b""

    @classmethod
    def of(
        cls, status: int, error: str, description: str, headers: Mapping[str, str] | None = None
    ) -> "Refusal":
        """A refusal with a JSON body, as OAuth's errors have it: `error` and `error_description`."""
        body = json.dumps({"error": error, "error_description": description}).encode()
        return cls(status=status, headers={"content-type": "application/json", **(headers or {})}, body=body)


class Admission(Protocol):
    """Decides on the requests of an HTTP front."""

    async def admit(self, facts: RequestFacts) -> Principal | Refusal:
        """The sender of a request to the MCP path; also checks host and origin."""
        ...

    def check(self, facts: RequestFacts) -> Refusal | None:
        """Only host and origin, for what anyone may read: health, metadata, a preflight."""
        ...

    def is_current(self, principal: Principal, *, answers: bool = False) -> bool:
        """Whether it would still be admitted; asked before each event, so it must not wait.

        A token may expire before the answer to a request that it was sent with: `answers`.
        """
        ...

    def has_revoked(self, principal: Principal) -> bool:
        """Whether its key was revoked or has expired: then its open requests are ended."""
        ...

    def metadata(self, facts: RequestFacts) -> JSONObject | None:
        """The body for a path below `/.well-known/oauth-protected-resource`; None if there is none (404)."""
        ...

    def url(self, facts: RequestFacts, name: str = "") -> str:
        """The URL of the MCP endpoint, or of the view or server with that name below it."""
        ...

    def address(self, facts: RequestFacts) -> str:
        """The IP address of the client, also behind a trusted proxy; empty if it has none."""
        ...

    def cors(self, facts: RequestFacts) -> Mapping[str, str]:
        """Headers of every response to a web page of a permitted origin; empty for other clients."""
        ...
