"""Pass a request on to the replica that has its session or its call, and its response back.

A request that was not sent can be answered elsewhere. One that was sent and has no answer may have been
carried out: its client is told so, and it is never sent again.

A request that is passed on is sealed, for one replica and for one use. All that decides what it does is in
the seal. The replica that takes it believes nothing else: an attacker between two replicas can neither change
a request nor send it again.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count

from toolbus.connect.http.connection import ClientConnection
from toolbus.connect.http.pool import Pool
from toolbus.connect.http.response import HttpFailure, Response
from toolbus.connect.http.tls import unverified
from toolbus.connect.http.url import parse_url
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.access.admission import RequestFacts
from toolbus.gateway.http.request import Headers, HttpRequest, encoded, event, failure
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.protocol.words import INTERNAL_ERROR
from toolbus.gateway.replicas.peers import ReplicaPeer
from toolbus.gateway.rest.problems import CallProblem, problem_answer, respond
from toolbus.state.seal import Seal
from toolbus.state.store.store import Allowance

logger = logging.getLogger("toolbus")

# The seals of forwarded requests

PROBE = "/healthz"
_PURPOSE = "relayed request"
_SECONDS = 60.0
"""For how long a request may be on its way."""
_WINDOW = 32 * 1024
"""The most requests of one replica that may overtake an earlier one."""
_NUMBERS = (1 << _WINDOW) - 1
_MOST_SENDERS = 256
"""Replicas whose numbers are remembered; those that sent nothing for a while are forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedRequest:
    """A request that another replica forwarded."""

    principal: Principal | None
    """The client; None if the request has its credentials, for a page."""
    facts: RequestFacts
    query: bytes
    body: str
    """The digest of its body."""
    patience: float | None
    """Seconds that it may still wait for the store; None if an older version forwarded it."""


class Departures:
    """Seals and numbers the requests that this replica forwards."""

    def __init__(self, seal: Seal, own: str) -> None:
        self._seal = seal
        self._own = own
        self._numbers = count(1)

    def sealed(
        self, to: str, http: HttpRequest, headers: Mapping[str, str], body: bytes, *, is_page: bool
    ) -> str:
        """A request with some of its headers, for the replica with the id `to` alone."""
        facts = http.facts
        return self._sealed(
            to,
            principal=None if is_page else http.principal.json(with_token=True),  # sealed
            method="GET" if facts.method == "HEAD" else facts.method,  # then the body has its length
            path=facts.path,
            query=http.query.decode("latin-1"),
            headers=dict(headers),
            body=sha256(body).hexdigest(),
            address=facts.address,
            scheme=facts.scheme,
            patience=None if (waits := Allowance.current.get()) is None else waits.left,
        )

    def sealed_probe(self, to: str) -> str:
        """A request that the replica with the id `to` answers at once, and no other that has its address."""
        body, nobody = sha256(b"").hexdigest(), {"principal": None, "address": "", "scheme": "http"}
        return self._sealed(to, method="GET", path=PROBE, query="", headers={}, body=body, **nobody)

    def _sealed(self, to: str, **payload: JSON) -> str:
        payload = {"from": self._own, "number": next(self._numbers), **payload}
        return self._seal.seal(_PURPOSE, to, payload, _SECONDS)


class Arrivals:
    """Opens the seals of the requests that this replica gets; each once."""

    def __init__(self, seal: Seal, own: str) -> None:
        self._seal = seal
        self._own = own
        self._senders: dict[str, _Numbers] = {}

    def opened(self, text: str) -> ForwardedRequest | None:
        """The request; None if no replica sealed it for this one, or it came before."""
        payload = self._seal.opened(_PURPOSE, self._own, text)
        if payload is None or not self._sender(payload["from"]).use(payload["number"]):
            return None
        given = payload["principal"]
        try:
            principal = None if given is None else Principal.read(given)
        except KeyError:  # a replica of another version: here, that is nobody
            return None
        return ForwardedRequest(
            principal=principal,
            facts=RequestFacts(
                method=payload["method"],
                path=payload["path"],
                headers=payload["headers"],
                address=payload["address"],
                scheme=payload["scheme"],
            ),
            query=payload["query"].encode("latin-1"),
            body=payload["body"],
            patience=payload.get("patience"),
        )

    def _sender(self, replica: str) -> "_Numbers":
        found = self._senders.get(replica)
        if found is None:
            if len(self._senders) >= _MOST_SENDERS:
                # By now, what the others sent has expired.
                oldest = time.monotonic() - 2 * _SECONDS
                self._senders = {name: one for name, one in self._senders.items() if one.used > oldest}
            found = self._senders[replica] = _Numbers()
        return found


@dataclass(slots=True, eq=False)
class _Numbers:
    """The numbers that a replica has used, in a window that moves with the highest one."""

    highest: int = 0
    bits: int = 0
    """Bit n stands for the number that is n below the highest."""
    used: float = field(default_factory=time.monotonic)

    def use(self, number: int) -> bool:
        """Use a number; False if it was used, or is so low that nobody knows."""
        self.used = time.monotonic()
        below = self.highest - number
        if below < 0:
            self.bits = (self.bits << min(-below, _WINDOW) | 1) & _NUMBERS
            self.highest = number
            return True
        if below >= _WINDOW or self.bits >> below & 1:
            return False
        self.bits |= 1 << below
        return True


# The connections to the other replicas

HEADER = "x-toolbus-relay"
MISDIRECTED = 421
_CONNECT_SECONDS = 3.0
_SIGN_SECONDS = 2.0
_SILENCE = 60.0
"""Seconds without a byte after which a replica has gone; streams have a heartbeat more often."""
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
        """The connections by URL and certificate."""
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

        `request_id` is the id of the message in it, for an error. A request for a page goes with its
        credentials.
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
        """Whether a replica itself responds, and not another one that has its address now."""
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
    if http.is_rest:
        return await respond(http, problem_answer(CallProblem(502, "connection_lost", UNKNOWN, sent=True)))
    if request_id is None:
        return await http.respond(502)
    return await http.respond_json(200, _unknown(request_id))


def _unknown(request_id: str | int) -> JSONObject:
    return failure(request_id, {"code": INTERNAL_ERROR, "message": UNKNOWN})


def _passed(response: Response) -> Headers:
    headers = [*response.headers.items(), *(("set-cookie", cookie) for cookie in response.cookies)]
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in headers
        if name not in _NOT_PASSED
    ]
