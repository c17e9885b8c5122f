"""Pass a request on to the worker that it is for, over a Unix socket, and its response back to the client.

The request goes as it came, with its credentials: the other worker lets it in, or not, by itself. Before it
there is one line about the connection that the client has, which only this user's processes can write.
"""

import asyncio
import urllib.parse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import httptools
from mcp_types import INTERNAL_ERROR

from toolbus.gateway.http.protocol import Connection
from toolbus.gateway.http.request import Headers, HttpRequest, failure
from toolbus.gateway.protocol import BUSY

_HOP = frozenset(
    ("connection", "content-length", "expect", "keep-alive", "te", "transfer-encoding", "upgrade")
)
"""Headers about one connection alone."""
_OURS = frozenset((b"connection", b"content-length", b"date", b"transfer-encoding"))
_OF_STREAMS = frozenset((b"content-type", b"cache-control", b"x-accel-buffering"))
_PART = 64 * 1024
_LONGEST_LINE = 200
_RETRY: Headers = ((b"retry-after", b"1"),)


class PeerResponse:
    """The response of another worker."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._is_whole = False
        self._has_head = False
        self.headers: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self._is_whole = True

    async def _read(self) -> None:
        data = await self._reader.read(_PART)
        if not data:
            raise ConnectionResetError("the other worker has ended")
        self._parser.feed_data(data)

    async def head(self) -> None:
        """Wait for the status and the headers."""
        while not self._has_head:
            await self._read()

    @property
    def status(self) -> int:
        return self._parser.get_status_code()

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream."""
        kind = next((value for name, value in self.headers if name == b"content-type"), b"")
        return kind.startswith(b"text/event-stream")

    async def parts(self) -> AsyncGenerator[bytes]:
        """The body, as it comes."""
        while True:
            parts, self._parts = self._parts, []
            if parts:
                yield b"".join(parts)
            elif self._is_whole:
                return
            else:
                await self._read()

    async def body(self) -> bytes:
        """The whole body."""
        return b"".join([part async for part in self.parts()])


@asynccontextmanager
async def passed_on(http: HttpRequest, socket: str, body: bytes = b"") -> AsyncGenerator[PeerResponse]:
    """The response of the worker at that socket to a request; OSError if there is none."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        facts, query = http.facts, b"?" + http.query if http.query else b""
        path = urllib.parse.quote(facts.path, safe="/:@!$&'()*+,;=~")
        lines = [f"{name}: {value}" for name, value in http.headers.items() if name not in _HOP]
        lines += ["connection: close", f"content-length: {len(body)}", "", ""]
        start = f"{facts.address or '-'} {facts.scheme}\n{facts.method} {path}".encode()
        writer.write(start + query + b" HTTP/1.1\r\n" + "\r\n".join(lines).encode("latin-1") + body)
        response = PeerResponse(reader)
        await response.head()
        yield response
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def relay(http: HttpRequest, socket: str, body: bytes = b"") -> None:
    """Answer a request as the worker at that socket does."""
    try:
        async with passed_on(http, socket, body) as response:
            http.cors = ()  # the other worker has sent them
            headers = [one for one in response.headers if one[0] not in _OURS]
            if not response.is_stream:
                return await http.respond(response.status, await response.body(), headers)
            await http.start_stream([one for one in headers if one[0] not in _OF_STREAMS])
            async for part in response.parts():
                await http.write(part)
            return await http.end_stream()
    except (ConnectionRefusedError, FileNotFoundError):
        # Nothing was sent; it is being started again.
        error = {"code": BUSY, "message": "the worker is being restarted", "data": {"retryAfter": 1}}
        return await http.respond_json(503, failure(None, error), _RETRY)
    except (OSError, httptools.HttpParserError):
        if http.has_started:
            return http.connection.abort()
        error = {"code": INTERNAL_ERROR, "message": "the worker that had it ended; it may have been done"}
        return await http.respond_json(502, failure(None, error))


class RelayedConnection(Connection):
    """A connection of another worker, for one request of a client of that worker."""

    _is_introduced = False
    _line = b""

    def data_received(self, data: bytes) -> None:
        """Take the line about the client first."""
        if not self._is_introduced:
            line, found, data = (self._line + data).partition(b"\n")
            if not found:
                self._line = line
                if len(line) > _LONGEST_LINE:
                    self.abort()
                return
            address, _, self.scheme = line.decode("latin-1").partition(" ")
            self.address = "" if address == "-" else address
            self._is_introduced = True
        if data:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.address = ""  # under which it was counted
        super().connection_lost(exc)

    def _is_proxy(self) -> bool:
        return True  # the other worker has limits for its clients

    def _start(self, request: HttpRequest) -> None:
        request.is_relayed = True
        super()._start(request)
