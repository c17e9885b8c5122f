"""The proxy that the environment names for a server, and the way through it."""

import asyncio
import base64
import urllib.request
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from toolbus.connect.http.url import Url, bracketed, parse_url
from toolbus.core.text.display import ascii_authority

MAX_REPLY = 64 * 1024


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; https servers are reached by a tunnel through it."""

    url: Url
    authorization: str | None = field(default=None, repr=False)
    """The value of its `proxy-authorization` header."""


def environment_proxy(url: Url) -> Proxy | None:
    """The proxy for a URL by `http_proxy` and the like, unless `no_proxy` names it; ValueError if invalid."""
    if url.socket_path is not None or _bypasses(url):
        return None
    proxies = urllib.request.getproxies()
    text = proxies.get(url.scheme) or proxies.get("all")
    if not text:
        return None
    text = text if "://" in text else f"http://{text}"
    proxy = parse_url(text)
    userinfo = text.partition("://")[2].partition("/")[0].rpartition("@")[0]
    basic = base64.b64encode(unquote_to_bytes(userinfo)).decode() if userinfo else None
    return Proxy(proxy, f"Basic {basic}" if basic else None)


def _bypasses(url: Url) -> bool:
    urllib_request = cast(Any, urllib.request)  # typeshed does not know these functions
    hosts = (url.host, f"{url.host}:{url.port}")
    listed: dict[str, str] = urllib_request.getproxies_environment()
    if listed.get("no", "").isascii():
        return any(bool(urllib_request.proxy_bypass(host)) for host in hosts)
    listed["no"] = ",".join(map(_ascii_name, listed["no"].split(",")))
    return any(bool(urllib_request.proxy_bypass_environment(host, listed)) for host in hosts)


def _ascii_name(name: str) -> str:
    """An entry of `no_proxy` as hosts are compared with it; what is not a name matches none."""
    try:
        return ascii_authority(name.strip().lstrip("."))
    except ValueError:
        return name


async def open_tunnel(transport: asyncio.Transport, proxy: Proxy, url: Url) -> None:
    """Ask the proxy for a tunnel; OSError if it refuses."""
    host = bracketed(url.host)
    lines = [f"CONNECT {host}:{url.port} HTTP/1.1", f"host: {host}:{url.port}"]
    if proxy.authorization is not None:
        lines.append(f"proxy-authorization: {proxy.authorization}")
    reply = _Reply()
    transport.set_protocol(reply)
    transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    status = await reply.status
    if not 200 <= status < 300:
        reason = "it requires credentials" if status == 407 else "it refused"
        raise OSError(
            f"the proxy {proxy.url.authority} does not connect to the server: {reason} (HTTP {status})"
        )


class _Reply(asyncio.Protocol):
    """Reads the head of the proxy's reply."""

    def __init__(self) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        if b"\r\n\r\n" not in self._data and len(self._data) < MAX_REPLY:
            return
        match self._data.partition(b"\r\n")[0].split(b" ", 2):
            case [version, code, *_] if version.startswith(b"HTTP/1.") and code.isdigit() and len(code) == 3:
                self._resolve(int(code))
            case _:
                self._resolve(OSError("the proxy's reply is not HTTP"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._resolve(OSError("the proxy closed the connection"))

    def _resolve(self, outcome: int | OSError) -> None:
        if self.status.done():
            return
        if isinstance(outcome, int):
            self.status.set_result(outcome)
        else:
            self.status.set_exception(outcome)


def as_transport(transport: asyncio.BaseTransport | None) -> asyncio.Transport:
    """The transport of a connection that is up."""
    assert transport is not None
    return cast(asyncio.Transport, transport)
