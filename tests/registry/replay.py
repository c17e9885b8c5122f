"""A local HTTP server with the API of the MCP registry, which can also misbehave."""

import io
import json
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Json = dict[str, Any]
Reply = tuple[int, Mapping[str, str], bytes]


@dataclass(slots=True)
class ReplayedRegistry:
    """Serves these servers page by page; `misbehave` may answer a request instead."""

    servers: list[Json]
    per_page: int = 100
    misbehave: Callable[[str], Reply | None] = lambda path: None
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    requests: list[str] = field(default_factory=list[str])
    url: str = ""

    def answer(self, path: str) -> Reply:
        """The response to a GET."""
        self.requests.append(path)
        if (odd := self.misbehave(path)) is not None:
            return odd
        parts = urlsplit(path)
        if parts.path in self.files:
            return 200, {}, self.files[parts.path]
        if parts.path == "/v0.1/servers":
            return as_json(self._page({key: one for key, (one, *_) in parse_qs(parts.query).items()}))
        name, _, version = unquote(parts.path.removeprefix("/v0.1/servers/")).partition("/versions/")
        found = [one for one in self.servers if one["server"]["name"] == name]
        found = [one for one in found if version in ("latest", one["server"]["version"])]
        return as_json(found[-1]) if found else (404, {}, b'{"error": "not found"}')

    def _page(self, query: Mapping[str, str]) -> Json:
        latest = {one["server"]["name"]: one for one in self.servers}
        found = [one for name, one in latest.items() if query.get("search", "") in name]
        begin, size = int(query.get("cursor", 0)), min(self.per_page, int(query["limit"]))
        end = begin + size
        more = {"nextCursor": str(end)} if end < len(found) else {}
        return {"servers": found[begin:end], "metadata": {"count": size, **more}}


def as_json(value: object) -> Reply:
    """A response with a document."""
    return 200, {"content-type": "application/json"}, json.dumps(value).encode()


@contextmanager
def serving(servers: Sequence[Json], **settings: Any) -> Generator[ReplayedRegistry]:
    """A registry with these servers, each a `server.json`."""
    replayed = ReplayedRegistry([{"server": one, "_meta": {}} for one in servers], **settings)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = replayed.answer(self.path)
            try:
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # the client had enough

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name in the base class
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        replayed.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield replayed
        finally:
            server.shutdown()
            thread.join()


def published(name: str = "io.github.ann/notes", version: str = "1.0.0", **more: Any) -> Json:
    """A `server.json`, with an npm package unless it has packages or remotes."""
    package = {
        "registryType": "npm",
        "identifier": name.partition("/")[2],
        "version": version,
        "transport": {"type": "stdio"},
    }
    ways = {} if more.keys() & {"packages", "remotes"} else {"packages": [package]}
    return {"name": name, "description": "Keeps notes", "version": version, **ways, **more}


def package(kind: str, identifier: str, version: str = "1.0.0", **more: Any) -> Json:
    """A package of a `server.json`."""
    facts = {"registryType": kind, "identifier": identifier, "transport": {"type": "stdio"}}
    return {**facts, **({"version": version} if version else {}), **more}


def bundled(manifest: Mapping[str, Any], files: Mapping[str, str | bytes] | None = None) -> bytes:
    """An `.mcpb` file."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("manifest.json", json.dumps({"manifest_version": "0.3", "name": "b", **manifest}))
        for name, text in (files or {}).items():
            archive.writestr(name, text)
    return content.getvalue()


def digest(content: bytes) -> str:
    """The SHA-256 of a file, as a `server.json` has it."""
    return sha256(content).hexdigest()
