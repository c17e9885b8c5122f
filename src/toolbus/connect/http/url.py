"""The URL of a server: where to connect, what to request there, and whether it is this machine."""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from toolbus.core.text.display import ascii_authority, ascii_host

PORTS = {"http": 80, "https": 443}
_PATH_CHARACTERS = "/%:@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True)
class Url:
    """A URL without user, password and fragment."""

    text: str
    scheme: str
    """`http`, `https` or `http+unix`."""
    host: str
    """The host name or IP address; for `http+unix`, the path of the socket."""
    port: int
    target: str
    """Path and query, as they go into the request line."""
    authority: str
    """The value of the `host` header."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port: what a redirect must not leave."""
        return self.scheme, self.host, self.port

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def socket_path(self) -> str | None:
        """The Unix socket to connect to, if it is one."""
        return self.host if self.scheme == "http+unix" else None

    @property
    def without_query(self) -> str:
        """For messages: a query may contain secrets."""
        return urlunsplit(urlsplit(self.text)._replace(query=""))

    def join(self, reference: str) -> "Url":
        """The URL of a reference in a response of this one; ValueError if it is invalid."""
        if self.socket_path is not None:
            # `urljoin` does not know the scheme.
            path = urlsplit(urljoin(f"http://socket{self.target}", reference))
            same = path.netloc == "socket"
            return parse_url(
                f"http+unix://{quote(self.host, safe='')}{path.path}?{path.query}" if same else reference
            )
        return parse_url(urljoin(self.text, reference))


def parse_url(text: str) -> Url:
    """Parse an absolute URL; ValueError if it is not one of HTTP."""
    parts = urlsplit(text)
    netloc = parts.netloc.rpartition("@")[2]
    if parts.scheme == "http+unix":
        host, port, authority = unquote(netloc), 0, "localhost"
    elif parts.scheme in PORTS:
        netloc = ascii_authority(netloc)
        host, port = ascii_host(parts.hostname or ""), parts.port or PORTS[parts.scheme]
        authority = bracketed(host) if port == PORTS[parts.scheme] else f"{bracketed(host)}:{port}"
    else:
        raise ValueError(f"the scheme {parts.scheme!r} is not supported")
    if not host:
        raise ValueError("there is no host")
    path, query = (
        quote(parts.path or "/", safe=_PATH_CHARACTERS),
        quote(parts.query, safe=_PATH_CHARACTERS + "?"),
    )
    return Url(
        text=urlunsplit((parts.scheme, netloc, path, query, "")),
        scheme=parts.scheme,
        host=host,
        port=port,
        target=f"{path}?{query}" if query else path,
        authority=authority,
    )


def bracketed(host: str) -> str:
    """The host as it is written in front of a port."""
    return f"[{host}]" if ":" in host else host


def is_loopback_host(host: str) -> bool:
    """Whether a host is this machine, by its name or address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
