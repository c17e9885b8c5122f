"""A client's request for access, and the answer of a person.

This is all that the pages for people know of the authorization server. A client sends a person's browser to
`/authorize`, and from there it goes to `SIGN_IN` with the sealed request as `REQUEST`. The pages find out who
the person is, show the request, and end with `approve` or `refuse`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from toolbus.config.settings.auth import is_loopback

SIGN_IN = "/sign-in"
"""The path of the pages for people; theirs are also all paths below it."""
REQUEST = "request"
"""The parameter of its URL with the sealed request."""
WAITING_SECONDS = 600.0
"""Seconds for which a request waits for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Someone who has proved who they are."""

    name: str
    """Unique among all people, however they sign in."""
    user: str
    """The user whose logins and secrets the calls use; empty: the logins of the bus itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequest:
    """A client's request for access, which waits for a person."""

    id: str
    """Random; differs for each request."""
    client_id: str
    client_name: str
    """The name that the client gives itself. Nobody has verified it."""
    client_host: str
    """The host that publishes the client's metadata; empty for a client that registered itself."""
    redirect_uri: str
    """The URL that the browser is sent to in the end; registered by the client."""
    resource: str
    """The URL that the tokens are for: of the MCP endpoint, or of one view."""
    scopes: tuple[str, ...]
    """The scopes that the client asks for; each gives one of the views."""
    views: tuple[str, ...]
    """The views that it asks for; a person may allow some of them only."""
    state: str | None
    code_challenge: str
    expires: float

    @property
    def redirect_host(self) -> str:
        """The host, with the port, that the browser is sent to; the scheme for an app on this machine."""
        parts = urlsplit(self.redirect_uri)
        return parts.netloc.rpartition("@")[2] or f"{parts.scheme}:"

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the redirect goes to a program on the person's own machine."""
        parts = urlsplit(self.redirect_uri)
        return parts.scheme not in ("http", "https") or is_loopback(parts.hostname or "")


class AuthorizationRequests(Protocol):
    """The requests of clients that wait for a person."""

    async def open(self) -> None:
        """Read the keys; OSError, ValueError or StoreError if that is not possible."""
        ...

    def waiting(self, sealed: str) -> WaitingRequest | None:
        """The request in the parameter `REQUEST`; None if it is not ours or has expired."""
        ...

    async def approve(self, waiting: WaitingRequest, person: Person, views: Sequence[str]) -> str:
        """Give the client access in the name of a person; returns the URL to redirect the browser to.

        `views` are some of those that it asks for; the first is what it gets at the gateway's own URL.
        ValueError if they are not. StoreError or OSError if the grant cannot be stored.
        """
        ...

    def refuse(self, waiting: WaitingRequest) -> str:
        """Tell the client that the person refuses; returns the URL to redirect the browser to."""
        ...
