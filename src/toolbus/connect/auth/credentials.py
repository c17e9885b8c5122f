"""What an HTTP transport needs to know to authorize its requests, without types of an HTTP library."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


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
