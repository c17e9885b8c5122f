"""The HTTP front: paths, who is admitted, and which era a message belongs to."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import replace
from functools import partial
from random import shuffle
from typing import Protocol, TypeAlias

from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from toolbus.bus.inner import tenant_of
from toolbus.bus.view import View
from toolbus.config.settings.serve import Serve
from toolbus.connect.transports.wire.messages import UnreadableMessage, parsed_strictly
from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import JSONObject
from toolbus.gateway.access.admission import Admission, Refusal
from toolbus.gateway.access.control import AccessControl
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.legacy import LegacyFront
from toolbus.gateway.http.limits import LARGE_BODIES, HttpLimits, InFlight, Refusals
from toolbus.gateway.http.modern import ModernFront
from toolbus.gateway.http.request import (
    CONSOLE,
    ONE_MESSAGE,
    Headers,
    HttpRequest,
    NoRoom,
    accepted,
    answer,
    encoded_headers,
    has_envelope,
    is_json,
    kind_of,
)
from toolbus.gateway.http.workers import FIRST, Workers
from toolbus.gateway.metrics import OTHER, Metrics, merged
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.protocol.words import BUSY, INTERNAL_ERROR, WrongReplica
from toolbus.gateway.replicas.peers import ReplicaPeer
from toolbus.gateway.replicas.relay import MISDIRECTED
from toolbus.gateway.replicas.replicas import Replicas
from toolbus.gateway.rest.front import RestFront, RestPath
from toolbus.gateway.rest.problems import CallProblem, problem_answer, respond
from toolbus.state.store.store import Allowance

logger = logging.getLogger("toolbus")

WELL_KNOWN = "/.well-known/oauth-protected-resource"
_BELOW_CONSOLE = f"{CONSOLE}/"
Page: TypeAlias = Callable[[HttpRequest], Awaitable[None]]
_KINDS = {401: "unauthenticated", 403: "forbidden", 404: "not_found", 421: "misdirected", 429: "throttled"}
_JSON_TYPE = "application/json"
_EXPIRE_EVERY = 30
"""Ticks between two looks for idle sessions."""
_RETRY: Headers = ((b"retry-after", b"1"),)
_NO_STORE = "the database of this gateway does not respond; try again later"
_LEAVING = "this gateway is stopping; try again"
_MOVING = "the replica that has this session or call is not known; try again"
_METRICS_SECONDS = 5.0
"""The time limit for another worker's metrics."""
_TRIES = 4
"""The number of attempts to find a session or a call, which may move meanwhile."""


class PagesBeside(Protocol):
    """Pages that are served beside the MCP endpoint, for anyone who reaches the gateway by its name."""

    def covers(self, path: str) -> bool:
        """Whether a path is one of theirs."""
        ...

    async def serve(self, http: HttpRequest, access: Admission) -> None:
        """Answer a request; its host and origin were checked."""
        ...


class ConsolePages(Protocol):
    """The console that is served beside the gateway, at `CONSOLE` and below."""

    async def serve(self, http: HttpRequest) -> None: ...
    def drain(self) -> None: ...


class App:
    """Answers the HTTP requests to a gateway; an `HttpServer` runs it."""

    probes: frozenset[str] = frozenset(("/healthz", "/readyz"))

    def __init__(
        self,
        gateway: Gateway,
        access: Admission | None = None,
        limits: HttpLimits | None = None,
        *,
        path: str = "/mcp",
        console: ConsolePages | None = None,
        beside: Sequence[PagesBeside] = (),
        workers: Workers | None = None,
    ) -> None:
        """`path` is the path of the MCP endpoint. Without `access`, only local clients are admitted.

        `workers` are the processes that serve together with it; the first of them may have a console.
        """
        self.gateway = gateway
        self._path = path
        self._console = console
        self._beside = beside
        self.cards: PagesBeside | None = None
        """Server cards: they are below the endpoint, and check host and origin themselves."""
        self._workers = workers
        self._worker_pages = None
        if workers is not None and gateway.replicas is not None:
            self._worker_pages = WorkerPages(gateway.replicas, workers)
        self._ticks = 0
        self._below = f"{path}/"
        self.limits = limits or HttpLimits()
        self.metrics = Metrics()
        self.refusals = Refusals(self.metrics)
        self.is_draining = False
        self.is_leaving = False
        """Whether a load balancer should send no more requests, although they would be answered."""
        self.connections: Callable[[], int] = lambda: 0
        """The number of open connections; set by the server."""
        self._access: Admission = access or AccessControl(Serve())
        self._admitted = AdmittedClients(self._access, gateway)
        self._in_flight = InFlight(self.limits, self.metrics)
        self._modern = ModernFront(gateway, self.metrics, self.limits, self.refusals)
        self._legacy = LegacyFront(gateway, self.metrics, self.limits, self._in_flight)
        self._rest: RestFront | None = None
        self._pages: dict[str, Page] = {
            "/healthz": self._health,
            "/readyz": self._ready,
            "/metrics": self._metrics_page,
        }

    def offer_rest(self, public_url: Callable[[], str | None]) -> None:
        """Offer the REST API; `public_url` finds the URL of the gateway, if it is known."""
        parts = self.gateway, self.metrics, self.limits, self._in_flight
        self._rest = RestFront(*parts, self, public_url)

    async def serve(self, http: HttpRequest) -> None:
        """Answer one request."""
        await answer(http, self._serve(http))

    async def _serve(self, http: HttpRequest) -> None:
        path = http.facts.path
        if self.cards is not None and self.cards.covers(path):
            await self.cards.serve(http, self._access)
        elif path == self._path or path.startswith(self._below) or self._rest_path(http) is not None:
            await self._mcp(http)
        elif path == CONSOLE or path.startswith(_BELOW_CONSOLE):
            await self._console_page(http)
        elif (page := self._page(path)) is None:
            await self._page_beside(http)
        elif http.facts.method not in ("GET", "HEAD"):
            await http.respond(405, headers=((b"allow", b"GET, HEAD"),))
        else:
            await page(http)

    async def idle(self) -> None:
        """Wait until no request is in flight; nor a parked call, which would be lost for its client."""
        await self._in_flight.wait_for_none()
        replicas = self.gateway.replicas
        if replicas is not None and not replicas.end_together:
            await self.gateway.wait_for_parked()

    def tick(self) -> None:
        self._modern.tick()
        self._admitted.tick()
        self._ticks += 1
        if self._ticks % _EXPIRE_EVERY == 0:
            self.gateway.sessions.end_idle()
            if self.gateway.replicas is not None:
                self.gateway.replicas.keep_sessions(self.gateway.sessions)

    @property
    def in_flight(self) -> int:
        return self.metrics.in_flight

    def drain(self) -> None:
        """Take no more requests; those in flight go on, streams without end are ended."""
        self.is_draining = True
        self._modern.end_streams()
        self._legacy.end_streams()
        self.gateway.drain()
        if self._console is not None:
            self._console.drain()

    def end_views(self, names: Container[str]) -> None:
        """End sessions that have one of these views, and streams without end: clients open others."""
        self._modern.end_streams()
        for session in self.gateway.sessions:
            if session.principal.view in names:
                self.gateway.sessions.close(session.id)

    def doubt(self) -> None:
        """The other replicas took this one for dead, and may have taken over what it has."""
        gateway = self.gateway
        assert gateway.replicas is not None, "there are others"
        gateway.doubt()
        gateway.replicas.find_moved(gateway.sessions, self._legacy.end_stream, gateway.check_tasks())

    # MCP

    async def _mcp(self, http: HttpRequest) -> None:
        facts, method = http.facts, http.facts.method
        if "origin" in http.headers:
            http.cors = encoded_headers(self._access.cors(facts))
            if method == "OPTIONS":
                return await self._preflight(http)
        if self._rest is not None and (place := self._rest_path(http)) is not None:
            # Clients of the view are admitted.
            http.is_rest = True
            http.admitted_by = replace(facts, path=f"{self._below}{place.view}" if place.view else self._path)
        admitted = await self._access.admit(http.admitted_by)
        if isinstance(admitted, Refusal):
            return await self._refuse(http, admitted)
        http.principal, http.access = admitted, self._access
        return await self._serve_admitted(http)

    async def serve_relayed(self, http: HttpRequest, principal: Principal | None) -> None:
        """Answer a request that another replica forwarded.

        It was admitted there, unless it has no principal: then it is for a page of this worker. The keys and
        the config of this replica are checked again, because that one may know less.
        """
        http.relayed = True
        if principal is None:
            is_metrics = http.facts.path == "/metrics"
            return await (self._metrics_page(http) if is_metrics else self._console_page(http))
        if not self._access.is_current(principal):
            return await self._refuse(http, Refusal.of(401, "invalid_token", "unknown key or token"))
        http.principal, http.access = principal, self._access
        return await self._serve_admitted(http)

    async def _serve_admitted(self, http: HttpRequest) -> None:
        self._admitted.begin(http)
        try:
            await self._admitted_mcp(http)
        finally:
            self._admitted.end(http)

    async def _admitted_mcp(self, http: HttpRequest) -> None:
        method = http.facts.method
        if self._rest is not None and self._rest_path(http) is not None:
            return await self._rest.serve(http)
        version = http.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        is_modern = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
        if method == "POST":
            return await self._post(http, is_modern=is_modern)
        if is_modern:
            return await http.respond(405, headers=((b"allow", b"POST"),))
        is_new = method == "GET" and "last-event-id" not in http.headers
        if is_new and self.is_draining and self.gateway.replicas is not None:
            return await self.leave_to_others(http, b"", None)
        if method == "GET":
            return await self.here_or_elsewhere(http, b"", None, partial(self._legacy.listen, http))
        if method == "DELETE":
            return await self.here_or_elsewhere(http, b"", None, partial(self._legacy.delete, http))
        return await http.respond(405, headers=((b"allow", b"GET, POST, DELETE"),))

    async def _preflight(self, http: HttpRequest) -> None:
        refusal = self._access.check(http.facts)
        if refusal is not None:
            return await self._refuse(http, refusal)
        if http.cors:
            return await http.respond(204)
        # A page of this machine, which the browser of anyone may show.
        reason = "web pages may use it only if serve.origins lists their origin"
        return await self._refuse(http, Refusal.of(403, "misdirected", reason))

    async def _refuse(self, http: HttpRequest, refusal: Refusal) -> None:
        """Send a refusal, which was logged where it was decided."""
        self.metrics.refused[_KINDS.get(refusal.status, OTHER)] += 1
        await (http.refuse(refusal) if self._rest_path(http) is None else RestFront.refuse(http, refusal))

    def _rest_path(self, http: HttpRequest) -> RestPath | None:
        """The REST endpoint of a request; None if it is about something else."""
        return None if self._rest is None else self._rest.place(http.facts.path)

    async def _asker(self, http: HttpRequest) -> Principal | Refusal:
        """The principal of a request for a page beside the MCP endpoint; its users may read it."""
        return await self._access.admit(replace(http.facts, path=self._path))

    async def _post(self, http: HttpRequest, *, is_modern: bool) -> None:
        has_json, has_events = accepted(http.headers.get("accept", ""))
        if not (has_json and has_events):
            return await _refuse_message(http, 406, f"send accept: {_JSON_TYPE}, text/event-stream")
        if not is_json(http.headers.get("content-type", "")):
            return await _refuse_message(http, 415, f"send content-type: {_JSON_TYPE}")
        status = self._in_flight.take(http.principal)
        if status:
            whose = "you have" if status == 429 else "the gateway has"
            return await self._busy(http, status, f"{whose} too many requests in flight", "max_in_flight")
        try:
            await self._message(http, is_modern=is_modern)
        except NoRoom:
            most = f"{LARGE_BODIES} times max_body"
            await self._busy(http, 429, f"too many large requests are in flight: {most} in all", "max_body")
        finally:
            self._in_flight.release(http)
        return None

    async def _busy(self, http: HttpRequest, status: int, reason: str, limit: str) -> None:
        reason = f"{reason} ({limit})"
        self.refusals.note("in_flight", http.facts.address, reason)
        await asyncio.sleep(self.limits.refusal_seconds)
        error = {"code": BUSY, "message": reason, "data": {"retryAfter": 1, "limit": limit}}
        await http.respond_error(status, error, headers=_RETRY)

    async def _message(self, http: HttpRequest, *, is_modern: bool) -> None:
        body = await http.body(self._in_flight.reserve)
        self._in_flight.note_size(http)
        try:
            message = parsed_strictly(body, self.limits.values)
        except (UnreadableMessage, ValueError) as error:
            reason = f": the body {error}" if isinstance(error, UnreadableMessage) else ""
            return await http.respond_error(400, {"code": PARSE_ERROR, "message": f"Parse error{reason}"})
        if http.reserved:
            await asyncio.sleep(0)  # to read it took a while, and so may the rest
        kind = kind_of(message)
        is_modern = is_modern or has_envelope(message)
        if kind is None or (kind == "response" and is_modern):
            return await _refuse_message(http, 400, f"the body must be {ONE_MESSAGE}")
        if kind == "request" and self.is_draining:
            return await self.leave_to_others(http, body, message["id"])
        if kind == "notification" and is_modern:
            return await self._modern.notified(http)
        if self.gateway.replicas is None:
            body = b""  # nobody else needs it
        request_id = message["id"] if kind == "request" else None
        if is_modern:
            work = partial(self._modern.serve, http, message)
        elif kind == "request" and message["method"] == "initialize":
            work = partial(self._legacy.initialize, http, message["id"], message.get("params"))
        else:
            work = partial(self._legacy.serve, http, message)
        return await self.here_or_elsewhere(http, body, request_id, work)

    # Other replicas

    async def here_or_elsewhere(
        self,
        http: HttpRequest,
        body: bytes,
        request_id: str | int | None,
        work: Callable[[], Awaitable[None]],
    ) -> None:
        """Answer a request, or have the replica answer it that has its session or its call."""
        replicas = self.gateway.replicas
        if replicas is None:
            return await work()
        waits = Allowance(replicas.store.patience if http.patience is None else http.patience)
        try:
            with waits.used():
                for _ in range(_TRIES):
                    try:
                        return await work()
                    except WrongReplica as elsewhere:
                        if http.relayed:
                            return await http.respond(MISDIRECTED)
                        if await replicas.passed_on(http, body, elsewhere.replica, request_id):
                            return None
                        http.avoid = (*http.avoid, elsewhere.replica)
        except StoreError as error:
            logger.warning("a request was not answered: %s", error)
            return await _refuse_for_now(http, request_id, _NO_STORE)
        return await _refuse_for_now(http, request_id, _MOVING)

    async def leave_to_others(self, http: HttpRequest, body: bytes, request_id: str | int | None) -> None:
        """This gateway ends: another replica answers the request, if there is one."""
        replicas = self.gateway.replicas
        if replicas is not None and http.relayed:
            return await http.respond(MISDIRECTED)
        if replicas is not None:
            others = replicas.peers.others
            shuffle(others)
            for peer in others:
                if await replicas.passed_on(http, body, peer.id, request_id):
                    return None
        http.keeps_alive = False
        if http.is_rest:
            return await _refuse_for_now(http, request_id, _LEAVING)
        return await http.respond(503, headers=_RETRY)

    # Other pages

    def _page(self, path: str) -> Page | None:
        if path == WELL_KNOWN or path.startswith(f"{WELL_KNOWN}/"):
            return self._metadata
        return self._pages.get(path)

    async def _page_beside(self, http: HttpRequest) -> None:
        found = next((pages for pages in self._beside if pages.covers(http.facts.path)), None)
        if found is None:
            return await http.respond(404)
        refusal = self._access.check(http.facts)
        if refusal is not None:
            return await self._refuse(http, refusal)
        return await found.serve(http, self._access)

    async def _health(self, http: HttpRequest) -> None:
        await http.respond_json(200, {"status": "ok"})

    async def _ready(self, http: HttpRequest) -> None:
        """Anyone learns whether; why, only who is admitted, and only of the servers of its view."""
        admitted = await self._asker(http)
        seen = () if isinstance(admitted, Refusal) else self.gateway.view(admitted).servers
        is_starting = self._workers is not None and not self._workers.all_started()
        is_ending = self.is_draining or self.is_leaving
        is_ready, details = readiness(self.gateway.bus, seen=seen, draining=is_ending, starting=is_starting)
        shown = {"ready": is_ready} if isinstance(admitted, Refusal) else details
        await http.respond_json(200 if is_ready else 503, shown)

    async def _metrics_page(self, http: HttpRequest) -> None:
        admitted = await self._asker(http)
        if isinstance(admitted, Refusal):
            return await self._refuse(http, admitted)
        gauges = {
            "sessions": len(self.gateway.sessions),
            "connections": self.connections(),
            "second_links": len(tenant_of(self.gateway.bus).engine.second_links),
        }
        seen = self.gateway.view(admitted).servers
        states = {alias: state for alias, state in self.gateway.bus.servers.items() if alias in seen}
        quotas = tenant_of(self.gateway.bus).engine.enforcement.quotas.totals
        text = self.metrics.text(states, gauges, self.gateway.queue, quotas)
        if self._worker_pages is not None and not http.relayed:
            text = await self._worker_pages.metrics(http, text)
        kind = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
        return await http.respond(200, text.encode(), (kind,))

    async def _console_page(self, http: HttpRequest) -> None:
        if self._console is not None:
            await self._console.serve(http)
        elif self._worker_pages is not None and not http.relayed:
            await self._worker_pages.console(http)
        else:
            await http.respond(404)

    async def _metadata(self, http: HttpRequest) -> None:
        refusal = self._access.check(http.facts)
        if refusal is not None:
            return await self._refuse(http, refusal)
        metadata = self._access.metadata(http.facts)
        if "origin" in http.headers:
            http.cors = encoded_headers(self._access.cors(http.facts))
        if metadata is None:
            return await http.respond(404)
        return await http.respond_json(200, metadata)


async def _refuse_for_now(http: HttpRequest, request_id: str | int | None, reason: str) -> None:
    if http.is_rest:
        return await respond(http, problem_answer(CallProblem(503, "unavailable", reason, retryAfter=1)))
    error: JSONObject = {"code": INTERNAL_ERROR, "message": reason, "data": {"retryAfter": 1}}
    return await http.respond_error(503, error, request_id, _RETRY)


async def _refuse_message(http: HttpRequest, status: int, reason: str) -> None:
    await http.respond_error(status, {"code": INVALID_REQUEST, "message": reason})


def readiness(
    bus: View, *, seen: Container[str] | None = None, draining: bool = False, starting: bool = False
) -> tuple[bool, JSONObject]:
    """Whether every required server and at least one server can be used, and the state of those `seen`.

    A lazy server is usable before its first call, because that call starts it.
    """
    config = bus.config.servers
    now = time.time()
    states = bus.servers
    servers: JSONObject = {}
    usable: set[str] = set()
    for alias, status in states.items():
        lazy = alias in config and config[alias].lazy
        if status.state == "ready" or (status.state == "idle" and lazy):
            usable.add(alias)
        if seen is not None and alias not in seen:
            continue
        servers[alias] = {
            "state": status.state,
            "reason": status.error,
            "seconds": round(max(0.0, now - status.since), 1),
            "restarts": status.restarts,
            "required": alias in config and config[alias].required,
        }
    missing = [
        alias for alias in states if alias not in usable and alias in config and config[alias].required
    ]
    if draining:
        reason = "the gateway is stopping"
    elif starting:
        reason = "not all workers have started"
    elif missing:
        named = [alias for alias in missing if seen is None or alias in seen]
        reason = f"required servers are not ready{': ' if named else ''}{', '.join(named)}"
    elif not usable:
        reason = "no server is ready"
    else:
        reason = None
    return reason is None, {"ready": reason is None, "reason": reason, "servers": servers}


ASK_EVERY = 5
"""Ticks after which the tokens of open requests are checked again, like the tokens of new requests."""


class AdmittedClients:
    """The admitted clients, until their access ends."""

    def __init__(self, access: Admission, gateway: Gateway) -> None:
        self._access = access
        self._gateway = gateway
        self._requests: set[HttpRequest] = set()
        self._keys: dict[tuple[str, str, str], Principal] = {}
        """The holders of keys that were used, by key, view and server."""
        self._ticks = 0
        self._asking: asyncio.Task[None] | None = None

    def begin(self, http: HttpRequest) -> None:
        self._requests.add(http)
        principal = http.principal
        if principal.key:
            self._keys[principal.key, principal.view, principal.server] = principal

    def end(self, http: HttpRequest) -> None:
        self._requests.discard(http)

    def tick(self) -> None:
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
            found = await self._access.admit(requests[0].admitted_by)
            if isinstance(found, Refusal) and found.status in (401, 403):
                for http in requests:
                    if not http.is_abandoned:
                        http.dismiss()


class WorkerPages:
    """The pages of the other workers."""

    def __init__(self, replicas: Replicas, workers: Workers) -> None:
        self._replicas = replicas
        self._workers = workers

    async def metrics(self, http: HttpRequest, own: str) -> str:
        """The metrics of all workers, of which this one has its `own`."""
        others = (await self._others()).items()
        pages = await asyncio.gather(*(self._page(http, peer) for _, peer in others))
        found = {number: page for (number, _), page in zip(others, pages, strict=True) if page is not None}
        return merged({**found, self._workers.number: own}, self._workers.count)

    async def console(self, http: HttpRequest) -> None:
        """Have the first worker answer a request for its console."""
        if self._workers.number == FIRST:
            return await http.respond(404)
        body, first = await http.body(), (await self._others()).get(FIRST)
        if first is not None and await self._replicas.passed_on_page(http, body, first):
            return None
        return await http.respond(503, headers=_RETRY)  # it is being started again

    async def _others(self) -> dict[int, ReplicaPeer]:
        try:
            return await self._replicas.peers.workers()
        except StoreError:
            return {}

    async def _page(self, http: HttpRequest, peer: ReplicaPeer) -> str | None:
        try:
            async with asyncio.timeout(_METRICS_SECONDS):
                return await self._replicas.fetched_page(http, peer)
        except TimeoutError:
            return None
