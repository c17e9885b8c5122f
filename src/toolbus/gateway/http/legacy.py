"""The legacy era over HTTP: sessions, their requests and their streams.

A lost connection does not cancel a request: its client can read the rest of the stream on another one.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from mcp_types import INVALID_REQUEST
from mcp_types.version import is_version_at_least

from toolbus.core.ask.interactions import Stopwatch
from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import JSONObject
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.limits import HttpLimits, InFlight
from toolbus.gateway.http.modern import CANCELLED, TOO_MANY, Outcome, answered
from toolbus.gateway.http.request import Headers, HttpRequest, accepted, response
from toolbus.gateway.http.streams import KeptStreams, SessionStream, SessionStreams, woken
from toolbus.gateway.metrics import Metrics, error_kind
from toolbus.gateway.protocol.request import ClientExchange
from toolbus.gateway.protocol.sessions import ClientSession
from toolbus.gateway.protocol.words import ProtocolError, WrongReplica

logger = logging.getLogger("toolbus")
SESSION = "mcp-session-id"
PRIMED_SINCE: Final = "2025-11-25"
"""The version whose clients understand the empty event that opens a stream."""
STREAM_AFTER: Final = 0.05
"""Seconds after which such a client gets a stream: from then on it can resume it."""
_NOT_DELIVERED = (
    "the answer was not delivered: the replica that asked the question has ended, or cannot be reached"
)
_CHANGING = frozenset(("logging/setLevel", "resources/subscribe", "resources/unsubscribe"))
"""The methods that change what other replicas need to know of a session."""


class LegacyFront:
    def __init__(self, gateway: Gateway, metrics: Metrics, limits: HttpLimits, in_flight: InFlight) -> None:
        self._gateway = gateway
        self._metrics = metrics
        self._limits = limits
        self._in_flight = in_flight
        self._replicas = gateway.replicas
        self._streams: dict[str, SessionStreams] = {}
        """The streams by session."""
        self._kept = KeptStreams(limits.streams_bytes)
        self._calls: set[asyncio.Task[Outcome]] = set()

    def end_streams(self) -> None:
        """End the streams that would never end; requests in flight keep theirs."""
        for streams in self._streams.values():
            streams.standalone.end()

    def end_stream(self, session: str) -> None:
        """End the stream for notifications of a session."""
        if (streams := self._streams.get(session)) is not None:
            streams.standalone.end()

    async def initialize(self, http: HttpRequest, request_id: str | int, params: JSONObject | None) -> None:
        if SESSION in http.headers:
            return await _refuse(http, 400, "initialize opens another session; send it without a session id")
        started = time.perf_counter()
        try:
            session, result = await self._gateway.initialize(http.principal, params)
        except ProtocolError as error:
            self._metrics.ended("initialize", time.perf_counter() - started, error_kind(error.code))
            return await http.respond_error(200, error.json, request_id)
        self._open_streams(session)
        if session.closed:  # it had to make room for others meanwhile
            self._forget(session.id)
        if self._replicas is not None:
            try:
                await self._replicas.sessions.opened(session)
            except BaseException:
                self._gateway.sessions.close(session.id)
                raise
        self._metrics.ended("initialize", time.perf_counter() - started)
        return await http.respond_json(200, response(request_id, result), _session_headers(session))

    async def serve(self, http: HttpRequest, message: Mapping[str, Any]) -> None:
        """Take a message of a session."""
        method = message.get("method")
        if self._replicas is not None and not http.relayed:
            await self._look_elsewhere(http, message)
            if method is None and not self._replicas.is_asked_here(message.get("id")):
                return await _refuse(http, 502, _NOT_DELIVERED)
        is_request = method is not None and "id" in message
        session = await self._session(http, is_request=is_request)
        if session is None:
            return None
        if method is None:
            session.answered(message)
            await http.respond(202)
        elif is_request:
            await self._request(http, session, message)
        else:
            was_here = self._gateway.notified(session, method, message.get("params"))
            if not was_here and session.is_doubtful:
                await self._session(http)
            if not was_here and self._replicas is not None and not http.relayed:
                before = self._replicas.sessions.before(session)
                if before and before not in http.avoid:
                    raise WrongReplica(before)
            await http.respond(202)
        return None

    async def _look_elsewhere(self, http: HttpRequest, message: Mapping[str, Any]) -> None:
        """Raise `WrongReplica` if another replica asked the question, or runs the task."""
        assert self._replicas is not None, "asked only then"
        try:
            if message.get("method") is None:
                await self._replicas.find_question(message.get("id"))
            elif str(message["method"]).startswith("tasks/"):
                params: dict[str, Any] = message.get("params") or {}
                task = params.get("taskId")
                await self._replicas.find_call(task if isinstance(task, str) else "")
        except WrongReplica as elsewhere:
            if elsewhere.replica not in http.avoid:
                raise

    async def listen(self, http: HttpRequest) -> None:
        """Serve the stream of messages outside of requests, or the rest of a stream that was lost."""
        if not accepted(http.headers.get("accept", ""))[1]:
            return await _refuse(http, 406, "the client must accept text/event-stream")
        last = await self._resumed(http)
        session = await self._session(http)
        if session is None:
            return None
        streams = self._streams[session.id]
        stream, after = streams.standalone, None
        if last is not None:
            found = streams.find(last)
            if found is None:
                return await _refuse(http, 400, "the stream cannot be resumed from this event")
            stream, after = found
        if stream is streams.standalone:
            return await self._stand_alone(http, session, streams, after)
        return await streams.read(http, stream, after, _session_headers(session))

    async def _resumed(self, http: HttpRequest) -> str | None:
        """The event after which to go on; `WrongReplica` if it is in a stream of another replica.

        None for an event in the stream of a session whose replica has ended: that stream restarts.
        """
        last = http.headers.get("last-event-id")
        if last is None or self._replicas is None or last.startswith(self._replicas.prefix):
            return last
        replica, _, event = last.partition(".")
        there = replica not in http.avoid and await self._replicas.peers.find(replica) is not None
        if there and not http.relayed:
            raise WrongReplica(replica)
        return None if event.startswith("0-") else last

    async def _stand_alone(
        self, http: HttpRequest, session: ClientSession, streams: SessionStreams, after: int | None
    ) -> None:
        stream = streams.standalone
        session.standalone = stream
        try:
            await streams.read(http, stream, after, _session_headers(session))
        finally:
            if stream.reader is None:  # else another connection reads it
                session.standalone = None

    async def delete(self, http: HttpRequest) -> None:
        session = await self._session(http)
        if session is not None:
            if self._replicas is not None:
                await self._replicas.sessions.remove(session)
            self._gateway.sessions.close(session.id)
            await http.respond(200)

    async def _share(self, session: ClientSession) -> None:
        """Let other replicas know what a request has changed."""
        assert self._replicas is not None, "asked only then"
        try:
            await self._replicas.sessions.changed(session)
        except StoreError as error:
            logger.warning("a change of a session is only known here: %s", error)

    def _open_streams(self, session: ClientSession) -> None:
        primes = is_version_at_least(session.version, PRIMED_SINCE)
        prefix = "" if self._replicas is None else self._replicas.prefix
        owner = session.principal.holder
        self._streams[session.id] = SessionStreams(
            self._limits, self._kept, owner, primes=primes, prefix=prefix
        )
        session.on_close(lambda: self._forget(session.id))

    async def _taken_over(self, name: str, http: HttpRequest) -> ClientSession | None:
        """The session, if another replica had it and this one can go on with it."""
        if self._replicas is None:
            return None
        shared = self._replicas.sessions
        async with shared.taking(name):
            here = self._gateway.sessions.get(name, http.principal) if name in self._streams else None
            if here is not None and not here.is_doubtful:
                return here  # taken over for another request
            facts = await shared.take(name, http.principal, http.avoid)
            if facts is None:
                return None
            if here is not None and not here.has_moved:
                here.is_doubtful = False
                return here
            if here is not None:  # it moved, and has come back
                shared.forget(here)
                self._gateway.sessions.close(name)
            session = self._gateway.restore(name, facts)
            self._open_streams(session)
            shared.restored(session, facts)
        return session

    def _forget(self, session: str) -> None:
        self._streams.pop(session).close()

    async def _session(self, http: HttpRequest, *, is_request: bool = True) -> ClientSession | None:
        """The session of a message; None if it was refused.

        One that is not a request may be about a request that is in flight here, wherever the session is.
        """
        name = http.headers.get(SESSION)
        if name is None:
            await _refuse(http, 400, "the session id is missing")
            return None
        if self._replicas is not None:
            await self._replicas.peers.make_sure()
        session = self._gateway.sessions.get(name, http.principal)
        if session is None or name not in self._streams or (is_request and session.is_doubtful):
            session = await self._taken_over(name, http)
        if session is None or session.principal.place != http.principal.place:
            await _refuse(http, 404, "there is no such session")
            return None
        return session

    async def _request(self, http: HttpRequest, session: ClientSession, message: Mapping[str, Any]) -> None:
        streams = self._streams[session.id]
        stream = streams.open()
        call = asyncio.create_task(self._answered(http, session, stream, message))
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
                self._in_flight.keep(http, call)
            elif not stream.last:
                streams.discard(stream)

    async def _answered(
        self, http: HttpRequest, session: ClientSession, stream: SessionStream, message: Mapping[str, Any]
    ) -> Outcome:
        method, params = message["method"], message.get("params")
        exchange = ClientExchange.of_session(
            session, http.principal, message["id"], params, stream, size=http.size, headers=http.headers
        )
        watch, outcome = Stopwatch(), CANCELLED
        try:
            outcome = await answered(self._gateway, exchange, method, params)
            if self._replicas is not None and method in _CHANGING:
                await self._share(session)
            return outcome
        finally:
            self._metrics.ended(method, watch.seconds, outcome.error)


def _end(streams: SessionStreams, stream: SessionStream, call: asyncio.Task[Outcome]) -> None:
    outcome = CANCELLED if call.cancelled() else call.result()
    stream.end(outcome.message)
    streams.keep_for_replay(stream)


def _session_headers(session: ClientSession) -> Headers:
    return ((SESSION.encode(), session.id.encode()),)


async def _refuse(http: HttpRequest, status: int, message: str) -> None:
    await http.respond_error(status, {"code": INVALID_REQUEST, "message": message})
