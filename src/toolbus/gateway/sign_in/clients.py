"""The clients of the authorization server. None of them is stored.

A client publishes its metadata at the URL that is its ID, or registers: then its ID contains the metadata,
signed by us. So a flood of registrations fills nothing.
"""

import asyncio
import logging
import re
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull
from pydantic import AnyUrl, PrivateAttr

from toolbus.config import ServerConfig
from toolbus.config.settings.auth import is_loopback, web_url
from toolbus.connect.auth.failure import AuthFailure
from toolbus.connect.auth.fetch import Fetch
from toolbus.connect.http.url import parse_url
from toolbus.core.text.text import exact
from toolbus.gateway.sign_in.keys import SignInKeys

logger = logging.getLogger("toolbus")

REGISTERED = "tbc_"
"""The first characters of the ID of a client that registered."""
MOST_FETCHES = 60
"""Metadata documents that are fetched in a minute, for all clients."""
_KEEP_SECONDS, _FAILED_SECONDS = 300.0, 30.0
_MOST_KEPT = 500
_FETCH_SECONDS = 5.0
_MOST_BYTES = 64 * 1024
_MOST_URIS = 10
_MOST_CHARACTERS = 1_000
"""The longest redirect URI, or URL of a client."""
_LONGEST_NAME = 100
_LONGEST_ID = 8_192
_METHODS = ("none", "client_secret_post", "client_secret_basic")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)
_OF_BROWSERS = frozenset(
    ("javascript", "data", "vbscript", "file", "blob", "about", "filesystem", "view-source", "ws", "wss")
)
"""Schemes that no app can have for itself."""
_PLAIN = re.compile(r"[!-\[\]-~]+")
"""Visible ASCII without a backslash, which browsers read as a slash."""
_LOOPBACK_IPS = ("127.0.0.1", "[::1]")


class ClientRefused(Exception):
    """A client cannot be used; the reason is for its developer."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class KnownClient(OAuthClientInformationFull):
    """A client and its redirect URI of one request, for the handlers of the SDK."""

    _redirects: tuple[str, ...] = PrivateAttr(default=())
    _asked: str | None = PrivateAttr(default=None)

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """The redirect URI of the request, compared as the client wrote it."""
        if self._asked is None and len(self._redirects) == 1:
            return AnyUrl(self._redirects[0])
        if self._asked is None or not any(is_same_redirect(one, self._asked) for one in self._redirects):
            raise InvalidRedirectUriError("the redirect_uri is not registered for this client")
        return AnyUrl(self._asked)

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        """The scopes of the request: the person decides about them, not the registration."""
        return requested_scope.split() if requested_scope else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """A client, as its metadata describes it."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    method: str = "none"
    """Its way to authenticate at the token endpoint."""

    @property
    def host(self) -> str:
        """The host that publishes its metadata; empty if it registered."""
        return "" if self.id.startswith(REGISTERED) else urlsplit(self.id).netloc

    def for_request(self, keys: SignInKeys, asked_redirect: str | None) -> KnownClient:
        """The client for the SDK, in a request with this redirect URI."""
        secret = None if self.method == "none" else client_secret(keys, self.id)
        known = KnownClient(
            client_id=self.id,
            client_name=self.name,
            client_secret=secret,
            token_endpoint_auth_method=self.method,
        )
        known._redirects, known._asked = self.redirect_uris, asked_redirect  # pyright: ignore[reportPrivateUsage]  # its own file
        return known


class ClientDirectory:
    """Finds clients by their IDs."""

    def __init__(self, public_url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._is_local = is_loopback(urlsplit(public_url).hostname or "")
        # A gateway that only this machine reaches may have clients that only this machine reaches.
        self._fetch = Fetch(
            ServerConfig(alias="serve.auth.sign_in", transport="streamable-http", url=public_url),
            [parse_url(public_url)] if self._is_local else [],
            limit=_MOST_BYTES,
            seconds=_FETCH_SECONDS,
        )
        self._kept: OrderedDict[str, tuple[ClientFacts | ClientRefused, float]] = OrderedDict()
        self._fetching: dict[str, asyncio.Task[ClientFacts | ClientRefused]] = {}
        self._began: deque[float] = deque(maxlen=MOST_FETCHES)

    async def client(self, keys: SignInKeys, client_id: str) -> ClientFacts:
        """The client with that ID; `ClientRefused` if there is none, or it cannot be used."""
        if client_id.startswith(REGISTERED):
            found = keys.opened("client", client_id.removeprefix(REGISTERED))
            if found is None:
                raise ClientRefused("the client is unknown here; register it again")
            return ClientFacts(
                id=client_id, name=found["n"], redirect_uris=tuple(found["u"]), method=found["m"]
            )
        if "://" not in client_id:
            raise ClientRefused(
                "the client is unknown; register it, or use the URL of its metadata as its ID"
            )
        return await self._published(client_id)

    async def _published(self, url: str) -> ClientFacts:
        known = self._kept.get(url)
        if known is None or self._clock() >= known[1]:
            self._check_url(url)
            task = self._fetching.get(url)
            if task is None:
                self._check_rate()
                task = self._fetching[url] = asyncio.create_task(self._fetched(url))
                task.add_done_callback(lambda _: self._fetching.pop(url, None))
            found = await asyncio.shield(task)
            seconds = _FAILED_SECONDS if isinstance(found, ClientRefused) else _KEEP_SECONDS
            self._kept[url] = known = found, self._clock() + seconds
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        if isinstance(known[0], ClientRefused):
            raise ClientRefused(known[0].reason)
        return known[0]

    def _check_url(self, url: str) -> None:
        parts = web_url(url) if len(url) <= _MOST_CHARACTERS and _PLAIN.fullmatch(url) else None
        is_usable = parts is not None and (parts.scheme == "https" or self._is_local)
        if parts is None or not is_usable or parts.path in ("", "/") or parts.fragment:
            raise ClientRefused("the client ID is not an https URL with a path")
        if {".", ".."} & set(parts.path.split("/")):
            raise ClientRefused("the client ID has a dot segment in its path")

    def _check_rate(self) -> None:
        now = self._clock()
        if len(self._began) == MOST_FETCHES and now - self._began[0] < 60:
            raise ClientRefused("too many clients are looked up; try again in a minute")
        self._began.append(now)

    async def _fetched(self, url: str) -> ClientFacts | ClientRefused:
        try:
            reply = await self._fetch.get(url)
            document = reply.json()
            if reply.status != 200 or document is None:
                raise AuthFailure(reply.problem)
            return _published_facts(url, document)
        except AuthFailure as failure:
            # Not for the client: it would learn which names and ports there are in this network.
            logger.info("the metadata of the client %s cannot be read: %s", url, failure.reason)
            return ClientRefused("the metadata at the URL of the client cannot be read")
        except ClientRefused as refused:
            return refused


def _published_facts(url: str, document: Mapping[str, Any]) -> ClientFacts:
    """The client of a metadata document; `ClientRefused` if the document is not about it."""
    if document.get("client_id") != url:
        raise ClientRefused("the client_id in the metadata of the client is not its URL")
    method = document.get("token_endpoint_auth_method", "none")
    if method != "none" or "client_secret" in document:
        raise ClientRefused("a published client cannot have a secret; its token_endpoint_auth_method is none")
    uris = document.get("redirect_uris")
    texts = [one for one in cast("list[Any]", uris) if isinstance(one, str)] if isinstance(uris, list) else []
    name = document.get("client_name")
    return ClientFacts(
        id=url,
        name=client_name(name if isinstance(name, str) else "", texts),
        redirect_uris=checked_redirects(texts),
    )


def registered_id(keys: SignInKeys, name: str, uris: Sequence[str], method: str) -> str:
    """The ID of a client that registers; `ClientRefused` if it cannot."""
    if method not in _METHODS:
        raise ClientRefused(f"the token_endpoint_auth_method is not one of {', '.join(_METHODS)}")
    # The random part keeps apart clients that say the same about themselves.
    facts = {"n": client_name(name, uris), "u": list(checked_redirects(uris)), "m": method}
    facts["r"] = secrets.token_urlsafe(12)
    client_id = REGISTERED + keys.signed("client", facts)
    if len(client_id) > _LONGEST_ID:
        raise ClientRefused("the metadata is too long")
    return client_id


def client_secret(keys: SignInKeys, client_id: str) -> str:
    """The secret of a client that registered with one, from the keys that signed its ID."""
    text, _, signature = client_id.removeprefix(REGISTERED).rpartition(".")
    return (keys.signer("client", text, signature) or keys).signature("client secret", client_id)


def client_name(name: str, uris: Sequence[str]) -> str:
    """The name of a client as one short line; the host of its redirect if it has none."""
    return exact(name.strip()[:_LONGEST_NAME]) or urlsplit(uris[0] if uris else "").netloc or "a client"


def checked_redirects(uris: Sequence[str]) -> tuple[str, ...]:
    """The redirect URIs of a client; `ClientRefused` if one of them is not safe."""
    if not 0 < len(uris) <= _MOST_URIS:
        raise ClientRefused(f"a client has 1 to {_MOST_URIS} redirect_uris")
    for uri in uris:
        problem = _redirect_problem(uri)
        if problem:
            raise ClientRefused(f"the redirect_uri {uri[:200]!r} {problem}")
    return tuple(uris)


def _redirect_problem(uri: str) -> str:
    if len(uri) > _MOST_CHARACTERS or not _PLAIN.fullmatch(uri):
        return "is too long, or has a space, a backslash or a character that is not ASCII"
    scheme, colon, _ = uri.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme) or scheme.lower() in _OF_BROWSERS:
        return "does not belong to a web page or an app"
    if "#" in uri:
        return "has a fragment"
    if scheme.lower() not in ("http", "https"):
        return ""
    parts = web_url(uri)
    if parts is None:
        return "is not a URL, or has a user"
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        return "is not encrypted; use https, or a port of this machine"
    return ""


def is_same_redirect(registered: str, asked: str) -> bool:
    """Whether a redirect URI is the registered one; a program on this machine may choose its port.

    RFC 8252 leaves the port free for loopback addresses. For `localhost` it is free only if the client
    registered it without a port.
    """
    if registered == asked:
        return True
    own, other = urlsplit(registered), urlsplit(asked)
    host = own.netloc.rpartition(":")[0] if _has_port(own.netloc) else own.netloc
    is_free = host in _LOOPBACK_IPS or (own.netloc == "localhost")
    if own.scheme != "http" or not is_free or _redirect_problem(asked):
        return False
    asked_host = other.netloc.rpartition(":")[0] if _has_port(other.netloc) else other.netloc
    return asked_host == host and own._replace(netloc="") == other._replace(netloc="")


def _has_port(netloc: str) -> bool:
    return re.search(r":\d{1,5}$", netloc) is not None
