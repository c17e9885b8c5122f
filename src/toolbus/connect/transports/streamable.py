"""Streamable HTTP: every message is a POST, and the response is JSON or an event stream.

A request runs entirely in its caller's task. In the modern era, closing the connection cancels it; in the
legacy era, a notification does. A legacy server may also hold a session, which it can lose. A 404, or another
status that names the session, reports that loss, and that the request was not started.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from mcp.shared.dispatcher import CallOptions
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolbus.connect.http.events import ServerSentEvent, events
from toolbus.connect.http.response import HttpFailure, Response, TooLarge
from toolbus.connect.opening.attempt import Attempt
from toolbus.connect.transports.http import (
    HttpClient,
    http_client,
    invalid_response,
    is_temporary,
    message_in,
    refusal_reason,
    response_error,
)
from toolbus.connect.transports.wire.jsonrpc import JsonRpcPeer, ResponseFuture
from toolbus.connect.transports.wire.messages import add_trace, likely_id
from toolbus.connect.transports.wire.pending import ToolHeaders, WireError

logger = logging.getLogger("toolbus")

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"
RECONNECT_DELAY = 1.0
MAX_RECONNECT_DELAY = 30.0
RESUME_DELAY = 0.1
"""Seconds before a stream that ended early is resumed, unless the server sets another delay."""
MAX_EMPTY_RESUMES = 3
"""The number of times in a row that a stream is resumed without a new event."""


@asynccontextmanager
async def streamable_http_peer(attempt: Attempt) -> AsyncGenerator[JsonRpcPeer]:
    """A connection over streamable HTTP; ends the server's session on exit."""
    async with http_client(attempt) as client:
        attempt.diagnostics.phase = "handshake"
        peer = _StreamablePeer(client, attempt)
        try:
            yield peer
        finally:
            peer.close("the connection is closed")
            await peer.end_session()


class _StreamablePeer(JsonRpcPeer):
    def __init__(self, client: HttpClient, attempt: Attempt) -> None:
        def warn_invalid(nth: int, data: bytes) -> None:
            if nth == 1:
                attempt.warn("the server sends text that is not a message")

        redacted = attempt.values.redacted
        super().__init__(
            "streamable-http",
            self._post,
            redacted=redacted,
            on_invalid=warn_invalid,
            on_flood=attempt.diagnostics.mark_lost,
            config=attempt.config,
        )
        self._client = client
        client.describe(self.connection)
        self._target = client.target
        self._diagnostics = attempt.diagnostics
        self._session: dict[str, str] = {}
        """The headers of every request once they are known: session ID and protocol version."""
        self._listening: asyncio.Task[None] | None = None
        self._process = os.getpid()

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await super().notify(method, params, opts)
        if method == "notifications/initialized" and SESSION in self._session and self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def end_session(self) -> None:
        """Stop listening, and end the session on the server."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        is_fork = self._process != os.getpid()  # then the session is that of our parent
        if SESSION in self._session and not self._diagnostics.lost_by_server and not is_fork:
            with suppress(WireError):
                async with self._client.request("DELETE", self._target, self._session):
                    pass

    async def _post(
        self, data: bytes, headers: Mapping[str, str] | None = None, response: ResponseFuture | None = None
    ) -> None:
        sent = {**ACCEPT, **self._session, **(headers or {})}
        add_trace(sent, with_baggage=self._config.baggage)
        kept = ToolHeaders(sent) if isinstance(headers, ToolHeaders) else sent
        reply = await self._client.send("POST", self._target, kept, data)
        try:
            if reply.status >= 300:
                if response is not None:
                    raise self._refusal(reply, sent, likely_id(data))
                return
            if session := reply.headers.get(SESSION):
                self._session[SESSION] = self.connection.session = session
            if response is None:
                return
            if reply.is_stream:
                await self._follow(reply, response)
            elif reply.media_type == "application/json":
                self.feed(reply.body)
            if not response.done():
                raise WireError(invalid_response(reply), sent=True, lost=False)
            if sent.get(VERSION) != self._session.get(VERSION):
                self._remember_version(sent, response)
        finally:
            self._client.finish(reply)

    def _remember_version(self, sent: Mapping[str, str], response: ResponseFuture) -> None:
        """Keep the protocol version for requests that the SDK does not stamp with it.

        After a failed probe, the version is not kept: the handshake that follows must not carry it.
        """
        version = sent.get(VERSION)
        if version is not None and not response.cancelled() and response.exception() is None:
            self.notifies_cancel = version not in MODERN_PROTOCOL_VERSIONS
            self._session[VERSION] = version

    async def _follow(self, reply: Response, response: ResponseFuture) -> None:
        """Read the response from a stream, or from those that resume it."""
        position = _StreamPosition()
        await self._read_until(response, reply, position)
        if self.notifies_cancel:
            await self._resume(position, response)

    async def _read_until(
        self, response: ResponseFuture, stream: Response, position: "_StreamPosition"
    ) -> None:
        """Feed the events of a stream up to the response."""
        try:
            async for event in events(stream):
                position.update(event)
                if event.data:
                    self.feed(event.data, response)
                if response.done():
                    stream.release()
                    break
        except TooLarge as failure:
            raise WireError(str(failure), sent=True, lost=False) from failure
        except HttpFailure:
            pass  # the stream broke: the events so far count

    async def _resume(self, position: "_StreamPosition", response: ResponseFuture) -> None:
        """Resume a stream each time it ends early; a server may close it before the response."""
        empty = 0
        while not response.done() and position.last_id and empty < MAX_EMPTY_RESUMES:
            await asyncio.sleep(position.delay)
            before = position.last_id
            async with self._client.request("GET", self._target, self._listen_headers(position)) as stream:
                if stream.status < 300:
                    await self._read_until(response, stream, position)
            empty = 0 if position.last_id != before else empty + 1

    def _refusal(self, reply: Response, sent: Mapping[str, str], request_id: int | None) -> WireError:
        """The error for a refused request, from the status and the body of the response."""
        status, message = reply.status, message_in(reply, self._redacted, self._limits)
        is_modern = sent.get(VERSION) in MODERN_PROTOCOL_VERSIONS
        # An error with the id of the request is a response to it, so it was processed.
        is_response = request_id is not None and message.get("id") == request_id
        is_unknown = status in (404, 410) or (status == 400 and b"session" in reply.body[:2000].lower())
        if not is_modern and SESSION in sent and not is_response and is_unknown:
            self._diagnostics.lost_by_server = True
            reason = f"the server no longer knows the session (HTTP {status})"
            return WireError(reason, sent=False, status=status)
        match message:
            case {"error": {"code": int() as code, "message": str() as text, **more}}:
                data = cast("dict[str, Any]", more).get("data")
                text = self._redacted(text[: self._limits.error])
                return WireError(text, sent=True, lost=False, status=status, code=code, data=data)
            case _:
                reason = refusal_reason(reply, message, self._redacted)
                return response_error(self._target, reply, reason)

    async def _listen(self) -> None:
        """Read the legacy era's stream of messages that belong to no request; some servers have none."""
        try:
            await self._read_stream()
        except Exception as error:  # a task's edge: a stream that nobody reads must not count as connected
            logger.exception("reading the server's stream failed")
            self._mark_lost(f"reading its stream failed ({type(error).__name__})")

    async def _read_stream(self) -> None:
        delay, position = RECONNECT_DELAY, _StreamPosition()
        while True:
            try:
                async with self._client.request(
                    "GET", self._target, self._listen_headers(position)
                ) as stream:
                    if stream.status in (404, 410):
                        self._mark_lost("the server no longer knows the session")
                        return
                    if stream.status < 300:
                        async for event in events(stream):
                            position.update(event)
                            delay = max(RECONNECT_DELAY, position.delay)
                            if event.data:
                                self.feed(event.data)
                    elif not is_temporary(stream.status):
                        return
            except WireError as error:
                if not error.sent:
                    self._mark_lost(error.message)
                    return
            except HttpFailure:
                pass
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RECONNECT_DELAY)

    def _listen_headers(self, position: "_StreamPosition") -> dict[str, str]:
        last = {"last-event-id": position.last_id} if position.last_id else {}
        return {**self._session, "accept": "text/event-stream", **last}

    def _mark_lost(self, reason: str) -> None:
        self._diagnostics.lost_by_server = True
        self._diagnostics.mark_lost(reason)


@dataclass(slots=True)
class _StreamPosition:
    """The last event of a stream, and the delay before it is resumed."""

    last_id: str | None = None
    delay: float = RESUME_DELAY

    def update(self, event: ServerSentEvent) -> None:
        self.last_id = event.id or self.last_id
        if event.retry is not None:
            self.delay = min(event.retry / 1000, MAX_RECONNECT_DELAY)
