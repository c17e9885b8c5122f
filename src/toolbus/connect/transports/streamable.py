"""Streamable HTTP: every message is a POST of its own, answered by JSON or by an event stream.

A request runs whole in its caller's task. Hanging up cancels it in the modern era; in the legacy era
a notice does. There the server may also hold a session, which it can lose: it is told by a 404 and by
other words, all of which mean that the request was not begun.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import httpx2
from mcp.shared.dispatcher import CallOptions
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import from_json

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.diagnostics import Diagnostics
from toolbus.connect.transports.http import Web, is_temporary, refused, unusable, web
from toolbus.connect.transports.jsonrpc import Answer, Peer, WireError

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"
LISTEN_AGAIN = 1.0
LISTEN_AGAIN_AT_MOST = 30.0
RESUME_AFTER = 0.1
"""Seconds before a stream that ended early is gone on with, unless the server says otherwise."""
MOST_RESUMES = 3
"""How often in a row that may bring nothing new."""


@asynccontextmanager
async def streamable_http(
    config: ServerConfig, values: Resolved, diagnostics: Diagnostics, warn: Callable[[str], None]
) -> AsyncGenerator[Peer]:
    """A conversation over streamable HTTP; on the way out the server's session is ended."""
    async with web(config, values, diagnostics) as client:
        diagnostics.phase = "handshake"
        peer = _StreamablePeer(client, diagnostics, warn)
        try:
            yield peer
        finally:
            peer.close("the connection is closed")
            await peer.hang_up()


class _StreamablePeer(Peer):
    def __init__(self, client: Web, diagnostics: Diagnostics, warn: Callable[[str], None]) -> None:
        def garbage(nth: int, data: bytes) -> None:
            if nth == 1:
                warn("the server sends text that is no message")

        super().__init__("streamable-http", self._post, on_garbage=garbage)
        self._web = client
        self._diagnostics = diagnostics
        self._session: dict[str, str] = {}
        """The headers that every request carries once they are known: session and version."""
        self._listening: asyncio.Task[None] | None = None

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await super().notify(method, params, opts)
        if method == "notifications/initialized" and SESSION in self._session and self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def hang_up(self) -> None:
        """End the session on the server and everything that listens to it."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        if SESSION in self._session and not self._diagnostics.lost_by_server:
            with suppress(WireError):
                async with self._web.sent("DELETE", self._web.secrets.url, self._session):
                    pass

    async def _post(
        self, data: bytes, headers: Mapping[str, str] | None = None, answer: Answer | None = None
    ) -> None:
        sent = {**ACCEPT, **self._session, **(headers or {})}
        async with self._web.sent("POST", self._web.secrets.url, sent, data) as response:
            if response.status_code >= 300:
                if answer is not None:
                    await self._refuse(response, sent)
                return
            if session := response.headers.get(SESSION):
                self._session[SESSION] = session
            if answer is not None:
                await self._receive(response, answer)
                self._agree(sent, answer)

    def _agree(self, sent: Mapping[str, str], answer: Answer) -> None:
        """Remember the version that requests are stamped with, for those that are not.

        Not that of a probe the server answered with an error: the handshake after it must not carry it.
        """
        version = sent.get(VERSION)
        if version is not None and not answer.cancelled() and answer.exception() is None:
            self.tells_cancel = version not in MODERN_PROTOCOL_VERSIONS
            self._session[VERSION] = version

    async def _receive(self, response: httpx2.Response, answer: Answer) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            self.feed(await response.aread())
        elif kind == "text/event-stream":
            place = _Place()
            await self._follow(response, answer, place)
            if self.tells_cancel:
                await self._resume(place, answer)
        if not answer.done():
            raise WireError(unusable(response), sent=True, lost=False)

    async def _follow(self, response: httpx2.Response, answer: Answer, place: "_Place") -> None:
        """Feed the events of a stream until the answer is among them."""
        with suppress(httpx2.TransportError):  # cut off: what came until then counts
            async for event in _events(response):
                place.reached(event)
                if event.data:
                    self.feed(event.data.encode())
                if answer.done():
                    break

    async def _resume(self, place: "_Place", answer: Answer) -> None:
        """Go on with a stream that ended early, as often as it does; a server may close it in between."""
        failed = 0
        while not answer.done() and place.id and failed < MOST_RESUMES:
            await asyncio.sleep(place.pause)
            headers = {**self._session, "accept": "text/event-stream", "last-event-id": place.id}
            before = place.id
            async with self._web.sent("GET", self._web.secrets.url, headers) as response:
                if response.status_code < 300:
                    await self._follow(response, answer, place)
            failed = 0 if place.id != before else failed + 1

    async def _refuse(self, response: httpx2.Response, sent: Mapping[str, str]) -> None:
        """Raise the error of a refused request: what the body says, what the status means."""
        body = await response.aread()
        error = refused(response)
        with suppress(ValueError):
            said = cast("dict[str, Any]", from_json(body)).get("error")
            match said:
                case {"code": int() as code, "message": str() as message}:
                    error = WireError(
                        message,
                        sent=True,
                        lost=False,
                        status=response.status_code,
                        code=code,
                        data=cast("dict[str, Any]", said).get("data"),
                    )
                case _:
                    pass
        modern = sent.get(VERSION) in MODERN_PROTOCOL_VERSIONS
        if not modern and SESSION in sent and _means_no_session(response.status_code, body):
            self._diagnostics.lost_by_server = True
            raise WireError(
                f"the server no longer knows the session (HTTP {response.status_code})",
                sent=False,
                status=response.status_code,
            )
        raise error

    async def _listen(self) -> None:
        """The stream of the legacy era for what a server sends unasked; some have none."""
        pause, place = LISTEN_AGAIN, _Place()
        while True:
            headers = {**self._session, "accept": "text/event-stream"}
            try:
                async with self._web.sent(
                    "GET", self._web.secrets.url, headers | ({"last-event-id": place.id} if place.id else {})
                ) as response:
                    if response.status_code in (404, 410):
                        self._lose("the server no longer knows the session")
                        return
                    if response.status_code < 300:
                        async for event in _events(response):
                            place.reached(event)
                            pause = max(LISTEN_AGAIN, place.pause)
                            if event.data:
                                self.feed(event.data.encode())
                    elif not is_temporary(response.status_code):
                        return
            except WireError as error:
                if not error.sent:
                    self._lose(error.message)
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(pause)
            pause = min(pause * 2, LISTEN_AGAIN_AT_MOST)

    def _lose(self, reason: str) -> None:
        self._diagnostics.lost_by_server = True
        self._diagnostics.lose(reason)


@dataclass(slots=True)
class _Place:
    """How far a stream of events was read, and when to come back for the rest."""

    id: str | None = None
    pause: float = RESUME_AFTER

    def reached(self, event: httpx2.ServerSentEvent) -> None:
        self.id = event.id or self.id
        if event.retry is not None:
            self.pause = min(event.retry / 1000, LISTEN_AGAIN_AT_MOST)


def _events(response: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:
    # No limit on an event: a large result is the user's choice. Our own bound is the timeout.
    return aiter(httpx2.EventSource(response, max_event_size=None))


def _means_no_session(status: int, body: bytes) -> bool:
    return status in (404, 410) or (status == 400 and b"session" in body[:2000].lower())
