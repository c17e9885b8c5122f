"""The HTTP front of a gateway on a real socket, and a server behind it that waits for the test."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx2
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

from tests.gateway.driving import JSON, VERSION, gateway_over
from tests.inside.config import Serve
from tests.inside.gateway import (
    Admission,
    App,
    Gateway,
    GatewayLimits,
    HttpLimits,
    HttpServer,
    PagesBeside,
    Replicas,
    listening_socket,
    tls_context,
)
from tests.patience import PATIENCE

OLDER = "2025-06-18"
"""Clients before 2025-11-25 get answers within 15 s as JSON; later ones a stream after 0.05 s."""
PREFIX = "io.modelcontextprotocol/"
BOTH = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
META: JSON = {
    f"{PREFIX}protocolVersion": VERSION,
    f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
    f"{PREFIX}clientCapabilities": {},
}


@dataclass
class Gates:
    """The gates that the tools of the server behind wait for, and their outcomes."""

    entered: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)


def gated(gates: Gates) -> MCPServer:
    """A server with tools that wait, report progress, and have their arguments mirrored in headers."""
    server: MCPServer = MCPServer("gated")

    @server.tool()
    def add(a: int, b: int) -> int:  # pyright: ignore[reportUnusedFunction]
        return a + b

    @server.tool()
    async def wait() -> str:  # pyright: ignore[reportUnusedFunction]
        gates.entered.set()
        try:
            await gates.opened.wait()
        except asyncio.CancelledError:
            gates.cancelled.set()
            raise
        return "done"

    @server.tool()
    async def steps(context: Context, wait: bool = False) -> str:  # pyright: ignore[reportUnusedFunction]
        await context.report_progress(1, 2, "half")
        gates.entered.set()
        if wait:
            await gates.opened.wait()
        await context.report_progress(2, 2, "all")
        return "done"

    @server.tool()
    async def large(context: Context, size: int, parts: int = 0) -> str:  # pyright: ignore[reportUnusedFunction]
        for part in range(parts):
            await context.report_progress(part, parts, "x" * size)
        return "x" * size

    @server.tool()
    def placed(  # pyright: ignore[reportUnusedFunction]
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    ) -> str:
        return region

    return server


@dataclass
class Front:
    """A front that is being served."""

    url: str
    port: int
    app: App
    server: HttpServer
    gateway: Gateway
    gates: Gates
    http: httpx2.AsyncClient

    async def modern(
        self,
        method: str,
        params: JSON | None = None,
        headers: Mapping[str, str] | None = None,
        **message: Any,
    ) -> httpx2.Response:
        """A request of a modern client; `headers` replace those that it would send."""
        content, sent = modern_request(method, params, headers, **message)
        return await self.http.post(self.url, content=content, headers=sent)

    async def opened(self, version: str = "2025-11-25") -> "LegacySession":
        """A session of a legacy client."""
        params: JSON = {
            "protocolVersion": version,
            "capabilities": {"elicitation": {}},
            "clientInfo": META[f"{PREFIX}clientInfo"],
        }
        message: JSON = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        response = await self.http.post(self.url, json=message, headers=BOTH)
        assert response.status_code == 200, response.text
        assert response.json()["result"]["protocolVersion"] == version
        return LegacySession(self, response.headers["mcp-session-id"], version)

    async def raw(self, data: bytes) -> bytes:
        """The response to these bytes, until the front closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            async with asyncio.timeout(PATIENCE):
                return await reader.read()
        finally:
            writer.close()


@dataclass
class LegacySession:
    """A session, and the requests in it."""

    front: Front
    id: str
    version: str

    @property
    def headers(self) -> dict[str, str]:
        return {**BOTH, "mcp-session-id": self.id, "mcp-protocol-version": self.version}

    async def post(self, message: JSON) -> httpx2.Response:
        """Send a message."""
        return await self.front.http.post(
            self.front.url, json={"jsonrpc": "2.0", **message}, headers=self.headers
        )

    async def call(self, name: str, **arguments: Any) -> httpx2.Response:
        """Call a tool."""
        return await self.post(tool_call(name, **arguments))


def tool_call(name: str, number: int = 1, token: str | None = None, **arguments: Any) -> JSON:
    """The message of a tool call."""
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return {"id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments, **meta}}


def modern_request(
    method: str, params: JSON | None = None, headers: Mapping[str, str] | None = None, **message: Any
) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a modern request."""
    params = {**(params or {})}
    params["_meta"] = {**META, **params.get("_meta", {})}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **message}
    sent = {**BOTH, "mcp-protocol-version": VERSION, "mcp-method": method}
    name = params.get("name", params.get("uri"))
    if name is not None:
        sent["mcp-name"] = name
    kept = {name: value for name, value in {**sent, **(headers or {})}.items() if value}
    return json.dumps(body).encode(), kept


def modern_bytes(port: int, method: str, params: JSON | None = None, **headers: str) -> bytes:
    """A modern request as it goes over the wire."""
    body, sent = modern_request(method, params, headers)
    lines = {"host": f"127.0.0.1:{port}", "content-length": str(len(body)), **sent}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


class Events:
    """The events of a stream, one after the other."""

    def __init__(self, response: httpx2.Response) -> None:
        self._lines = response.aiter_lines()

    async def next(self) -> dict[str, str]:
        """The fields of the next event; comments are `comment`. Empty at the end of the stream."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE):
            async for line in self._lines:
                if not line:
                    return fields
                name, _, value = line.partition(":")
                fields[name or "comment"] = value.removeprefix(" ")
        return fields

    async def message(self) -> JSON:
        """The next message."""
        while True:
            fields = await self.next()
            assert fields, "the stream has ended"
            if fields.get("data"):
                return {**json.loads(fields["data"]), "event": fields.get("id")}

    async def rest(self) -> list[JSON]:
        """All messages until the stream ends."""
        found: list[JSON] = []
        while fields := await self.next():
            if fields.get("data"):
                found.append(json.loads(fields["data"]))
        return found


@asynccontextmanager
async def front(
    limits: HttpLimits | None = None,
    access: Admission | None = None,
    settings: GatewayLimits | None = None,
    config: JSON | None = None,
    certificate: Path | None = None,
    serve: Serve | None = None,
    replicas: Replicas | None = None,
    trusted_proxies: Iterable[str] = (),
    cards: PagesBeside | None = None,
) -> AsyncGenerator[Front]:
    """A gateway over HTTP, on a free port of this machine; over HTTPS with a certificate."""
    gates = Gates()
    config = config or {"servers": {"gated": {"server": gated(gates), "prefix": ""}}}
    async with gateway_over(config, settings, serve=serve, replicas=replicas) as gateway:
        app = App(gateway, access, limits)
        if serve is not None and serve.rest:
            app.offer_rest(lambda: serve.public_url)
        app.cards = cards
        server = HttpServer(app, trusted_proxies=trusted_proxies)
        sock = listening_socket("127.0.0.1", 0)
        port = sock.getsockname()[1]
        await server.start(sock, tls_context(str(certificate)) if certificate else None)
        scheme = "https" if certificate else "http"
        verify = ssl.create_default_context(cafile=certificate) if certificate else False
        try:
            async with httpx2.AsyncClient(timeout=PATIENCE, verify=verify) as http:
                yield Front(f"{scheme}://127.0.0.1:{port}/mcp", port, app, server, gateway, gates, http)
        finally:
            await server.close()
            sock.close()
