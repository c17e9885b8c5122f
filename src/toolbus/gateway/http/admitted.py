"""The requests in flight, and the keys in use: what ends when a key or a token is not valid any more.

Each event is checked before it is written (`HttpRequest`). What sends nothing is looked at once a second.
"""

import asyncio

from toolbus.gateway.access.admission import Access, Refusal
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.request import HttpRequest
from toolbus.gateway.protocol.principal import Principal

ASK_EVERY = 5
"""Ticks after which the tokens of open requests are checked again, as those of new ones are."""


class Admitted:
    """Those who were let in, until they are not any more."""

    def __init__(self, access: Access, gateway: Gateway) -> None:
        self._access = access
        self._gateway = gateway
        self._requests: set[HttpRequest] = set()
        self._keys: dict[tuple[str, str], Principal] = {}
        """The holders of keys that were used, by key and view."""
        self._ticks = 0
        self._asking: asyncio.Task[None] | None = None

    def begin(self, http: HttpRequest) -> None:
        """A request was let in."""
        self._requests.add(http)
        principal = http.principal
        if principal.key:
            self._keys[principal.key, principal.view] = principal

    def end(self, http: HttpRequest) -> None:
        """A request is over."""
        self._requests.discard(http)

    def tick(self) -> None:
        """Call it every second."""
        for http in tuple(self._requests):
            if not http.is_abandoned and not http.is_still_admitted:
                http.dismiss()
        for place, principal in tuple(self._keys.items()):
            if self._access.has_revoked(principal):
                del self._keys[place]
                self._gateway.dismiss(principal)
        self._ticks += 1
        if self._ticks % ASK_EVERY == 0 and (self._asking is None or self._asking.done()):
            self._asking = asyncio.get_running_loop().create_task(self._check_tokens(), name="toolbus tokens")

    async def _check_tokens(self) -> None:
        """End the requests whose tokens would be refused; each token is checked once."""
        by_token: dict[str, list[HttpRequest]] = {}
        for http in self._requests:
            token = "" if http.principal.key else http.headers.get("authorization", "")
            # One that has expired need not be asked about: `is_still_admitted` knows what that means.
            if token and self._access.is_current(http.principal):
                by_token.setdefault(token, []).append(http)
        for requests in by_token.values():
            found = await self._access.admit(requests[0].facts)
            if isinstance(found, Refusal) and found.status in (401, 403):
                for http in requests:
                    if not http.is_abandoned:
                        http.dismiss()
