"""The old HTTP transport with two endpoints: an event stream to read, a URL to post to."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import urljoin

import httpx2

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.diagnostics import Diagnostics
from toolbus.connect.failure import answer_hint
from toolbus.connect.transports.http import refused, unusable, web
from toolbus.connect.transports.jsonrpc import Answer, Peer, WireError
from toolbus.core.errors import ConnectFailed


@asynccontextmanager
async def sse_peer(
    config: ServerConfig, values: Resolved, diagnostics: Diagnostics, warn: Callable[[str], None]
) -> AsyncGenerator[Peer]:
    """Open the event stream; give the conversation over it."""
    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    async with (
        web(config, values, diagnostics) as client,
        client.sent("GET", client.secrets.url, headers) as response,
    ):
        events = _events(config.alias, response)
        endpoint = urljoin(client.secrets.url, await _endpoint(config.alias, events))
        if not client.secrets.same_origin(endpoint):
            raise ConnectFailed(config.alias, "connect", "the server names an endpoint on another host")
        endpoint = client.secrets.shown(endpoint)  # it carries the session's id
        diagnostics.phase = "handshake"

        async def post(
            data: bytes, headers: Mapping[str, str] | None = None, answer: Answer | None = None
        ) -> None:
            kind = {"content-type": "application/json"}
            async with client.sent("POST", endpoint, kind, data) as response:
                if response.status_code >= 300:
                    raise _not_accepted(response)

        def garbage(nth: int, data: bytes) -> None:
            if nth == 1:
                warn("the server sends events that are no messages")

        peer = Peer("sse", post, on_garbage=garbage)
        reader = asyncio.create_task(_read(events, peer, diagnostics))
        try:
            yield peer
        finally:
            peer.close("the connection is closed")
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader


def _events(server: str, response: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:
    if response.status_code >= 300:
        raise refused(response)
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "text/event-stream":
        cause = unusable(response)
        raise ConnectFailed(server, "connect", cause, hint=answer_hint(cause))
    return aiter(httpx2.EventSource(response, max_event_size=None))


async def _endpoint(server: str, events: AsyncIterator[httpx2.ServerSentEvent]) -> str:
    async for event in events:
        if event.event == "endpoint":
            return event.data
    cause = "the event stream ended before it named its endpoint"
    raise ConnectFailed(server, "connect", cause, hint=answer_hint(cause))


def _not_accepted(response: httpx2.Response) -> WireError:
    error = refused(response)
    if response.status_code in (404, 410):
        error.sent, error.lost = False, True  # the session is gone, so the message was not looked at
    return error


async def _read(events: AsyncIterator[httpx2.ServerSentEvent], peer: Peer, diagnostics: Diagnostics) -> None:
    reason = "the server ended the event stream"
    try:
        async for event in events:
            if event.event == "message" and event.data:
                peer.feed(event.data.encode())
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        reason = f"the event stream broke: {str(error) or type(error).__name__}"
    diagnostics.lose(reason)
    peer.close(reason)
