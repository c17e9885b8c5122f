"""An MCP server on bare sockets: a test decides which bytes answer each request."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.servers.recording import RESULTS

Send: TypeAlias = Callable[[asyncio.StreamWriter, "Request"], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it arrived, and the JSON that answers it."""

    connection: int
    line: str
    headers: dict[str, str]
    names: tuple[str, ...]
    """The names of all headers, including repeated ones."""
    message: dict[str, Any]
    answer: bytes

    @property
    def method(self) -> str | None:
        return self.message.get("method")


class RawServer:
    """The requests so far; `send` writes the response of each `tools/call`, `send_other` all others."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.hung_up = asyncio.Event()
        """Set when a client has closed a connection."""
        self.send: Send = send_plain
        self.send_other: Send = send_plain
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def calls(self) -> list[Request]:
        return [request for request in self.requests if request.method == "tools/call"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        number = self.connections
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                request = await _read(reader, head.decode("latin-1"), number)
                self.requests.append(request)
                send = self.send if request.method == "tools/call" else self.send_other
                await send(writer, request)
                await writer.drain()
        except asyncio.IncompleteReadError:
            self.hung_up.set()
        except ConnectionError:
            self.hung_up.set()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader, head: str, connection: int) -> Request:
    line, *fields = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    message: dict[str, Any] = json.loads(body) if body else {}
    result = RESULTS.get(str(message.get("method")))
    unknown = {"error": {"code": -32601, "message": "no such method"}}
    reply = {"jsonrpc": "2.0", "id": message.get("id"), **(unknown if result is None else {"result": result})}
    return Request(
        connection=connection,
        line=line,
        headers=headers,
        names=tuple(field.partition(":")[0].lower() for field in fields),
        message=message,
        answer=json.dumps(reply).encode(),
    )


def response(body: bytes, *headers: str, status: str = "200 OK", length: bool = True) -> bytes:
    """The bytes of a response."""
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", *headers]
    if length:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def send_plain(writer: asyncio.StreamWriter, request: Request) -> None:
    """A response as servers commonly write it."""
    if request.line.startswith("POST") and "id" in request.message:
        writer.write(response(request.answer))
    else:
        writer.write(response(b"", status="202 Accepted" if request.message else "405 Method Not Allowed"))


@asynccontextmanager
async def raw_server(tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncGenerator[RawServer]:
    """Serve on a free port until the block ends."""
    server = RawServer()
    async with await asyncio.start_server(server.serve, host, 0, ssl=tls) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server


@asynccontextmanager
async def raw_unix_server(path: str) -> AsyncGenerator[RawServer]:
    """Serve on a Unix socket until the block ends."""
    server = RawServer()
    async with await asyncio.start_unix_server(server.serve, path):
        yield server
