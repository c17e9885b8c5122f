"""An HTTP server that lets openapi-core read each request: `python judge.py DOCUMENT`, in its environment.

The first line that it prints is its port. It answers a request with the values that openapi-core found in it,
or with the problems. openapi-core wants four things prepared. They are the part of a path in a style such as
`label`, a `%20` in `spaceDelimited`, the pairs of an exploded object in the query, and other types of JSON.
"""

import base64
import json
import sys
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any, cast
from urllib.parse import parse_qsl, unquote

# In an environment of its own, where nothing checks its types.
core: Any = import_module("openapi_core")
datatypes: Any = import_module("openapi_core.datatypes")
werkzeug: Any = import_module("werkzeug.datastructures")
DOCUMENT: dict[str, Any] = {}
_PREFIXES = {"label": ".", "matrix": ";"}


class Judged:
    """A request as openapi-core wants it."""

    def __init__(self, method: str, target: str, headers: Message, body: bytes) -> None:
        path, _, query = target.partition("?")
        self.host_url = "http://127.0.0.1"
        self.path = path
        self.method = method.lower()
        self.content_type = headers.get("content-type", "")
        self.body = body or None
        name = path.split("/")[1]
        described = next(value for key, value in DOCUMENT["paths"].items() if key.split("/")[1] == name)
        self.parameters = datatypes.RequestParameters(
            query=_query(query, described[self.method]["parameters"]),
            header=werkzeug.Headers(headers.items()),
            cookie=werkzeug.ImmutableMultiDict(_cookies(headers.get("cookie", ""))),
            path=_path(path, described[self.method]["parameters"]),
        )


def _query(query: str, parameters: list[dict[str, Any]]) -> Any:
    pairs = parse_qsl(query, keep_blank_values=True)
    for one in parameters:
        style, is_object = one.get("style", "form"), one.get("schema", {}).get("type") == "object"
        if one["in"] == "query" and style == "spaceDelimited":
            pairs = [(key, text.replace(" ", "%20") if key == one["name"] else text) for key, text in pairs]
        if one["in"] == "query" and style == "form" and one.get("explode", True) and is_object:
            members = [(key, text) for key, text in pairs if key in one["schema"]["properties"]]
            pairs.append((one["name"], "&".join(f"{key}={text}" for key, text in members)))
    return werkzeug.ImmutableMultiDict(pairs)


def _cookies(header: str) -> list[tuple[str, str]]:
    pairs = (pair.split("=", 1) for pair in header.split("; ") if pair)
    return [(unquote(name), unquote(text)) for name, text in pairs]


def _path(path: str, parameters: list[dict[str, Any]]) -> dict[str, str]:
    values = map(unquote, path.split("/")[2:])
    named = (one for one in parameters if one["in"] == "path")
    found: dict[str, str] = {}
    for one, text in zip(named, values, strict=True):
        prefix = _PREFIXES.get(one.get("style", "simple"), "")
        suffix = "*" if prefix and one.get("explode") else ""
        found[prefix + one["name"] + suffix] = text
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in cast("dict[str, Any]", value).items()}
    return [_plain(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: Any = None

    def judge(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        result = self.api.unmarshal_request(Judged(self.command, self.path, self.headers, body))
        found = result.parameters
        answer = {
            "errors": [f"{type(error).__name__}: {error} {error.__cause__ or ''}" for error in result.errors],
            "values": {
                key: _plain(dict(getattr(found, key, None) or {}))
                for key in ("path", "query", "header", "cookie")
            },
            "body": _plain(result.body),
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing."""


for method in ("POST", "PUT", "PATCH"):
    setattr(_Handler, f"do_{method}", _Handler.judge)


def read_json(data: bytes, **_: str) -> Any:
    """The value of a type of JSON that openapi-core does not know."""
    return json.loads(data)


def main() -> None:
    """Serve until the process is ended."""
    with open(sys.argv[1], encoding="utf-8") as file:
        DOCUMENT.update(json.load(file))
    config = core.Config(extra_media_type_deserializers={"application/merge-patch+json": read_json})
    _Handler.api = core.OpenAPI.from_dict(DOCUMENT, config)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
