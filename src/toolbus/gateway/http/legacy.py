"""The legacy era over HTTP: sessions, their requests and their streams.

A lost connection does not cancel a request: its client can read the rest of the stream on another one.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final, cast

from mcp_types import INVALID_REQUEST
from mcp_types.version import is_version_at_least

from toolbus.core.records import JSONObject
from toolbus.gateway.exchange import Exchange
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.in_flight import InFlight
from toolbus.gateway.http.limits import Limits
from toolbus.gateway.http.outcome import CANCELLED, TOO_MANY, Outcome, answered
from toolbus.gateway.http.request import Headers, HttpRequest, accepted, encoded, failure, response
from toolbus.gateway.http.streams import EventStream, SessionStreams, woken
from toolbus.gateway.metrics import Metrics, error_kind
from toolbus.gateway.protocol_error import ProtocolError
from toolbus.gateway.sessions import Session

SESSION = "mcp-session-id"
PRIMED_SINCE: Final = "2025-11-25"
"""The version whose clients understand the empty event that opens a stream."""
STREAM_AFTER: Final = 0.05
"""Seconds after which such a client gets a stream: from then on it can resume it."""


class LegacyFront:
    """Serves the requests of legacy clients."""

    def __init__(self, gateway: Gateway, metrics: Metrics, limits: Limits, in_flight: InFlight) -> None:
        self._gateway = gateway
        self._metrics = metrics
        self._limits = limits
        self._in_flight = in_flight
        self._streams: dict[str, SessionStreams] = {}
        """By session."""
        self._calls: set[asyncio.Task[Outcome]] = set()

    def end_streams(self) -> None:
        """End the streams that would never end; requests in flight keep theirs."""
        for streams in self._streams.values():
            streams.standalone.end()

    async def initialize(self, http: HttpRequest, request_id: str | int, params: JSONObject | None) -> None:
        """Open a session."""
        if SESSION in http.headers:
            return await _refuse(http, 400, "initialize opens another session; send it without a session id")
        started = time.perf_counter()
        try:
            session, result = await self._gateway.initialize(http.principal, params)
        except ProtocolError as error:
            self._metrics.ended("initialize", time.perf_counter() - started, error_kind(error.code))
            return await http.respond_json(200, failure(request_id, error.json))
        primes = is_version_at_least(session.version, PRIMED_SINCE)
        self._streams[session.id] = SessionStreams(self._limits, primes=primes)
        session.on_close(lambda: self._forget(session.id))
        if session.closed:  # it had to make room for others meanwhile
            self._forget(session.id)
        self._metrics.ended("initialize", time.perf_counter() - started)
        return await http.respond_json(200, response(request_id, result), _session_headers(session))

    async def serve(self, http: HttpRequest, message: Mapping[str, Any]) -> None:
        """Take a message of a session."""
        session = await self._session(http)
        if session is None:
            return
        method = message.get("method")
        if method is None:
            session.answered(message)
            await http.respond(202)
        elif "id" in message:
            await self._request(http, session, message["id"], method, message.get("params"))
        else:
            self._gateway.notified(session, method, message.get("params"))
            await http.respond(202)

    async def listen(self, http: HttpRequest) -> None:
        """Serve the stream of what belongs to no request, or the rest of a stream that was lost."""
        if not accepted(http.headers.get("accept", ""))[1]:
            return await _refuse(http, 406, "the client must accept text/event-stream")
        session = await self._session(http)
        if session is None:
            return None
        streams = self._streams[session.id]
        stream, after = streams.standalone, None
        if (last := http.headers.get("last-event-id")) is not None:
            found = streams.find(last)
            if found is None:
                return await _refuse(http, 400, "the stream cannot be resumed from this event")
            stream, after = found
        if stream is streams.standalone:
            return await self._stand_alone(http, session, streams, after)
        return await streams.read(http, stream, after, _session_headers(session))

    async def _stand_alone(
        self, http: HttpRequest, session: Session, streams: SessionStreams, after: int | None
    ) -> None:
        stream = streams.standalone
        session.standalone = stream
        try:
            await streams.read(http, stream, after, _session_headers(session))
        finally:
            if stream.reader is None:  # else another connection reads it
                session.standalone = None

    async def delete(self, http: HttpRequest) -> None:
        """End a session."""
        session = await self._session(http)
        if session is not None:
            self._gateway.sessions.close(session.id)
            await http.respond(200)

    def _forget(self, session: str) -> None:
        self._streams.pop(session).close()

    async def _session(self, http: HttpRequest) -> Session | None:
        """The session of a request; None if it was refused."""
        name = http.headers.get(SESSION)
        if name is None:
            await _refuse(http, 400, "the session id is missing")
            return None
        session = self._gateway.sessions.get(name, http.principal)
        if session is None or session.principal.view != http.principal.view or name not in self._streams:
            await _refuse(http, 404, "there is no such session")
            return None
        return session

    async def _request(
        self,
        http: HttpRequest,
        session: Session,
        request_id: str | int,
        method: str,
        params: JSONObject | None,
    ) -> None:
        streams = self._streams[session.id]
        stream = streams.open()
        call = asyncio.create_task(self._answered(http, session, stream, request_id, method, params))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        headers = _session_headers(session)
        try:
            primes = is_version_at_least(session.version, PRIMED_SINCE)
            call.add_done_callback(lambda _: stream.began.set())
            await woken(stream.began, STREAM_AFTER if primes else self._limits.keepalive_seconds)
            if call.done() and not stream.last:
                outcome = call.result()
                if outcome.status == TOO_MANY:
                    await asyncio.sleep(self._limits.refusal_seconds)
                # Always 200: the SDK of that era ends the whole session at any other status.
                return await http.respond_json(200, outcome.message, (*headers, *outcome.headers))
            call.add_done_callback(lambda call: _end(streams, stream, call))
            return await streams.read(http, stream, None, headers)
        finally:
            if not call.done():
                self._in_flight.keep(http.principal.name, call)
            elif not stream.last:
                streams.discard(stream)

    async def _answered(
        self,
        http: HttpRequest,
        session: Session,
        stream: EventStream,
        request_id: str | int,
        method: str,
        params: JSONObject | None,
    ) -> Outcome:
        meta: object = params.get("_meta") if params else None
        exchange = Exchange(
            principal=http.principal,
            headers=http.headers,
            era="legacy",
            version=session.version,
            capabilities=session.capabilities,
            id=request_id,
            channel=stream,
            info=session.info,
            meta=cast("JSONObject", meta) if isinstance(meta, dict) else {},
            log_level=session.log_level,
            session=session,
        )
        started = time.perf_counter()
        outcome = CANCELLED
        try:
            outcome = await answered(self._gateway, exchange, method, params)
            return outcome
        finally:
            self._metrics.ended(method, time.perf_counter() - started, outcome.error)


def _end(streams: SessionStreams, stream: EventStream, call: asyncio.Task[Outcome]) -> None:
    outcome = CANCELLED if call.cancelled() else call.result()
    stream.end(outcome.message)
    streams.keep_for_replay(stream)


def _session_headers(session: Session) -> Headers:
    return ((SESSION.encode(), session.id.encode()),)


async def _refuse(http: HttpRequest, status: int, message: str) -> None:
    body = encoded(failure(None, {"code": INVALID_REQUEST, "message": message}))
    await http.respond(status, body, ((b"content-type", b"application/json"),))
