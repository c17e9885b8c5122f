"""The listener of a replica for the other ones: it takes only requests that one of them passed on."""

from collections.abc import Callable
from dataclasses import replace

from toolbus.gateway.http.app import App
from toolbus.gateway.http.limits import Limits, Refusals
from toolbus.gateway.http.request import HttpRequest
from toolbus.gateway.replicas.relay import HEADER, relayed
from toolbus.gateway.replicas.replicas import Replicas

_MOST = 4096
"""Connections of other replicas, in all and of each."""


class ReplicaFront:
    """Answers requests that other replicas took, as the app would answer its own."""

    def __init__(self, app: App, replicas: Replicas) -> None:
        self._app = app
        self._replicas = replicas
        given = app.limits
        self.limits = Limits(
            head_bytes=2 * given.head_bytes,  # a header of ours comes with those of the client
            body_bytes=given.body_bytes,
            connections=_MOST,
            connections_per_address=_MOST,
        )
        self.refusals = Refusals(app.metrics)
        self.connections: Callable[[], int] = lambda: 0
        """How many connections are open; set by whoever runs it."""

    @property
    def in_flight(self) -> int:
        """How many requests are being answered."""
        return self._app.in_flight

    async def serve(self, http: HttpRequest) -> None:
        """Answer one request."""
        found = relayed(self._replicas.seal, self._replicas.id, http.headers.get(HEADER, ""))
        if found is None:  # of nobody, or for the replica that had this address before
            return await http.respond(421 if HEADER in http.headers else 404)
        http.facts = replace(http.facts, address=found.address, scheme=found.scheme)
        return await self._app.serve_relayed(http, found.principal, found.body)

    async def idle(self) -> None:
        """Wait until no request is in flight."""
        await self._app.idle()

    def tick(self) -> None:
        """Nothing: the app does it."""

    def drain(self) -> None:
        """Nothing: what others still pass on is about requests in flight, or refused by the app."""
