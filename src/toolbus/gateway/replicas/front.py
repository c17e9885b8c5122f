"""The listener of a replica for the other ones: it accepts only requests that another replica forwarded."""

from collections.abc import Callable
from hashlib import sha256

from toolbus.gateway.http.app import App
from toolbus.gateway.http.limits import HttpLimits, Refusals
from toolbus.gateway.http.request import HttpRequest, answer
from toolbus.gateway.replicas.relay import HEADER, MISDIRECTED, PROBE
from toolbus.gateway.replicas.replicas import Replicas

_MOST = 4096
"""Connections of other replicas, in all and of each."""


class ReplicaFront:
    """Answers requests that other replicas took, as the app would answer its own."""

    probes: frozenset[str] = frozenset()

    def __init__(self, app: App, replicas: Replicas) -> None:
        self._app = app
        self._replicas = replicas
        given = app.limits
        self.limits = HttpLimits(
            head_bytes=10 * given.head_bytes,  # those of the client are in one of ours, as base64 of JSON
            body_bytes=given.body_bytes,
            values=given.values,
            connections=_MOST,
            connections_per_address=_MOST,
        )
        self.refusals = Refusals(app.metrics)
        self.connections: Callable[[], int] = lambda: 0
        """The number of open connections; set by the server."""

    @property
    def in_flight(self) -> int:
        return self._app.in_flight

    async def serve(self, http: HttpRequest) -> None:
        await answer(http, self._serve(http))

    async def _serve(self, http: HttpRequest) -> None:
        found = self._replicas.arrivals.opened(http.headers.get(HEADER, ""))
        if found is None:  # of nobody, for the replica that had this address before, or sent again
            return await http.respond(MISDIRECTED if HEADER in http.headers else 404)
        if found.principal is None and found.facts.path == PROBE:
            return await http.respond(200)
        body = await http.body()
        if sha256(body).hexdigest() != found.body:
            return await http.respond(400)
        http.add_body(body)
        http.facts, http.headers, http.query = found.facts, dict(found.facts.headers), found.query
        http.patience = found.patience
        return await self._app.serve_relayed(http, found.principal)

    async def idle(self) -> None:
        await self._app.idle()

    def tick(self) -> None:
        """Nothing: the app does it."""

    def drain(self) -> None:
        """Nothing: what others still pass on is about requests in flight, or refused by the app."""
