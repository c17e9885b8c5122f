"""Server cards and their catalog: what a client may know of a gateway before it connects. Experimental.

They follow the drafts of SEP-2127 and of the AI Catalog, and change with them. A card names an address, and
nothing behind it: no tool, no server, no user. Without credentials, a client sees the cards of the addresses
that it can use. Behind authentication that is none, so there is one card, of the endpoint itself.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from ipaddress import ip_address
from typing import TypeAlias
from urllib.parse import urlsplit

from toolbus.config.settings.serve import CARD, Serve
from toolbus.core import version
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.access.admission import Admission, Refusal, RequestFacts
from toolbus.gateway.http.request import HttpRequest, encoded, encoded_headers
from toolbus.gateway.protocol.words import HANDSHAKE_VERSIONS, MODERN_VERSIONS

CATALOG = "/.well-known/ai-catalog.json"
"""The path of the catalog of a host."""
Servers: TypeAlias = Callable[[], Collection[str]]
"""The aliases of the servers behind the gateway."""
_CARD_TYPE = "application/mcp-server-card+json"
_CATALOG_TYPE = "application/ai-catalog+json"
_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v2/server-card.schema.json"
_DESCRIPTION = "The tools of several MCP servers at one address."
_NAME = "toolbus"
_FOR_ALL_PAGES = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET",
    "access-control-allow-headers": "Content-Type",
}
_ODD = re.compile(r"[^A-Za-z0-9._-]")


class ServerCards:
    """The pages of the cards, beside the MCP endpoint."""

    def __init__(self, serve: Callable[[], Serve], servers: Servers) -> None:
        """`serve` returns the setting that is followed, and `servers` the servers that can be used."""
        self._serve = serve
        self._servers = servers

    def covers(self, path: str) -> bool:
        return path == CATALOG or self._address_of(path) is not None

    async def serve(self, http: HttpRequest, access: Admission) -> None:
        """Answer a request for the catalog or a card."""
        facts, is_closed = http.facts, self._serve().auth.is_needed
        # What is the same for everybody, any page may read.
        cors = _FOR_ALL_PAGES if is_closed else access.cors(facts)
        http.cors = encoded_headers(cors)
        refusal = access.check(_without(facts, "origin") if is_closed else facts)
        if refusal is not None:
            return await http.refuse(refusal)
        if facts.method == "OPTIONS":
            return await http.respond(204)
        if facts.method not in ("GET", "HEAD"):
            return await http.respond(405, headers=((b"allow", b"GET, HEAD, OPTIONS"),))
        page = await self._page(facts, access, is_closed=is_closed)
        return await (http.respond(404) if page is None else _send(http, *page, is_public=is_closed))

    async def _page(
        self, facts: RequestFacts, access: Admission, *, is_closed: bool
    ) -> tuple[str, JSONObject] | None:
        """A page with its type; None if a client without credentials cannot see it."""
        address = self._address_of(facts.path)
        if address is None:
            every = ("", *self._names())
            shown = [one for one in every if await self._is_shown(one, facts, access, is_closed=is_closed)]
            entries = [_entry(access.url(facts, one), one) for one in shown]
            return _CATALOG_TYPE, {"specVersion": "1.0", "entries": entries}
        if not await self._is_shown(address, facts, access, is_closed=is_closed):
            return None
        return _CARD_TYPE, self._card(access.url(facts, address), address)

    async def _is_shown(self, name: str, facts: RequestFacts, access: Admission, *, is_closed: bool) -> bool:
        """Whether a client without credentials sees the card of an address."""
        if is_closed:
            return not name
        path = f"{self._serve().path}/{name}" if name else self._serve().path
        return not isinstance(
            await access.admit(replace(_without(facts, "authorization"), path=path)), Refusal
        )

    def _names(self) -> list[str]:
        """The views and servers, each with an address below the endpoint."""
        return list(dict.fromkeys((*self._serve().views, *self._servers())))

    def _address_of(self, path: str) -> str | None:
        """The view or server that the path of a card names, empty for the endpoint; None for other paths."""
        base = self._serve().path
        if path == f"{base}/{CARD}":
            return ""
        name = path.removeprefix(f"{base}/").removesuffix(f"/{CARD}")
        return name if name and path == f"{base}/{name}/{CARD}" and "/" not in name else None

    def _card(self, url: str, name: str) -> JSONObject:
        auth = self._serve().auth
        remote: dict[str, JSON] = {
            "type": "streamable-http",
            "url": url,
            "supportedProtocolVersions": [*HANDSHAKE_VERSIONS, *MODERN_VERSIONS],
        }
        if auth.keys:
            key = "'Bearer' and a key of this gateway"
            header = {"name": "Authorization", "description": key, "isSecret": True}
            remote["headers"] = [{**header, "isRequired": auth.oauth is None}]
        title = f"{_NAME}: {name}" if name else _NAME
        return {
            "$schema": _SCHEMA,
            "name": _card_name(url, name),
            "version": version(),
            "title": title[:100],
            "description": _DESCRIPTION,
            "remotes": [remote],
        }


async def _send(http: HttpRequest, kind: str, value: JSONObject, *, is_public: bool) -> None:
    kept = "public, max-age=3600" if is_public else "no-store"
    headers = {"content-type": kind, "cache-control": kept}
    await http.respond(200, encoded(value), encoded_headers(headers))


def _entry(url: str, name: str) -> JSONObject:
    """The entry of the catalog for the card of an address."""
    urn = f"urn:air:{_publisher(url)}:mcp:{_suffix(name)}"
    return {"identifier": urn, "type": _CARD_TYPE, "url": f"{url}/{CARD}"}


def _without(facts: RequestFacts, *names: str) -> RequestFacts:
    return replace(facts, headers={name: value for name, value in facts.headers.items() if name not in names})


def _publisher(url: str) -> str:
    """The publisher of a URL: its domain, or `localhost` for an address of a machine."""
    host = urlsplit(url).hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return host or "localhost"
    return "localhost"


def _card_name(url: str, name: str) -> str:
    """The name of a card: the reversed domain, and the address below it."""
    return f"{'.'.join(reversed(_publisher(url).split('.')))}/{_suffix(name)}"


def _suffix(name: str) -> str:
    return f"{_NAME}.{_ODD.sub('-', name)}" if name else _NAME
