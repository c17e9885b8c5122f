"""The other origin: it serves the frames of apps, and nothing else.

An app is in two frames. The outer one is ours and passes messages on. The inner one has the HTML of a server
without any origin, under the content security policy of the app.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from socket import socket
from ssl import SSLContext

from toolbus.config.settings.auth import is_loopback
from toolbus.console.apps.frames import AppFrame, AppFrames, AppPlace
from toolbus.gateway.access.hosts import HttpPeer
from toolbus.gateway.http.limits import HttpLimits, Refusals
from toolbus.gateway.http.request import Headers, HttpRequest, answer
from toolbus.gateway.http.run import HttpServer
from toolbus.gateway.metrics import Metrics

SCRIPT = "sandbox.js"
_HTML = (b"content-type", b"text/html; charset=utf-8")
_JS = (b"content-type", b"text/javascript; charset=utf-8")
_COMMON: Headers = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-dns-prefetch-control", b"off"),
)
_OUTER = "<!doctype html><meta charset=utf-8><title>app</title><body><script src=../{script} {data}></script>"


class AppSandbox:
    """An HTTP application with the frames of one console."""

    probes: frozenset[str] = frozenset()

    def __init__(self, frames: AppFrames, port: int, url: str | None = None) -> None:
        """`url` is its origin for browsers; by default, the host of the console with this port."""
        self._frames = frames
        self._port = port
        self._url = None if url is None else url.lower().rstrip("/")
        self._script = (Path(__file__).parent.parent / "static" / SCRIPT).read_bytes()
        self.limits = HttpLimits(connections=512)
        self.refusals = Refusals(Metrics())
        self.connections: Callable[[], int] = lambda: 0
        self.in_flight = 0

    def place(self, peer: HttpPeer) -> AppPlace:
        """The place of apps for the browser of a request."""
        host = f"{peer.scheme}://{peer.authority}"
        if self._url is not None and self._url != host:
            return AppPlace(origin=self._url, host=host, problem="")
        if is_loopback(peer.host):
            name = f"[{peer.host}]" if ":" in peer.host else peer.host
            return AppPlace(origin=f"{peer.scheme}://{name}:{self._port}", host=host, problem="")
        return AppPlace(host=host, problem=NO_URL)

    async def serve(self, http: HttpRequest) -> None:
        """Answer one request."""
        await answer(http, self._answer(http))

    async def _answer(self, http: HttpRequest) -> None:
        if http.facts.method not in ("GET", "HEAD"):
            return await http.respond(405, headers=_COMMON)
        first, _, rest = http.facts.path.removeprefix("/").partition("/")
        if (first, rest) == (SCRIPT, ""):
            return await http.respond(200, self._script, (*_COMMON, _JS))
        frame = self._frames.at(first)
        if frame is None or rest not in ("", "view"):
            return await http.respond(404, headers=_COMMON)
        policy, page = (frame.csp, frame.html) if rest else _outer(frame)
        return await http.respond(
            200, page, (*_COMMON, _HTML, (b"content-security-policy", policy.encode("ascii")))
        )

    async def idle(self) -> None:
        """There is nothing to wait for."""

    def tick(self) -> None:
        """Nothing is due."""

    def drain(self) -> None:
        """There are no streams."""


NO_URL = (
    "Apps are shown on an origin of their own, which this console has only for browsers on this machine. "
    "Set serve.apps.url to a second name for it, and serve.apps.http to the address behind that name."
)


def _outer(frame: AppFrame) -> tuple[str, bytes]:
    """The policy and the HTML of the outer frame."""
    view = f"{frame.origin}/{frame.place}/view"
    policy = (
        f"default-src 'none'; script-src {frame.origin}/{SCRIPT}; frame-src {view}; base-uri 'none'; "
        f"form-action 'none'; frame-ancestors {frame.host}"
    )
    data = f'data-host="{escape(frame.host)}" data-view="{escape(view)}" data-allow="{escape(frame.allow)}"'
    return policy, _OUTER.format(script=SCRIPT, data=data).encode()


@asynccontextmanager
async def open_sandbox(
    frames: AppFrames, sock: socket, *, tls: SSLContext | None = None, url: str | None = None
) -> AsyncGenerator[AppSandbox]:
    """Serve the frames of a console on a socket until the block ends."""
    sandbox = AppSandbox(frames, sock.getsockname()[1], url)
    server = HttpServer(sandbox)
    try:
        await server.start(sock, tls)
        yield sandbox
    finally:
        await server.close()
        sock.close()
