"""The HTTP front: paths, who is admitted, and which era a message belongs to."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias, cast

from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import INVALID_REQUEST, PARSE_ERROR, PROTOCOL_VERSION_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic_core import from_json

from toolbus.config.serve import Serve
from toolbus.core.records import JSON
from toolbus.gateway.access.admission import Access, Refusal
from toolbus.gateway.access.control import AccessControl
from toolbus.gateway.console.app import PATH as CONSOLE
from toolbus.gateway.console.app import ConsoleApp
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.health import readiness
from toolbus.gateway.http.in_flight import InFlight
from toolbus.gateway.http.legacy import SESSION, LegacyFront
from toolbus.gateway.http.limits import Limits, Refusals
from toolbus.gateway.http.modern import ModernFront
from toolbus.gateway.http.relay import passed_on, relay
from toolbus.gateway.http.request import (
    Headers,
    HttpRequest,
    accepted,
    answer,
    encoded_headers,
    failure,
    is_json,
)
from toolbus.gateway.metrics import OTHER, Metrics
from toolbus.gateway.peers import FIRST, Peers
from toolbus.gateway.principal import Principal
from toolbus.gateway.protocol import BUSY
from toolbus.gateway.worker_metrics import merged

WELL_KNOWN = "/.well-known/oauth-protected-resource"
Page: TypeAlias = Callable[[HttpRequest], Awaitable[None]]
_KINDS = {401: "unauthenticated", 403: "forbidden", 404: "not_found", 421: "misdirected", 429: "throttled"}
_JSON_TYPE = "application/json"
_EXPIRE_EVERY = 30
"""Ticks between two looks for idle sessions."""
_PEER_SECONDS = 5.0
"""How long another worker may take for its metrics."""
_RETRY: Headers = ((b"retry-after", b"1"),)


class App:
    """Answers the HTTP requests to a gateway; `serve_http` runs it."""

    def __init__(
        self,
        gateway: Gateway,
        access: Access | None = None,
        limits: Limits | None = None,
        *,
        path: str = "/mcp",
        console: ConsoleApp | None = None,
        peers: Peers | None = None,
    ) -> None:
        """`path` is that of the MCP endpoint. Without `access`, only clients on this machine are let in.

        `peers` are the other workers, if this is one of several; the first of them may have a console.
        """
        self.gateway = gateway
        self._path = path
        self._console = console
        self._peers = peers
        self._ticks = 0
        self._below = f"{path}/"
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.refusals = Refusals(self.metrics)
        self.is_draining = False
        self.connections: Callable[[], int] = lambda: 0
        """How many connections are open; set by whoever runs it."""
        self._access: Access = access or AccessControl(Serve())
        self._in_flight = InFlight(self.limits, self.metrics)
        self._modern = ModernFront(gateway, self.metrics, self.limits, self.refusals)
        self._legacy = LegacyFront(gateway, self.metrics, self.limits, self._in_flight)
        self._pages: dict[str, Page] = {
            "/healthz": self._health,
            "/readyz": self._ready,
            "/metrics": self._metrics_page,
        }

    async def serve(self, http: HttpRequest) -> None:
        """Answer one request."""
        await answer(http, self._serve(http))

    async def _serve(self, http: HttpRequest) -> None:
        path = http.facts.path
        if path == self._path or path.startswith(self._below):
            await self._mcp(http)
        elif path == CONSOLE or path.startswith(f"{CONSOLE}/"):
            await self._console_page(http)
        elif (page := self._page(path)) is None:
            await http.respond(404)
        elif http.facts.method not in ("GET", "HEAD"):
            await http.respond(405, headers=((b"allow", b"GET, HEAD"),))
        else:
            await page(http)

    async def idle(self) -> None:
        """Wait until no request is in flight."""
        await self._in_flight.wait_for_none()

    def tick(self) -> None:
        """Call it every second."""
        self._modern.tick()
        self._ticks += 1
        if self._ticks % _EXPIRE_EVERY == 0:
            self.gateway.sessions.end_idle()

    @property
    def in_flight(self) -> int:
        """How many requests are being answered."""
        return self.metrics.in_flight

    def drain(self) -> None:
        """Take no more requests; those in flight go on, streams without end are ended."""
        self.is_draining = True
        self._modern.end_streams()
        self._legacy.end_streams()
        if self._console is not None:
            self._console.drain()

    def end_views(self, names: Container[str]) -> None:
        """End sessions that have one of these views, and streams without end: clients open others."""
        self._modern.end_streams()
        for session in self.gateway.sessions:
            if session.principal.view in names:
                self.gateway.sessions.close(session.id)

    # Other workers

    def _owner(self, http: HttpRequest, *names: JSON) -> str | None:
        """The socket of the worker that has what one of these names is of; None if this one has it."""
        if self._peers is None or http.is_relayed:
            return None
        owners = filter(lambda owner: owner is not None, map(self._peers.owner, names))
        return None if (found := next(owners, None)) is None else self._peers.socket(found)

    async def _console_page(self, http: HttpRequest) -> None:
        if self._console is not None:
            await self._console.serve(http)
        elif self._peers is not None and not http.is_relayed and self._peers.number != FIRST:
            await relay(http, self._peers.socket(FIRST), await http.body())
        else:
            await http.respond(404)

    # MCP

    async def _mcp(self, http: HttpRequest) -> None:
        facts, method = http.facts, http.facts.method
        if "origin" in http.headers:
            http.cors = encoded_headers(self._access.cors(facts))
            if method == "OPTIONS":
                return await self._preflight(http)
        admitted = await self._access.admit(facts)
        if isinstance(admitted, Refusal):
            return await self._refuse(http, admitted)
        http.principal, http.access = admitted, self._access
        version = http.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        is_modern = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
        if method == "POST":
            return await self._post(http, is_modern=is_modern)
        if is_modern:
            return await http.respond(405, headers=((b"allow", b"POST"),))
        if (owner := self._owner(http, http.headers.get(SESSION))) is not None:
            return await relay(http, owner)
        if method == "GET":
            return await self._legacy.listen(http)
        if method == "DELETE":
            return await self._legacy.delete(http)
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
        """Send a refusal, which whoever decided it has logged."""
        self.metrics.refused[_KINDS.get(refusal.status, OTHER)] += 1
        await http.refuse(refusal)

    async def _admitted(self, http: HttpRequest) -> Principal | Refusal:
        """Who asks for a page beside the MCP endpoint; whoever may use that may read it."""
        return await self._access.admit(replace(http.facts, path=self._path))

    async def _post(self, http: HttpRequest, *, is_modern: bool) -> None:
        has_json, has_events = accepted(http.headers.get("accept", ""))
        if not (has_json and has_events):
            return await _refuse_message(http, 406, f"send accept: {_JSON_TYPE}, text/event-stream")
        if not is_json(http.headers.get("content-type", "")):
            return await _refuse_message(http, 415, f"send content-type: {_JSON_TYPE}")
        principal = http.principal.name
        status = self._in_flight.take(principal)
        if status:
            reason = f"too many requests in flight ({status})"
            self.refusals.note("in_flight", http.facts.address, reason)
            await asyncio.sleep(self.limits.refusal_seconds)
            error = {"code": BUSY, "message": reason, "data": {"retryAfter": 1}}
            return await http.respond_json(status, failure(None, error), _RETRY)
        try:
            await self._message(http, is_modern=is_modern)
        finally:
            self._in_flight.release(principal)
        return None

    async def _message(self, http: HttpRequest, *, is_modern: bool) -> None:
        body = await http.body()
        try:
            message = from_json(body, allow_inf_nan=False)
        except ValueError:
            return await http.respond_json(
                400, failure(None, {"code": PARSE_ERROR, "message": "Parse error"})
            )
        kind = _kind_of(message)
        is_modern = is_modern or _has_envelope(message)
        if kind is None or (kind == "response" and is_modern):
            return await _refuse_message(http, 400, "the body must be one JSON-RPC message")
        if (owner := self._owner(http, *_names(http, message, is_modern=is_modern))) is not None:
            return await relay(http, owner, body)
        if kind == "request" and self.is_draining:
            return await http.respond(503, headers=(*_RETRY, (b"connection", b"close")))
        if not is_modern and kind == "request" and message["method"] == "initialize":
            return await self._legacy.initialize(http, message["id"], message.get("params"))
        if not is_modern:
            return await self._legacy.serve(http, message)
        if kind == "notification":
            return await self._modern.notified(http)
        return await self._modern.serve(http, message)

    # Other pages

    def _page(self, path: str) -> Page | None:
        if path == WELL_KNOWN or path.startswith(f"{WELL_KNOWN}/"):
            return self._metadata
        return self._pages.get(path)

    async def _health(self, http: HttpRequest) -> None:
        await http.respond_json(200, {"status": "ok"})

    async def _ready(self, http: HttpRequest) -> None:
        """Anyone learns whether; why, only who is admitted, and only of the servers of its view."""
        admitted = await self._admitted(http)
        seen = () if isinstance(admitted, Refusal) else self.gateway.view(admitted).servers
        is_starting = self._peers is not None and not self._peers.all_started()
        is_ready, details = readiness(
            self.gateway.bus, seen=seen, draining=self.is_draining, starting=is_starting
        )
        shown = {"ready": is_ready} if isinstance(admitted, Refusal) else details
        await http.respond_json(200 if is_ready else 503, shown)

    async def _metrics_page(self, http: HttpRequest) -> None:
        admitted = await self._admitted(http)
        if isinstance(admitted, Refusal):
            return await self._refuse(http, admitted)
        gauges = {"sessions": len(self.gateway.sessions), "connections": self.connections()}
        seen = self.gateway.view(admitted).servers
        states = {alias: state for alias, state in self.gateway.bus.servers.items() if alias in seen}
        text = self.metrics.text(states, gauges, self.gateway.queue)
        if self._peers is not None and not http.is_relayed:
            text = await self._of_all_workers(http, self._peers, text)
        kind = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
        return await http.respond(200, text.encode(), (kind,))

    async def _of_all_workers(self, http: HttpRequest, peers: Peers, own: str) -> str:
        pages = {peers.number: own}
        for number in peers.others:
            with suppress(OSError, TimeoutError):  # it is being started again
                async with asyncio.timeout(_PEER_SECONDS):
                    async with passed_on(http, peers.socket(number)) as response:
                        pages[number] = (await response.body()).decode()
        return merged(pages, peers.count)

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


async def _refuse_message(http: HttpRequest, status: int, reason: str) -> None:
    await http.respond_json(status, failure(None, {"code": INVALID_REQUEST, "message": reason}))


def _kind_of(message: object) -> str | None:
    """What a JSON-RPC message is; None if it is not one."""
    if not isinstance(message, dict):
        return None
    fields = cast("dict[str, Any]", message)
    if fields.get("jsonrpc") != "2.0":
        return None
    has_id = "id" in fields
    if has_id and type(fields["id"]) not in (str, int):
        return None
    method = fields.get("method")
    if isinstance(method, str):
        params = fields.get("params")
        if params is not None and not isinstance(params, dict):
            return None
        return "request" if has_id else "notification"
    return "response" if has_id and ("result" in fields or "error" in fields) else None


def _names(http: HttpRequest, message: Mapping[str, Any], *, is_modern: bool) -> tuple[JSON, ...]:
    """What a message is about that may be in the memory of one worker."""
    if not is_modern:
        return (http.headers.get(SESSION),)
    params = message.get("params")
    if not isinstance(params, dict):
        return ()
    fields = cast("dict[str, Any]", params)
    return fields.get("requestState"), fields.get("taskId")


def _has_envelope(message: Mapping[str, Any]) -> bool:
    """Whether a message says which modern version it is of."""
    if not isinstance(message, dict):
        return False
    params = message.get("params")
    if not isinstance(params, dict):
        return False
    meta = cast("dict[str, Any]", params).get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta
