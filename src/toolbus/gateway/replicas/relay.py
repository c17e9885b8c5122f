"""Pass a request on to the replica that has its session or its call, and its response back.

A request that was not sent can be answered elsewhere. One that was sent and has no answer may have been
carried out: its client is told so, and it is never sent again.
"""

import asyncio
import logging
import ssl
from collections.abc import Generator
from contextlib import contextmanager

from toolbus.connect.http.connection import ClientConnection
from toolbus.connect.http.pool import Pool
from toolbus.connect.http.response import HttpFailure, Response
from toolbus.connect.http.tls import unverified
from toolbus.connect.http.url import parse_url
from toolbus.core.values.records import JSONObject
from toolbus.gateway.http.request import Headers, HttpRequest, encoded, event, failure
from toolbus.gateway.protocol.words import INTERNAL_ERROR
from toolbus.gateway.replicas.arrivals import Departures
from toolbus.gateway.replicas.peers import ReplicaPeer

logger = logging.getLogger("toolbus")
HEADER = "x-toolbus-relay"
MISDIRECTED = 421
_CONNECT_SECONDS = 3.0
_SIGN_SECONDS = 2.0
_SILENCE = 60.0
"""Seconds without a sign of life after which a replica has gone: on a stream there is one more often."""
_MOST_BYTES = 256 * 1024 * 1024
# What belongs to one connection.
_NOT_PASSED = {
    *("connection", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade", "expect"),
    *("date", "accept-encoding", HEADER),
}
# By which a request is admitted: the other replica believes this one.
_ADMITTED_BY = {"host", "authorization", "cookie"}
_OF_STREAMS = {b"content-type", b"cache-control", b"x-accel-buffering"}
UNKNOWN = (
    "the replica that answered this request has ended; whether the request took effect is not known: "
    "check before you repeat it"
)


class PeerRefused(Exception):
    """The other replica did not take the request: it has ended, or does not have what it is about."""

    def __init__(self, *, has_ended: bool) -> None:
        self.has_ended = has_ended
        super().__init__()


class Relay:
    """The connections to the other replicas."""

    def __init__(self, departures: Departures) -> None:
        self._departures = departures
        self._pools: dict[tuple[str, str], Pool] = {}
        """By URL and certificate."""
        self._tls: ssl.SSLContext | None = None
        self._waiting: dict[str, set[ClientConnection]] = {}
        """The connections with a request that a replica has not answered to the end, by replica."""

    async def pass_on(
        self,
        http: HttpRequest,
        body: bytes,
        peer: ReplicaPeer,
        request_id: str | int | None = None,
        *,
        is_page: bool = False,
    ) -> None:
        """Have another replica answer a request; `PeerRefused` if it did not take it.

        `request_id` is that of the message in it, for an error. One for a page goes with its credentials.
        """
        try:
            connection = await self._connection(peer)
        except HttpFailure as error:
            raise PeerRefused(has_ended=True) from error
        with self._waiting_for(peer, connection):
            await self._pass_on(http, body, peer, connection, request_id, is_page=is_page)

    @contextmanager
    def _waiting_for(self, peer: ReplicaPeer, connection: ClientConnection) -> Generator[None]:
        """A block in which `give_up` ends the connection."""
        waiting = self._waiting.setdefault(peer.id, set())
        waiting.add(connection)
        try:
            yield
        finally:
            waiting.discard(connection)
            if not waiting:
                self._waiting.pop(peer.id, None)

    def give_up(self, replica: str) -> None:
        """A replica is dead: nobody waits for its answers any longer."""
        for connection in tuple(self._waiting.get(replica, ())):
            connection.abort()

    async def responds(self, peer: ReplicaPeer) -> bool:
        """Whether a replica itself, not another one that has its address now, gives a sign of life."""
        try:
            async with asyncio.timeout(_SIGN_SECONDS):
                connection = await self._connection(peer)
                try:
                    response = await connection.request(_head(self._departures.sealed_probe(peer.id), 0))
                except BaseException:
                    connection.abort()
                    raise
        except (HttpFailure, TimeoutError):
            return False
        return response.status != MISDIRECTED

    async def _pass_on(
        self,
        http: HttpRequest,
        body: bytes,
        peer: ReplicaPeer,
        connection: ClientConnection,
        request_id: str | int | None,
        *,
        is_page: bool,
    ) -> None:
        try:
            response = await self._sent(http, body, peer, connection, is_page=is_page)
        except HttpFailure:
            return await _respond_unknown(http, request_id)
        if response.status == MISDIRECTED:
            raise PeerRefused(has_ended=False)
        try:
            if not is_page and 300 <= response.status < 400:  # no client of MCP is sent elsewhere
                return await _respond_unknown(http, request_id)
            headers = _passed(response)
            if not response.is_stream:
                return await http.respond(response.status, response.body, headers)
            return await _copy(http, response, headers, request_id)
        finally:
            response.close()

    async def fetch_page(self, http: HttpRequest, peer: ReplicaPeer) -> bytes | None:
        """The page of another replica that a request is for; None if there is none, or it cannot be had."""
        try:
            connection = await self._connection(peer)
            with self._waiting_for(peer, connection):
                response = await self._sent(http, b"", peer, connection, is_page=True)
        except HttpFailure:
            return None
        try:
            return response.body if response.status == 200 and not response.is_stream else None
        finally:
            response.close()

    async def close(self) -> None:
        """Close the connections."""
        for pool in self._pools.values():
            await pool.close()

    async def _sent(
        self,
        http: HttpRequest,
        body: bytes,
        peer: ReplicaPeer,
        connection: ClientConnection,
        *,
        is_page: bool,
    ) -> Response:
        dropped = _NOT_PASSED if is_page else _NOT_PASSED | _ADMITTED_BY
        headers = {name: value for name, value in http.headers.items() if name not in dropped}
        sealed = self._departures.sealed(peer.id, http, headers, body, is_page=is_page)
        received = connection.request(_head(sealed, len(body)) + body)
        try:
            async with asyncio.timeout(_SILENCE):
                return await received
        except TimeoutError:
            connection.abort()
            raise HttpFailure("it did not respond", sent=True) from None
        except BaseException:
            connection.abort()
            raise

    async def _connection(self, peer: ReplicaPeer) -> ClientConnection:
        """A connection to exactly this replica."""
        pool = self._pools.get((peer.url, peer.certificate))
        if pool is None:
            url = parse_url(peer.url)
            if url.is_tls and self._tls is None:
                self._tls = unverified()
            pool = self._pools[peer.url, peer.certificate] = Pool(
                url,
                tls=self._tls,
                connect_timeout=_CONNECT_SECONDS,
                limit=_MOST_BYTES,
                certificate=peer.certificate if url.is_tls else None,
            )
        try:
            return await pool.connection()
        except HttpFailure as error:
            if isinstance(error.__cause__, ssl.SSLError):
                logger.warning("replica %s at %s is not trusted: %s", peer.id, peer.url, error)
            raise


def _head(sealed: str, size: int) -> bytes:
    """The head of a request: nothing but the seal says what it is."""
    head = f"POST / HTTP/1.1\r\nhost: replica\r\n{HEADER}: {sealed}\r\ncontent-length: {size}\r\n\r\n"
    return head.encode("ascii")


async def _copy(
    http: HttpRequest, response: Response, headers: Headers, request_id: str | int | None
) -> None:
    """Copy an event stream; one that breaks off ends with an error, because nothing more will come."""
    await http.start_stream([one for one in headers if one[0] not in _OF_STREAMS])
    chunks = response.chunks()
    try:
        while True:
            async with asyncio.timeout(_SILENCE):
                chunk = await anext(chunks, None)
            if chunk is None:
                break
            await http.write(chunk)
    except (HttpFailure, TimeoutError):
        if request_id is not None:
            await http.write(event(encoded(_unknown(request_id))))
    await http.end_stream()


async def _respond_unknown(http: HttpRequest, request_id: str | int | None) -> None:
    if request_id is None:
        await http.respond(502)
    else:
        await http.respond_json(200, _unknown(request_id))


def _unknown(request_id: str | int) -> JSONObject:
    return failure(request_id, {"code": INTERNAL_ERROR, "message": UNKNOWN})


def _passed(response: Response) -> Headers:
    headers = [*response.headers.items(), *(("set-cookie", cookie) for cookie in response.cookies)]
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in headers
        if name not in _NOT_PASSED
    ]
