"""A registry of servers: the official one, another with its API, or a file.

Responses have a size and a time limit, redirects are not followed, and the number of pages is limited. An
entry that is not a valid `server.json` is skipped. Pages are cached in the user's state folder,
because the official registry takes up to 20 seconds for each.
"""

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from toolbus.config import ServerConfig
from toolbus.config.location import is_list, is_mapping
from toolbus.config.registry import MAX_BUNDLE, PublishedServer, server_json, split_origin, version_key
from toolbus.connect.auth.failure import AuthFailure
from toolbus.connect.auth.fetch import Fetch, FetchedReply
from toolbus.connect.http.url import parse_url
from toolbus.core.files import read_plain
from toolbus.core.text.display import shortened
from toolbus.core.values.errors import ConfigError, RegistryError
from toolbus.core.values.records import JSON
from toolbus.state import files as state

MAX_PAGE = 8 << 20
"""The most bytes of a page of the registry; 100 servers usually take less than 200 kB."""
MAX_FILE = 64 << 20
MAX_PAGES = 20
PER_PAGE = 100
PAGE_SECONDS = 60.0
DOWNLOAD_SECONDS = 600.0
FRESH_SECONDS = 3600.0
"""The seconds for which a page is used again."""
_MAX_CURSOR = 2000
_MAX_REDIRECTS = 5
_CACHE = "registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServers:
    """The servers that fit a search; `is_complete` says whether the registry has no more."""

    servers: Sequence[PublishedServer]
    is_complete: bool
    skipped: int = 0
    """The number of invalid entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySource:
    """A registry by its URL; or a file with a page of one, a list of servers, or a single `server.json`."""

    place: str
    on_page: Callable[[int], object] = int
    """Called with the number of a page before it is requested."""

    @property
    def is_url(self) -> bool:
        """Whether it is a URL, not a file."""
        return re.match(r"https?://", self.place, re.IGNORECASE) is not None

    async def search(self, words: Sequence[str], limit: int) -> FoundServers:
        """The latest versions of the servers whose name, title or description has every word.

        A registry only searches names. So of several words, the longest has to be in the name.
        """
        wanted = [word.casefold() for word in words]
        found: dict[str, PublishedServer] = {}
        skipped = 0
        async with aclosing(self._pages(max(wanted, key=len))) as pages:
            async for servers, invalid in pages:
                skipped += invalid
                for server in servers:
                    text = f"{server.name} {server.title} {server.description}".casefold()
                    if all(word in text for word in wanted):
                        found.setdefault(server.name, server)
                if len(found) > limit:
                    break
            else:
                return FoundServers(servers=list(found.values()), is_complete=True, skipped=skipped)
        return FoundServers(servers=list(found.values())[:limit], is_complete=False, skipped=skipped)

    async def named(self, text: str) -> list[PublishedServer]:
        """The server of that name, with `@VERSION` if not the latest; by a last part alone, all of that name.

        `RegistryError` if there is none.
        """
        name, version = split_origin(text)
        if "/" in name:
            return [await self._version(name, version or "latest")]
        found: dict[str, PublishedServer] = {}
        async with aclosing(self._pages(name)) as pages:
            async for servers, _ in pages:
                found |= {one.name: one for one in servers if one.name.rpartition("/")[2] == name}
        if not found:
            raise self._unknown(text)
        if version and len(found) == 1:
            return [await self._version(next(iter(found)), version)]
        return list(found.values())

    async def download(self, url: str) -> bytes:
        """The content of a bundle; follows redirects, as release pages need. `RegistryError` if it fails."""
        fetch = self._fetch(url, MAX_BUNDLE, DOWNLOAD_SECONDS, named=())
        for _ in range(_MAX_REDIRECTS + 1):
            reply = await self._reply(fetch, url)
            if reply.status == 200:
                return reply.body
            if reply.status not in (301, 302, 303, 307, 308) or "location" not in reply.headers:
                raise RegistryError(
                    shortened(url, 200), f"HTTP {reply.status}; the file cannot be downloaded"
                )
            try:
                url = reply.url.join(reply.headers["location"]).text
            except ValueError as error:
                raise RegistryError(shortened(url, 200), f"it redirects to an invalid URL: {error}") from None
        raise RegistryError(shortened(url, 200), f"it redirects more than {_MAX_REDIRECTS} times")

    def _unknown(self, name: str) -> RegistryError:
        problem = f"has no server {shortened(name)!r}; to find one, run toolbus search --registry WORD"
        return RegistryError(self.place, problem)

    async def _version(self, name: str, version: str) -> PublishedServer:
        if not self.is_url:
            every = [one for one in self._in_file() if one.name == name]
            found = [one for one in every if version in ("latest", one.version)]
            if not found:
                raise self._unknown(f"{name}@{version}" if every else name)
            return max(found, key=lambda one: version_key(one.version))
        path = f"/v0.1/servers/{quote(name, safe='')}/versions/{quote(version, safe='')}"
        missing = self._unknown(name if version == "latest" else f"{name}@{version}")
        document = await self._document(path, missing)
        try:
            server = server_json(document)
        except ConfigError as error:
            raise RegistryError(self.place, f"{name}: {error.problem}") from None
        if server.name != name:
            raise RegistryError(self.place, f"was asked for {name!r} and sent {shortened(server.name)!r}")
        return server

    async def _pages(self, text: str) -> AsyncGenerator[tuple[list[PublishedServer], int]]:
        """The servers whose name contains the text, page by page, and how many entries were invalid."""
        if not self.is_url:
            every = [one for one in self._in_file() if text.casefold() in _searched(one)]
            newest: dict[str, PublishedServer] = {}
            for one in sorted(every, key=lambda one: version_key(one.version)):
                newest[one.name] = one
            yield [newest[name] for name in dict.fromkeys(one.name for one in every)], 0
            return
        cursors, cursor = set[str](), ""
        for number in range(1, MAX_PAGES + 1):
            query = {"search": text, "version": "latest", "limit": str(PER_PAGE)}
            query |= {"cursor": cursor} if cursor else {}
            self.on_page(number)
            document = await self._document(f"/v0.1/servers?{urlencode(query)}")
            listed = document.get("servers")
            if not is_list(listed):
                raise RegistryError(self.place, "sent a page without servers; is it the URL of a registry?")
            servers = list(_valid(listed))
            yield servers, len(listed) - len(servers)
            cursor = self._next(document)
            if not cursor:
                return
            if cursor in cursors:
                raise RegistryError(self.place, "sent the same page again; its list does not end")
            cursors.add(cursor)

    def _next(self, document: Mapping[JSON, JSON]) -> str:
        meta: JSON = document.get("metadata")
        cursor: JSON = (meta.get("nextCursor") or meta.get("next_cursor")) if is_mapping(meta) else None
        if cursor and not (isinstance(cursor, str) and len(cursor) <= _MAX_CURSOR):
            raise RegistryError(self.place, "sent a page with an invalid cursor")
        return cursor or ""

    def _in_file(self) -> list[PublishedServer]:
        path = Path(os.path.expanduser(self.place))
        try:
            document = json.loads(read_plain(path, MAX_FILE).decode("utf-8-sig"))
        except OSError as error:
            raise RegistryError(self.place, (error.strerror or "cannot be read").lower()) from None
        except (ValueError, RecursionError):
            raise RegistryError(self.place, "is not valid JSON") from None
        listed: Any = document.get("servers", [document]) if is_mapping(document) else document
        return list(_valid(listed if is_list(listed) else []))

    async def _document(self, path: str, missing: RegistryError | None = None) -> Mapping[JSON, JSON]:
        """The JSON object at a path, from the cache if it is fresh."""
        url = self.place.rstrip("/") + path
        if (known := _cached(url)) is not None:
            return known
        reply = await self._reply(self._fetch(url, MAX_PAGE, PAGE_SECONDS, named=(self.place,)), url)
        if reply.status == 404 and missing is not None:
            raise missing
        if reply.status != 200:
            raise RegistryError(self.place, _refusal(reply))
        document = await asyncio.to_thread(reply.json)
        if document is None:
            raise RegistryError(self.place, "sent something that is not a JSON object; is it a registry?")
        _cache(url, reply.body)
        return document

    def _fetch(self, url: str, limit: int, seconds: float, *, named: Sequence[str]) -> Fetch:
        try:
            # The user named the registry, not where it refers to.
            own = [parse_url(one) for one in (*named, *([self.place] if self.is_url else []))]
            config = ServerConfig(alias="registry", transport="streamable-http", url=url)
        except ValueError as error:
            raise RegistryError(shortened(url, 200), f"is not a URL that can be used: {error}") from None
        return Fetch(config, own, limit=limit, seconds=seconds)

    async def _reply(self, fetch: Fetch, url: str) -> FetchedReply:
        try:
            return await fetch.reply(url)
        except AuthFailure as failure:
            reason = failure.reason.replace(f"{url.partition('?')[0]}: ", "")
            reason = reason.replace(" (limits.message)", "")  # which is for servers
            raise RegistryError(self.place, f"{reason}; {_NEXT}") from failure


_NEXT = "try again later, or name another registry, or a file, in 'registry:'"


def _searched(server: PublishedServer) -> str:
    return f"{server.name} {server.title} {server.description}".casefold()


def _valid(listed: Sequence[JSON]) -> Iterator[PublishedServer]:
    for one in listed:
        with suppress(ConfigError):
            yield server_json(one)


def _refusal(reply: FetchedReply) -> str:
    """The message about a response that is no page."""
    status = reply.status
    if status == 429:
        wait = reply.headers.get("retry-after", "")
        after = f"in {int(wait):,} s" if wait.isdigit() and len(wait) < 7 else "later"
        return f"HTTP 429: it gets too many requests; try again {after}"
    if 300 <= status < 400:
        return f"HTTP {status} redirects elsewhere, which is not followed; name that URL in 'registry:'"
    if status == 404:
        return "HTTP 404: it has no /v0.1/servers; is it the URL of a registry?"
    return f"HTTP {status}; {_NEXT}"


def _file(url: str) -> str:
    return f"{_CACHE}/{sha256(url.encode()).hexdigest()[:32]}.json"


def _cached(url: str) -> Mapping[JSON, JSON] | None:
    """The document at a URL, if it was requested recently."""
    with suppress(OSError, ValueError, RecursionError):
        content = state.read(_file(url))
        age = time.time() - state.location(_file(url)).stat().st_mtime
        if content is None or not 0 <= age < FRESH_SECONDS:
            return None
        document: JSON = json.loads(content)
        return document if is_mapping(document) else None
    return None


def _cache(url: str, content: bytes) -> None:
    """Keep a page, and delete those that are not fresh; ignores errors of the disk."""
    with suppress(OSError):
        state.write(_file(url), content)
        for old in state.location(_file(url)).parent.glob("*.json"):
            if time.time() - old.stat().st_mtime > FRESH_SECONDS:
                old.unlink(missing_ok=True)
