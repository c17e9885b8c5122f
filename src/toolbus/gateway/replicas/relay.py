"""Pass a request on to the replica that has its session or its call, and its response back.

A request that was not sent can be answered elsewhere. One that was sent and has no answer may have been
carried out: its client is told so, and it is never sent again.
"""

import asyncio
import ssl
import urllib.parse
from dataclasses import asdict
from hashlib import sha256
from typing import Any, NamedTuple

from toolbus.connect.http.pool import Pool
from toolbus.connect.http.response import HttpFailure, Response
from toolbus.connect.http.url import parse_url
from toolbus.core.records import JSONObject
from toolbus.gateway.http.request import Headers, HttpRequest, encoded, event, failure
from toolbus.gateway.principal import Principal
from toolbus.gateway.protocol import INTERNAL_ERROR
from toolbus.gateway.replicas.peers import Peer
from toolbus.state.seal import Seal

HEADER = "x-toolbus-relay"
MISDIRECTED = 421
_PURPOSE = "relay"
_SECONDS = 60.0
"""For how long a request may be on its way."""
_CONNECT_SECONDS = 3.0
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


class NotThere(Exception):
    """The other replica did not take the request: it has ended, or does not have what it is about."""

    def __init__(self, *, has_ended: bool) -> None:
        self.has_ended = has_ended
        super().__init__()


class Passed(NamedTuple):
    """What another replica says of a request that it passed on."""

    principal: Principal | None
    """Who made it; None if it comes with its credentials, for a page."""
    body: str
    """The digest of its body."""
    address: str
    """That of the client."""
    scheme: str


class Relay:
    """The connections to the other replicas."""

    def __init__(self, seal: Seal, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is for replicas whose URLs begin with https."""
        self._seal = seal
        self._tls = tls
        self._pools: dict[str, Pool] = {}
        """By URL."""

    async def pass_on(
        self,
        http: HttpRequest,
        body: bytes,
        peer: Peer,
        request_id: str | int | None = None,
        *,
        is_page: bool = False,
    ) -> None:
        """Have another replica answer a request; `NotThere` if it did not take it.

        `request_id` is that of the message in it, for an error. One for a page goes with its credentials.
        """
        try:
            response = await self._sent(http, body, peer, is_page=is_page)
        except HttpFailure as error:
            if not error.sent:
                raise NotThere(has_ended=True) from error
            return await _respond_unknown(http, request_id)
        if response.status == MISDIRECTED:
            raise NotThere(has_ended=False)
        try:
            headers = _passed(response)
            if not response.is_stream:
                return await http.respond(response.status, response.body, headers)
            return await _copy(http, response, headers, request_id)
        finally:
            response.close()

    async def fetch_page(self, http: HttpRequest, peer: Peer) -> bytes | None:
        """The page of another replica that a request is for; None if there is none, or it cannot be had."""
        try:
            response = await self._sent(http, b"", peer, is_page=True)
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

    async def _sent(self, http: HttpRequest, body: bytes, peer: Peer, *, is_page: bool) -> Response:
        url = parse_url(peer.url)
        pool = self._pools.get(peer.url)
        if pool is None:
            pool = self._pools[peer.url] = Pool(
                url, tls=self._tls, connect_timeout=_CONNECT_SECONDS, limit=_MOST_BYTES
            )
        facts = http.facts
        payload: JSONObject = {
            "principal": None if is_page else asdict(http.principal),
            "body": sha256(body).hexdigest(),
            "address": facts.address,
            "scheme": facts.scheme,
        }
        dropped = _NOT_PASSED if is_page else _NOT_PASSED | _ADMITTED_BY
        path = urllib.parse.quote(facts.path, safe="/:@!$&'()*+,;=~")  # it was decoded
        query = f"?{http.query.decode('latin-1')}" if http.query else ""
        method = "GET" if facts.method == "HEAD" else facts.method  # then the body has its length
        lines = [f"{method} {path}{query} HTTP/1.1", *([] if is_page else [f"host: {url.authority}"])]
        lines += [f"{name}: {value}" for name, value in http.headers.items() if name not in dropped]
        lines += [f"{HEADER}: {self._seal.seal(_PURPOSE, peer.id, payload, _SECONDS)}"]
        lines += [f"content-length: {len(body)}", "", ""]
        connection = await pool.connection()
        received = connection.request("\r\n".join(lines).encode("latin-1") + body)
        try:
            async with asyncio.timeout(_SILENCE):
                return await received
        except TimeoutError:
            connection.abort()
            raise HttpFailure("it did not respond", sent=True) from None
        except BaseException:
            connection.abort()
            raise


def relayed(seal: Seal, replica: str, text: str) -> Passed | None:
    """What another replica says of a request that it passed on; None if none did."""
    payload: Any = seal.opened(_PURPOSE, replica, text)
    if payload is None:
        return None
    given = payload["principal"]
    try:
        principal = None if given is None else Principal.read(given)
    except KeyError:  # a replica of another version: here, that is nobody
        return None
    return Passed(principal, payload["body"], payload["address"], payload["scheme"])


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
