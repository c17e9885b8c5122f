"""An MCP server that accepts tokens of an authorization server: a resource server.

Run as a program, with its settings as JSON, it writes its port to a file. /test/ returns what it counted.
"""

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from mcp.server.mcpserver import Context, MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests import warm
from tests.auth.token_check import Refused, TokenCheck
from tests.patience import PATIENCE
from tests.servers.everyday import listening_socket, run_app

ROOT = Path(__file__).parents[2]
METADATA = "/.well-known/oauth-protected-resource/mcp"
SUBJECT = "x-subject"


@dataclass
class Seen:
    """Counts of the incoming requests."""

    requests: Counter[str] = field(default_factory=Counter[str])
    """By method, tool and status: `tools/call whoami 200`."""
    slow: asyncio.Condition = field(default_factory=asyncio.Condition)
    slow_now: int = 0
    slow_most: int = 0
    """The maximum number of concurrent slow calls."""

    def forget(self) -> None:
        self.requests.clear()
        self.slow_most = 0


def subject(ctx: Context) -> str:
    """The user who makes the request, according to the token."""
    assert ctx.headers is not None
    return ctx.headers[SUBJECT]


def offered(seen: Seen) -> MCPServer:
    """The tools, resources and prompts for admitted users."""
    server: MCPServer = MCPServer("guarded")

    @server.tool(structured_output=False)
    def whoami(ctx: Context) -> str:
        """Who is calling."""
        return subject(ctx)

    @server.tool(structured_output=False)
    async def slow(ctx: Context, together: int = 1) -> str:
        """Take a second, and longer until that many calls have been under way at once."""
        async with asyncio.timeout(PATIENCE), seen.slow:
            seen.slow_now += 1
            seen.slow_most = max(seen.slow_most, seen.slow_now)
            seen.slow.notify_all()
            await seen.slow.wait_for(lambda: seen.slow_most >= together)
        await asyncio.sleep(1)
        seen.slow_now -= 1
        return subject(ctx)

    @server.tool(structured_output=False)
    def admin(ctx: Context) -> str:
        """Needs a scope of its own."""
        return f"admin {subject(ctx)}"

    @server.resource("user://{part}")
    def user(part: str, ctx: Context) -> str:
        """Who is reading."""
        return f"{part} of {subject(ctx)}"

    @server.prompt()
    def greet(ctx: Context) -> str:
        """Greet whoever asks."""
        return f"Greet {subject(ctx)}"

    return server


@dataclass
class Guarded:
    """The server behind the check of tokens."""

    inner: ASGIApp
    check: TokenCheck
    metadata: dict[str, Any]
    scheme: str
    seen: Seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
        elif scope["path"] == METADATA:
            self.seen.requests[METADATA] += 1
            await JSONResponse(self.metadata)(scope, receive, send)
        elif scope["path"] == "/test/":
            if scope["method"] == "DELETE":
                self.seen.forget()
            counts = {"requests": self.seen.requests, "slow_most": self.seen.slow_most}
            await JSONResponse(counts)(scope, receive, send)
        else:
            await self._let_in(scope, receive, send)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        message = json.loads(body or b"{}")
        tool = str(message.get("params", {}).get("name", "")) if "method" in message else ""
        name = " ".join(filter(None, (message.get("method", scope["method"]), tool)))
        try:
            needed = "admin" if tool == "admin" else "tools"
            who = self.check.subject(scope["method"], request.headers, needed)
        except Refused as refused:
            self.seen.requests[f"{name} {refused.status}"] += 1
            await self._refusal(refused)(scope, receive, send)
            return
        self.seen.requests[f"{name} {who}"] += 1
        theirs = [(key, value) for key, value in scope["headers"] if key != SUBJECT.encode()]
        headers = [*theirs, (SUBJECT.encode(), who.encode())]
        await self.inner({**scope, "headers": headers}, _again(body, receive), send)

    def _refusal(self, refused: Refused) -> Response:
        metadata = self.check.resource.removesuffix("/mcp") + METADATA
        headers = {"WWW-Authenticate": f'{self.scheme} {refused.challenge}, resource_metadata="{metadata}"'}
        if refused.nonce:
            headers["DPoP-Nonce"] = refused.nonce
        return JSONResponse({"error": "refused"}, refused.status, headers)


def _again(body: bytes, receive: Receive) -> Receive:
    """The part of a request that was already read, then the rest."""
    read: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return read.pop() if read else await receive()

    return receive_again


def serve(settings: dict[str, Any]) -> None:
    """Serve on a free port of loopback."""
    listening = listening_socket()
    resource = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    seen = Seen()
    app = Guarded(
        offered(seen).streamable_http_app(),
        TokenCheck(
            issuer=settings["issuer"],
            resource=resource,
            keys=jwt.PyJWKClient(f"{settings['issuer']}/jwks"),
            nonces=settings["nonces"],
        ),
        {
            "resource": resource,
            "authorization_servers": [settings["issuer"]],
            "scopes_supported": ["tools"],
            "dpop_bound_access_tokens_required": settings["dpop"],
        }
        | settings["metadata"],
        "DPoP" if settings["dpop"] else "Bearer",
        seen,
    )
    run_app(app, listening, settings["port_file"])


@dataclass(frozen=True, slots=True)
class ResourceServer:
    """Its address, and its counts of requests."""

    url: str

    def counts(self) -> dict[str, int]:
        """The number of incoming requests: `tools/call whoami ann`, or with the status of refused ones."""
        return self._ask()["requests"]

    def slow_most(self) -> int:
        """The maximum number of concurrent calls of `slow`."""
        return self._ask()["slow_most"]

    def reset(self) -> None:
        """Forget the counts."""
        self._ask("DELETE")

    def _ask(self, method: str = "GET") -> dict[str, Any]:
        request = urllib.request.Request(self.url.removesuffix("/mcp") + "/test/", method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return json.load(response)


@contextmanager
def resource_server(
    issuer: str,
    folder: Path,
    *,
    dpop: bool = False,
    nonces: bool = False,
    metadata: dict[str, Any] | None = None,
) -> Generator[ResourceServer]:
    """Start one that trusts `issuer`; `metadata` is laid over its metadata."""
    port_file = folder / "resource.port"
    settings = {
        "issuer": issuer,
        "port_file": str(port_file),
        "dpop": dpop,
        "nonces": nonces,
        "metadata": metadata or {},
    }
    command = [warm.python(), "-m", "tests.auth.resource_server", json.dumps(settings)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        while not port_file.exists():
            assert process.poll() is None, "the resource server ended at once"
            assert time.monotonic() < deadline, "the resource server did not start"
            time.sleep(0.005)
        yield ResourceServer(f"http://127.0.0.1:{port_file.read_text()}/mcp")
    finally:
        process.terminate()
        process.wait(PATIENCE)
        port_file.unlink(missing_ok=True)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
