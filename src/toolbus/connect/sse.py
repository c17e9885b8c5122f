"""The old HTTP transport with two endpoints: an event stream to read, a URL to post to."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urljoin

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.http import http_client
from toolbus.connect.jsonrpc import Peer
from toolbus.connect.witness import EXCHANGE, Witness
from toolbus.errors import ConnectFailed


@asynccontextmanager
async def sse_peer(
    config: ServerConfig, values: Resolved, witness: Witness, warn: Callable[[str], None]
) -> AsyncGenerator[Peer]:
    """Open the event stream; give the conversation over it."""
    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    async with (
        http_client(config, values) as (client, door),
        client.stream("GET", door.url, headers=headers, follow_redirects=True) as response,
    ):
        events = await _events(config.alias, response)
        endpoint = urljoin(door.url, await _endpoint(config.alias, events))
        if not door.same_origin(endpoint):
            raise ConnectFailed(config.alias, "connect", "the server names an endpoint on another host")
        endpoint = door.shown(endpoint)  # it carries the session's id
        witness.phase = "handshake"

        async def post(data: bytes) -> None:
            await _posted(client, endpoint, data)

        def garbage(nth: int, data: bytes) -> None:
            if nth == 1:
                warn("the server sends events that are no messages")

        peer = Peer("sse", post, on_garbage=garbage)
        reader = asyncio.create_task(_read(events, peer, witness))
        try:
            yield peer
        finally:
            peer.close("the connection is closed")
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader


async def _events(server: str, response: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:
    response.raise_for_status()
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "text/event-stream":
        raise ConnectFailed(server, "connect", f"expected an event stream, got {kind or 'no content type'!r}")
    return aiter(httpx2.EventSource(response, max_event_size=None))


async def _endpoint(server: str, events: AsyncIterator[httpx2.ServerSentEvent]) -> str:
    async for event in events:
        if event.event == "endpoint":
            return event.data
    raise ConnectFailed(server, "connect", "the event stream ended before it named its endpoint")


async def _posted(client: httpx2.AsyncClient, endpoint: str, data: bytes) -> None:
    response = await client.post(endpoint, content=data, headers={"content-type": "application/json"})
    if response.status_code >= 400:
        exchange = EXCHANGE.get()
        if exchange is not None and exchange.fault is not None:
            raise MCPError(code=CONNECTION_CLOSED, message=exchange.fault)
        raise MCPError(code=INTERNAL_ERROR, message="the message was not accepted")


async def _read(events: AsyncIterator[httpx2.ServerSentEvent], peer: Peer, witness: Witness) -> None:
    reason = "the server ended the event stream"
    try:
        async for event in events:
            if event.event == "message" and event.data:
                peer.feed(event.data.encode())
    except httpx2.HTTPError as error:
        reason = f"the event stream broke: {str(error) or type(error).__name__}"
    except httpx2.StreamError as error:
        reason = f"the event stream broke: {error}"
    witness.lose(reason)
    peer.close(reason)
