"""What an HTTP transport needs to know to authorize its requests, without types of an HTTP library."""

from collections.abc import Mapping
from typing import Protocol


class Credentials(Protocol):
    """Asked before every request to one server, and again if the server refuses it."""

    async def headers(self) -> Mapping[str, str]:
        """The headers to add to the next request."""
        ...

    async def refused(self, status: int, headers: Mapping[str, str]) -> bool:
        """Handle a response with status 401 or 403; returns whether to retry once, with new `headers()`.

        The names of the response headers are in lower case.
        """
        ...
