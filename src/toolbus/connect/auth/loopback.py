"""Receive the browser at the end of a sign-in: a listener on the loopback interface, for one redirect.

It answers with fixed pages that contain no data of the request. Only the expected redirect is accepted. A
request is ignored if its path, method, host or `state` differs, or if it is too large or too slow.
"""

import asyncio
import base64
import errno
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit

from toolbus.connect.auth.failure import AuthFailure

PATH = "/callback"
HOST = "127.0.0.1"
MAX_REQUEST_BYTES = 64 * 2**10
"""Browsers send the cookies of every program on this host."""
MAX_CONNECTIONS = 32
REQUEST_SECONDS = 10.0
RESPONSE_SECONDS = 2.0
_UNAVAILABLE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""The errors of a host without IPv6 for `::1`."""
_STYLE = "body{font:18px/1.5 system-ui,sans-serif;max-width:32em;margin:20vh auto;padding:0 1em}"
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>toolbus</title>'
    "<style>{style}</style><h1>{title}</h1><p>{text}</p></html>"
)
_RECEIVED = (
    "Back to toolbus",
    "You can close this page. The program that opened it shows how the sign-in ended.",
)
_DENIED = (
    "Not signed in",
    "The sign-in was not completed. The program that opened this page shows the reason.",
)
_IGNORED = (
    "Nothing to do here",
    "This page only receives the end of a sign-in, and this was not the one it waits for.",
)


class CallbackUnavailable(AuthFailure):
    """The URL that the browser is to be sent back to cannot be used."""

    def __init__(self, redirect_uri: str, reason: str) -> None:
        self.redirect_uri = redirect_uri
        hint = "set another callback in auth"
        super().__init__(f"cannot listen at {redirect_uri}: {reason}", hint=hint, step="sign-in")


class Loopback:
    """Listens at the callback while it is entered; a callback that is not http on loopback has no listener.

    `CallbackUnavailable` if another program uses the port of the callback. One without a port gets any.
    """

    def __init__(self, callback: str | None = None) -> None:
        self._parts = urlsplit(callback or f"http://{HOST}{PATH}")
        try:
            self._port = self._parts.port or 0
        except ValueError as error:
            raise CallbackUnavailable(self._parts.geturl(), "not a valid port") from error
        self.listens = self._parts.scheme == "http" and _is_loopback(self._parts.hostname)
        self.redirect_uri = callback or self._parts.geturl()
        """The URL that the browser is sent back to; with its port once this is entered."""
        self._path = self._parts.path or "/"
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], None] = {}
        """The oldest first."""
        self._waiting: dict[str, asyncio.Future[str]] = {}

    async def __aenter__(self) -> "Loopback":
        if self.listens:
            try:
                name = self._parts.hostname or HOST
                await self._bind((HOST, "::1") if name == "localhost" else (name,))
                if not self._parts.port:
                    host = f"[{name}]" if ":" in name else name
                    self.redirect_uri = self._parts._replace(netloc=f"{host}:{self._port}").geturl()
            except BaseException:
                await self._close()
                raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._close()

    async def received(self, state: str) -> str:
        """The whole URL of the first redirect with this `state`; waits until it comes.

        The listener is closed then.
        """
        waiter = self._waiting[state] = asyncio.get_running_loop().create_future()
        try:
            query = await waiter
        finally:
            self._waiting.pop(state, None)
        await self._close()
        return f"{self.redirect_uri.partition('?')[0]}?{query}"

    async def _bind(self, hosts: Sequence[str]) -> None:
        for host in hosts:
            try:
                server = await asyncio.start_server(
                    self._accept, host, self._port, limit=MAX_REQUEST_BYTES, backlog=MAX_CONNECTIONS
                )
            except OSError as error:
                if self._servers and error.errno in _UNAVAILABLE:
                    continue
                in_use = error.errno == errno.EADDRINUSE
                reason = f"another program uses port {self._port}" if in_use else error.strerror or "refused"
                raise CallbackUnavailable(self.redirect_uri, reason) from error
            self._servers.append(server)
            # `localhost` means two addresses, and the browser may use either: one port for both.
            self._port = server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        others = self._connections.keys() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=RESPONSE_SECONDS)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio calls it in a task"
        if len(self._connections) >= MAX_CONNECTIONS:
            # The new one may be the browser, which sends its request at once.
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
        self._connections[task] = None
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            return  # closed; nobody waits for this task
        finally:
            self._connections.pop(task, None)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            return  # browsers open connections in reserve
        status, query = self._query(head)
        arguments = _arguments(query)
        waiter = self._waiter(arguments)
        page = _IGNORED if waiter is None else _DENIED if "error" in arguments else _RECEIVED
        if waiter is None and status is HTTPStatus.OK:
            status = HTTPStatus.BAD_REQUEST
        try:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(RESPONSE_SECONDS):
                    writer.write(_response(status, *page))
                    writer.close()
                    await writer.wait_closed()  # everything was sent
        finally:
            if waiter is not None and not waiter.done():
                waiter.set_result(query)

    def _query(self, head: bytes) -> tuple[HTTPStatus, str]:
        """The query of a request for the callback; otherwise the status that refuses it, and no query."""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        target, _, version = rest.partition(" ")
        hosts = [
            value for name, _, value in (line.partition(":") for line in lines) if name.lower() == "host"
        ]
        path, _, query = target.partition("?")
        if not version.startswith("HTTP/1.") or not query.isascii():
            return HTTPStatus.BAD_REQUEST, ""
        # A page of another site can make its own name resolve to this host (DNS rebinding).
        if len(hosts) != 1 or not _is_loopback(_host_name(hosts[0])):
            return HTTPStatus.MISDIRECTED_REQUEST, ""
        if path != self._path:
            return HTTPStatus.NOT_FOUND, ""
        if method != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, ""
        return HTTPStatus.OK, query

    def _waiter(self, arguments: Mapping[str, str]) -> "asyncio.Future[str] | None":
        if not arguments.keys() & {"code", "error"}:
            return None
        given = arguments.get("state", "").encode()
        for state, waiter in self._waiting.items():
            if hmac.compare_digest(state.encode(), given) and not waiter.done():
                return waiter
        return None


def _arguments(query: str) -> dict[str, str]:
    """The parameters of a redirect; none if one occurs twice, because it would be unclear which counts."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=64)
    except ValueError:
        return {}
    arguments = dict(pairs)
    return arguments if len(arguments) == len(pairs) else {}


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False


def _host_name(value: str) -> str | None:
    try:
        return urlsplit(f"//{value.strip()}").hostname
    except ValueError:
        return None


def _response(status: HTTPStatus, title: str, text: str) -> bytes:
    body = _PAGE.format(style=_STYLE, title=title, text=text).encode()
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Length": str(len(body)),
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{digest}'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        "Referrer-Policy": "no-referrer",  # the page's own URL contains the code
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Connection": "close",
    }
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = "GET"
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        *(f"{key}: {value}" for key, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
