"""The legacy HTTP+SSE transport: an event stream to read from, and a URL to post to."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import urljoin

import httpx2

from toolbus.connect.attempt import Attempt
from toolbus.connect.diagnostics import Diagnostics
from toolbus.connect.failure import response_hint
from toolbus.connect.transports.http import content_type, http_client, invalid_response, response_error
from toolbus.connect.transports.jsonrpc import Peer, ResponseFuture, WireError
from toolbus.core.errors import ConnectFailed


@asynccontextmanager
async def sse_peer(attempt: Attempt) -> AsyncGenerator[Peer]:
    """A connection over an event stream and a URL that the stream names."""
    server, diagnostics = attempt.config.alias, attempt.diagnostics
    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    async with (
        http_client(attempt) as client,
        client.stream("GET", client.transport.url, headers) as stream,
    ):
        events = _events(server, stream)
        endpoint = urljoin(client.transport.url, await _endpoint(server, events))
        if not client.transport.is_same_origin(endpoint):
            raise ConnectFailed(server, "connect", "the server names an endpoint on another host")
        endpoint = client.transport.public_url(endpoint)  # its query contains the session ID
        diagnostics.phase = "handshake"

        async def post(
            data: bytes, headers: Mapping[str, str] | None = None, response: ResponseFuture | None = None
        ) -> None:
            async with client.stream("POST", endpoint, {"content-type": "application/json"}, data) as reply:
                if reply.status_code >= 300:
                    raise _post_error(reply)

        def warn_invalid(nth: int, data: bytes) -> None:
            if nth == 1:
                attempt.warn("the server sends events that are not messages")

        peer = Peer("sse", post, redacted=attempt.values.redacted, on_invalid=warn_invalid)
        reader = asyncio.create_task(_read(events, peer, diagnostics))
        try:
            yield peer
        finally:
            peer.close("the connection is closed")
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader


def _events(server: str, stream: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:
    if stream.status_code >= 300:
        raise response_error(stream)
    if content_type(stream) != "text/event-stream":
        cause = invalid_response(stream)
        raise ConnectFailed(server, "connect", cause, hint=response_hint(cause))
    return aiter(httpx2.EventSource(stream, max_event_size=None))


async def _endpoint(server: str, events: AsyncIterator[httpx2.ServerSentEvent]) -> str:
    async for event in events:
        if event.event == "endpoint":
            return event.data
    cause = "the event stream ended before it named its endpoint"
    raise ConnectFailed(server, "connect", cause, hint=response_hint(cause))


def _post_error(reply: httpx2.Response) -> WireError:
    error = response_error(reply)
    if reply.status_code in (404, 410):
        error.sent, error.lost = False, True  # the session is gone, so the message was not processed
    return error


async def _read(events: AsyncIterator[httpx2.ServerSentEvent], peer: Peer, diagnostics: Diagnostics) -> None:
    reason = "the server ended the event stream"
    try:
        async for event in events:
            if event.event == "message" and event.data:
                peer.feed(event.data.encode())
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        reason = f"the event stream broke: {str(error) or type(error).__name__}"
    diagnostics.mark_lost(reason)
    peer.close(reason)
