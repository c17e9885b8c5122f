"""A server with its own authorization server, on bare sockets: a test decides what each path answers."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.auth.resource_server import METADATA
from tests.servers.raw_http import response
from toolbus.records import LoginRequest

ISSUER = "/.well-known/oauth-authorization-server"


class Authority:
    """Its documents by path; the bytes in `instead` are sent in place of one."""

    def __init__(self, origin: str) -> None:
        self.url = f"{origin}/mcp"
        self.instead: dict[str, bytes] = {}
        self.asked: list[str] = []
        """The request lines so far."""
        self.metadata: dict[str, Any] = {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "device_authorization_endpoint": f"{origin}/device",
            "code_challenge_methods_supported": ["S256"],
        }
        self.documents: dict[str, dict[str, Any]] = {
            METADATA: {"resource": self.url, "authorization_servers": [origin]},
            ISSUER: self.metadata,
            "/register": {"client_id": "toolbus"},
            "/token": {"access_token": "issued", "token_type": "Bearer"},
            "/device": {"device_code": "d", "user_code": "U", "verification_uri": f"{origin}/device/enter"},
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; also one that comes by a proxy."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.lower().split("\r\n")
        self.asked.append(line)
        for field in fields:
            if field.startswith("content-length:"):
                await reader.readexactly(int(field.partition(":")[2]))
        path = urlsplit(line.split()[1]).path
        found = self.documents.get(path)
        body = self.instead.get(path, json.dumps(found).encode())
        writer.write(response(body, "connection: close", status="200 OK" if found else "404 Not Found"))
        writer.close()


@asynccontextmanager
async def authority(origin: str | None = None) -> AsyncGenerator[tuple[Authority, int]]:
    """Serve on a free port; `origin` is what it says about itself, if it is reached by a proxy."""
    held: list[Authority] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await held[0].serve(reader, writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port: int = listening.sockets[0].getsockname()[1]
        held.append(Authority(origin or f"http://127.0.0.1:{port}"))
        yield held[0], port


class Visitor:
    """A login handler: somebody who agrees at once; `pages` are those that a browser would have opened."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    async def __call__(self, request: LoginRequest) -> str | None:
        self.pages.append(request.url)
        if request.code is not None:
            return await asyncio.Future[str]()
        state = parse_qs(urlsplit(request.url).query)["state"][0]
        return f"{request.redirect_uri}?code=c&state={state}"
