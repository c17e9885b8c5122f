"""Pass a request on to the replica that has its session or its call, and its response back.

A request that was not sent can be answered elsewhere. One that was sent and has no answer may have been
carried out: its client is told so, and it is never sent again.
"""

import asyncio
import ssl
from dataclasses import asdict
from hashlib import sha256
from typing import Any

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
# What belongs to one connection, and the credential: the other replica believes this one.
_NOT_PASSED = {
    *("connection", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade", "expect"),
    *("host", "authorization", "cookie", "date", "accept-encoding", HEADER),
}
UNKNOWN = (
    "the replica that answered this request has ended; whether the request took effect is not known: "
    "check before you repeat it"
)


class NotThere(Exception):
    """The other replica did not take the request: it has ended, or does not have what it is about."""

    def __init__(self, *, has_ended: bool) -> None:
        self.has_ended = has_ended
        super().__init__()


class Relay:
    """The connections to the other replicas."""

    def __init__(self, seal: Seal, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is for replicas whose URLs begin with https."""
        self._seal = seal
        self._tls = tls
        self._pools: dict[str, Pool] = {}
        """By URL."""

    async def pass_on(
        self, http: HttpRequest, body: bytes, peer: Peer, request_id: str | int | None = None
    ) -> None:
        """Have another replica answer a request; `NotThere` if it did not take it.

        `request_id` is that of the message in it, for an error.
        """
        try:
            response = await self._sent(http, body, peer)
        except HttpFailure as error:
            if not error.sent:
                raise NotThere(has_ended=True) from error
            return await _respond_unknown(http, request_id)
        if response.status == MISDIRECTED:
            raise NotThere(has_ended=False)
        try:
            headers = _passed(response.headers)
            if not response.is_stream:
                return await http.respond(response.status, response.body, headers)
            return await _copy(http, response, headers, request_id)
        finally:
            response.close()

    async def close(self) -> None:
        """Close the connections."""
        for pool in self._pools.values():
            await pool.close()

    async def _sent(self, http: HttpRequest, body: bytes, peer: Peer) -> Response:
        url = parse_url(peer.url)
        pool = self._pools.get(peer.url)
        if pool is None:
            pool = self._pools[peer.url] = Pool(
                url, tls=self._tls, proxy=None, connect_timeout=_CONNECT_SECONDS, limit=_MOST_BYTES
            )
        digest = sha256(body).hexdigest()
        payload: JSONObject = {"principal": asdict(http.principal), "body": digest}
        lines = [f"{http.facts.method} {http.facts.path} HTTP/1.1", f"host: {url.authority}"]
        lines += [f"{name}: {value}" for name, value in http.headers.items() if name not in _NOT_PASSED]
        lines += [f"{HEADER}: {self._seal.seal(_PURPOSE, peer.id, payload, _SECONDS)}"]
        lines += [f"content-length: {len(body)}", "", ""]
        data = "\r\n".join(lines).encode("latin-1") + body
        connection = await pool.connection()
        received = connection.request(data)
        try:
            async with asyncio.timeout(_SILENCE):
                return await received
        except TimeoutError:
            connection.abort()
            raise HttpFailure("it did not respond", sent=True) from None
        except BaseException:
            connection.abort()
            raise


def relayed(seal: Seal, replica: str, text: str) -> tuple[Principal, str] | None:
    """Who made a request that another replica passed on, and the digest of its body; None if none did."""
    payload: Any = seal.opened(_PURPOSE, replica, text)
    if payload is None:
        return None
    principal = payload["principal"]
    known = {name: principal[name] for name in ("name", "user", "view", "expires")}
    return Principal(**known), payload["body"]


async def _copy(
    http: HttpRequest, response: Response, headers: Headers, request_id: str | int | None
) -> None:
    """Copy an event stream; one that breaks off ends with an error, because nothing more will come."""
    await http.start_stream([one for one in headers if one[0] not in (b"content-type", b"cache-control")])
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


def _passed(headers: dict[str, str]) -> Headers:
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in headers.items()
        if name not in _NOT_PASSED
    ]
