"""The address and the host name of a request: the defense against DNS rebinding and forged headers.

A web page can have its own name point to this machine, and then send requests to a gateway on it. So the
`Host` must be a name of the gateway, and the `Origin`, if there is one, a page that may use it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from toolbus.config.settings.auth import is_loopback
from toolbus.config.settings.serve import Serve
from toolbus.core.fast_init import with_fast_init
from toolbus.gateway.access.admission import RequestFacts

_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?", re.IGNORECASE)
_EXPOSED = (
    "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after, location, etag, idempotent-replayed"
)
_PREFLIGHT_SECONDS = "600"
_USUAL_PORTS = {"http": ":80", "https": ":443"}


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPeer:
    """The client of a request, seen past trusted proxies."""

    address: str
    scheme: str
    authority: str
    """The host, and the port if it is not the usual one, in lower case."""
    origin: str | None

    @property
    def host(self) -> str:
        """Without the port; an IPv6 address without brackets."""
        return _host_of(self.authority)


class Misdirected(Exception):
    """A request with a foreign host (421) or from a foreign page (403)."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(reason)


class Hosts:
    """The names of a gateway, the pages that may use it, and its trusted proxies."""

    def __init__(self, serve: Serve) -> None:
        public = urlsplit(serve.public_url or "")
        own = [public.netloc.lower()] if serve.public_url else []
        self._hosts = {host.lower() for host in (*serve.hosts, *own)}
        self._pages = {origin.lower().rstrip("/") for origin in serve.origins}
        self._own_pages = {f"{public.scheme}://{public.netloc}".lower()} if serve.public_url else set[str]()
        self._proxies = tuple(ip_network(proxy, strict=False) for proxy in serve.trusted_proxies)

    def peer(self, facts: RequestFacts) -> HttpPeer:
        """The client of a request; `X-Forwarded-*` is used only if a trusted proxy sent it."""
        headers = facts.headers
        address, scheme, authority = _plain(facts.address), facts.scheme, headers.get("host", "")
        if self._is_proxy(address):
            address = self._forwarded(headers, address)
            scheme = _last(headers, "x-forwarded-proto") or scheme
            authority = _last(headers, "x-forwarded-host") or authority
        origin = headers.get("origin")
        return HttpPeer(
            address=address,
            scheme="https" if scheme.lower() in ("https", "wss") else "http",
            authority=authority.lower(),
            origin=None if origin is None else origin.lower().rstrip("/"),
        )

    def check(self, peer: HttpPeer) -> None:
        """`Misdirected` if the request came by a foreign name, or from a foreign page."""
        if peer.authority not in self._hosts and peer.host not in self._hosts and not _is_here(peer.host):
            raise Misdirected(421, f"unknown host {_quoted(peer.authority)}; list it in serve.hosts")
        if peer.origin is None or peer.origin in self._pages or peer.origin in self._own_pages:
            return
        # A page of this machine, which asked for this machine.
        is_local_page = _is_here(_host_of(peer.origin.partition("://")[2])) and _is_here(peer.host)
        if not is_local_page or not _is_here(peer.address):
            raise Misdirected(403, f"unknown origin {_quoted(peer.origin)}; list it in serve.origins")

    def is_own_page(self, facts: RequestFacts) -> bool:
        """Whether one of our own pages sent a form: another port of this machine is not one."""
        peer = self.peer(facts)
        usual = _USUAL_PORTS[peer.scheme]
        own = f"{peer.scheme}://{peer.authority.removesuffix(usual)}"
        origin = (peer.origin or "").removesuffix(usual)
        is_same = facts.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        return is_same and (origin == own or origin in self._own_pages)

    def comes_from_elsewhere(self, facts: RequestFacts) -> bool:
        """Whether a proxy on this machine says that it passes a request of another one on."""
        named = facts.headers.get("x-forwarded-for", "").split(",")
        if "forwarded" in facts.headers or not _is_here(_plain(facts.address) or "localhost"):
            return True
        return any(not _is_here(_plain(one)) for one in named if one.strip())

    def cors(self, facts: RequestFacts) -> Mapping[str, str]:
        """The headers with which a browser lets a listed page read a response."""
        origin = facts.headers.get("origin", "")
        if origin.lower().rstrip("/") not in self._pages:
            return {}
        headers = {
            "access-control-allow-origin": origin,
            "access-control-expose-headers": _EXPOSED,
            "vary": "Origin",
        }
        if facts.method == "OPTIONS":
            headers |= {
                "access-control-allow-methods": "GET, POST, DELETE",
                "access-control-allow-headers": facts.headers.get("access-control-request-headers", ""),
                "access-control-max-age": _PREFLIGHT_SECONDS,
            }
        return headers

    def _is_proxy(self, address: str) -> bool:
        if not self._proxies:
            return False
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._proxies)

    def _forwarded(self, headers: Mapping[str, str], nearest: str) -> str:
        """The last address that is not a trusted proxy's; a client may have written the ones before it."""
        for named in reversed(headers.get("x-forwarded-for", "").split(",")):
            address = _plain(named)
            if not address:
                break
            nearest = address
            if not self._is_proxy(address):
                break
        return nearest


def _last(headers: Mapping[str, str], name: str) -> str:
    """The value from the nearest proxy; earlier values may have come from the client."""
    return headers.get(name, "").rpartition(",")[2].strip()


def _host_of(authority: str) -> str:
    """The host of `host:port`; empty if it is not that."""
    found = _AUTHORITY.fullmatch(authority)
    return "" if found is None else (found[1] or found[2])


@lru_cache(maxsize=1024)
def _plain(text: str) -> str:
    """An address without a port, zone or IPv6 in front of IPv4; empty if it is not one."""
    try:
        text = text.strip()
        is_bare = text.count(":") > 1 and not text.startswith("[")
        found = ip_address((text if is_bare else _host_of(text)).partition("%")[0])
    except ValueError:
        return ""
    return str((found.ipv4_mapped if isinstance(found, IPv6Address) else None) or found)


@lru_cache(maxsize=1024)
def _is_here(host: str) -> bool:
    return is_loopback(host)


def _quoted(text: str) -> str:
    return repr(text[:100])
