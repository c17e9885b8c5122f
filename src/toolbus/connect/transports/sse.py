"""The legacy HTTP+SSE transport: an event stream to read from, and a URL to post to."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from toolbus.config.settings.limits import ServerLimits
from toolbus.connect.http.events import ServerSentEvent, events
from toolbus.connect.http.response import HttpFailure, Response
from toolbus.connect.opening.attempt import Attempt
from toolbus.connect.opening.diagnostics import Diagnostics
from toolbus.connect.opening.failure import response_hint
from toolbus.connect.transports.http import (
    HttpClient,
    ServerUrl,
    http_client,
    invalid_response,
    message_in,
    refusal_reason,
    response_error,
)
from toolbus.connect.transports.wire.jsonrpc import JsonRpcPeer, ResponseFuture
from toolbus.connect.transports.wire.messages import add_trace
from toolbus.connect.transports.wire.pending import WireError
from toolbus.core.values.errors import ConnectFailed

logger = logging.getLogger("toolbus")


@asynccontextmanager
async def sse_peer(attempt: Attempt) -> AsyncGenerator[JsonRpcPeer]:
    """A connection over an event stream and a URL that the stream names."""
    server, diagnostics = attempt.config.alias, attempt.diagnostics
    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    async with (
        http_client(attempt) as client,
        client.request("GET", client.target, headers) as stream,
    ):
        incoming = _events(server, client, stream, attempt.config.limits)
        endpoint = client.endpoint(await _endpoint(server, incoming))
        if endpoint is None:
            raise ConnectFailed(server, "connect", "the server names an endpoint on another host")
        diagnostics.phase = "handshake"

        async def post(
            data: bytes, headers: Mapping[str, str] | None = None, response: ResponseFuture | None = None
        ) -> None:
            sent = {"content-type": "application/json"}
            add_trace(sent, with_baggage=attempt.config.baggage)
            async with client.request("POST", endpoint, sent, data) as reply:
                if reply.status >= 300:
                    raise _post_error(endpoint, reply)

        def warn_invalid(nth: int, data: bytes) -> None:
            if nth == 1:
                attempt.warn("the server sends events that are not messages")

        peer = JsonRpcPeer(
            "sse",
            post,
            redacted=attempt.values.redacted,
            on_invalid=warn_invalid,
            on_flood=diagnostics.mark_lost,
            config=attempt.config,
        )
        client.describe(peer.connection)
        reader = asyncio.create_task(_read(incoming, peer, diagnostics))
        try:
            yield peer
        finally:
            peer.close("the connection is closed")
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader


def _events(
    server: str, client: HttpClient, stream: Response, limits: ServerLimits
) -> AsyncIterator[ServerSentEvent]:
    if stream.status >= 300:
        body = message_in(stream, client.redacted, limits)
        raise response_error(client.target, stream, refusal_reason(stream, body, client.redacted))
    if not stream.is_stream:
        cause = client.redacted(invalid_response(stream))
        raise ConnectFailed(server, "connect", cause, hint=response_hint(cause))
    return events(stream)


async def _endpoint(server: str, incoming: AsyncIterator[ServerSentEvent]) -> str:
    async for event in incoming:
        if event.kind == "endpoint":
            return event.data.decode(errors="replace")
    cause = "the event stream ended before it named its endpoint"
    raise ConnectFailed(server, "connect", cause, hint=response_hint(cause))


def _post_error(endpoint: ServerUrl, reply: Response) -> WireError:
    error = response_error(endpoint, reply)
    if reply.status in (404, 410):
        error.sent, error.lost = False, True  # the session is gone, so the message was not processed
    return error


async def _read(
    incoming: AsyncIterator[ServerSentEvent], peer: JsonRpcPeer, diagnostics: Diagnostics
) -> None:
    reason = "the server ended the event stream"
    try:
        async for event in incoming:
            if event.kind == "message" and event.data:
                peer.feed(event.data)
    except HttpFailure as error:
        reason = f"the event stream broke: {error}"
    except Exception as error:  # a task's edge: a stream that nobody reads must not count as connected
        logger.exception("reading the server's stream failed")
        reason = f"reading the event stream failed ({type(error).__name__})"
    diagnostics.mark_lost(reason)
    peer.close(reason)
