"""An HTTP API on bare sockets, which keeps the requests that it got, and a sender for it."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.inside.connect import Attempt, Diagnostics, StaticHeaders, parse_url
from tests.inside.openapi import ApiOperation, Reach, Sender, api_sender
from tests.openapi.operations import operation
from toolbus.config import Resolved, load_server


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    names: tuple[str, ...]
    """The names of all headers, including repeated ones."""
    body: bytes


Answer = Callable[[asyncio.StreamWriter, Received], Awaitable[None]]


async def answer_plain(writer: asyncio.StreamWriter, request: Received) -> None:
    """An empty JSON object."""
    writer.write(http_response(b"{}"))


def http_response(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """The bytes of a response; its content type is JSON, unless a header sets another one."""
    kind = (
        ()
        if any(h.lower().startswith("content-type:") for h in headers)
        else ("content-type: application/json",)
    )
    lines = [f"HTTP/1.1 {status}", *kind, *headers, f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


class ApiServer:
    """The requests so far; `answer` writes each response."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Answer = answer_plain
        self.hung_up = asyncio.Event()
        """Set when a client has closed a connection."""
        self.port = 0
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def operation(self, path: str = "/things", *parameters: Any, **more: Any) -> ApiOperation:
        """An operation of this API."""
        given: dict[str, Any] = {"server": self.url, **more}
        return operation(path, *parameters, **given)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *fields = head.decode("latin-1").strip().split("\r\n")
                method, target, _ = line.split(" ")
                pairs = [(name.lower(), text.strip()) for name, _, text in (f.partition(":") for f in fields)]
                body = await reader.readexactly(int(dict(pairs).get("content-length", 0)))
                names = tuple(name for name, _ in pairs)
                request = Received(method=method, target=target, headers=dict(pairs), names=names, body=body)
                self.received.append(request)
                await self.answer(writer, request)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.hung_up.set()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def api_server(tls: ssl.SSLContext | None = None) -> AsyncGenerator[ApiServer]:
    """Serve on a free port until the block ends."""
    server = ApiServer()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        server.scheme = "https" if tls else "http"
        yield server


@asynccontextmanager
async def sender_for(
    own: str,
    *named: str,
    allowed: tuple[str, ...] = (),
    allow_private: bool = False,
    credentials: dict[str, str] | None = None,
    query: dict[str, str] | None = None,
    **config: Any,
) -> AsyncGenerator[Sender]:
    """A sender for the API at `own`, whose owner named the other URLs."""
    server = load_server({"url": own, **config}, alias="api")
    attempt = Attempt(
        config=server,
        values=Resolved(url=own),
        credentials=StaticHeaders(credentials or {}),
        diagnostics=Diagnostics(),
        warn=lambda _: None,
    )
    reach = Reach(
        own=parse_url(own),
        named=[*map(parse_url, named)],
        allowed=[*map(parse_url, allowed)],
        allow_private=allow_private,
    )
    async with api_sender(attempt, reach, query) as sender:
        yield sender
