"""Two gateways on one store, and an attacker on the wire between them: reads, changes, repeats requests."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from mcp.server.mcpserver import MCPServer

from tests.gateway.front import Front, front
from tests.inside.gateway import Admission, HttpServer, ReplicaFront, Replicas, listening_socket
from tests.inside.state import Cipher, Store, kept_seal, parse_store_url
from tests.patience import PATIENCE


@dataclass(slots=True)
class Wire:
    """A man in the middle: he has all messages, and the power to change them."""

    target: int
    """The port where the replica really listens."""
    port: int = 0
    change: Callable[[bytes], bytes] = field(default=lambda sent: sent)
    seen: list[bytes] = field(default_factory=list[bytes])
    """The requests as they were sent."""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward requests, and their responses."""
        there, to_there = await asyncio.open_connection("127.0.0.1", self.target)
        back = asyncio.create_task(_copy(there, writer))
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                request = await _request(reader)
                self.seen.append(request)
                to_there.write(self.change(request))
        to_there.close()
        await back
        writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    return head + await reader.readexactly(length)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)


def changed(request: bytes, first_line: str | None = None, **headers: str) -> bytes:
    """A request with another first line, and with these headers instead of its own."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    new = {name.replace("_", "-"): value for name, value in headers.items()}
    kept = [line for line in lines if line.partition(":")[0].lower() not in new]
    added = [f"{name}: {value}" for name, value in new.items()]
    return "\r\n".join([first_line or first, *kept, *added]).encode("latin-1") + b"\r\n\r\n" + body


async def sent_to(port: int, request: bytes) -> int:
    """The status of the response to a request that somebody sends to a port of replicas."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(PATIENCE):
            return int((await reader.readline()).split()[1])
    finally:
        writer.close()


@dataclass(slots=True, kw_only=True)
class Pair:
    """The replica that has sessions and calls, another one, and the wire from there to the first."""

    owner: Front
    other: Front
    wire: Wire
    other_port: int
    """The port where the other one accepts requests of replicas."""
    calls: list[str]
    """The notes, call by call."""
    store: Store


def _noting(calls: list[str]) -> MCPServer:
    server: MCPServer = MCPServer("noting")

    @server.tool()
    def note(text: str) -> str:  # pyright: ignore[reportUnusedFunction]
        calls.append(text)
        return text

    return server


@asynccontextmanager
async def pair(folder: Path, access: Admission | None = None) -> AsyncGenerator[Pair]:
    """Two gateways in this process, which reach each other over sockets only.

    `access` decides who may use the one that has sessions and calls.
    """
    calls: list[str] = []
    config = {"servers": {"noting": {"server": _noting(calls), "prefix": ""}}}
    async with AsyncExitStack() as stack:
        store = Store(parse_store_url(f"sqlite:///{folder / 'store.db'}"), Cipher([b"k" * 32]))
        await stack.enter_async_context(store)
        seal = await kept_seal(store)
        fronts: list[Front] = []
        ports: list[int] = []
        for who in (access, None):
            replicas = Replicas(store, seal, session_seconds=600)
            stack.push_async_callback(replicas.close)
            served = await stack.enter_async_context(front(access=who, config=config, replicas=replicas))
            server, sock = HttpServer(ReplicaFront(served.app, replicas)), listening_socket("127.0.0.1", 0)
            stack.callback(sock.close)
            stack.push_async_callback(server.close)
            await server.start(sock)
            fronts.append(served)
            ports.append(sock.getsockname()[1])
        wire = Wire(ports[0])
        listener = await asyncio.start_server(wire.connected, "127.0.0.1", 0)
        stack.callback(listener.close)
        wire.port = listener.sockets[0].getsockname()[1]
        for served, port in zip(fronts, (wire.port, ports[1]), strict=True):
            assert served.gateway.replicas is not None
            await served.gateway.replicas.peers.start(f"http://127.0.0.1:{port}")
        yield Pair(owner=fronts[0], other=fronts[1], wire=wire, other_port=ports[1], calls=calls, store=store)
