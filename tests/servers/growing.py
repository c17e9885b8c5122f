"""A server in plain JSON-RPC, over stdio or HTTP and of either era, whose lists grow on request.

Run it: `python growing.py stdio SCRIPT_JSON`, or `python growing.py http PORT_FILE SCRIPT_JSON`. The script
may hold `era` and `slow`, the seconds that a list takes. `ttl` is any JSON for its answers, by kind: tools,
resources, templates, prompts, read. `scope` is its `cacheScope`. With `announces`, it declares `listChanged`,
which it never sends. With `apps`, it has tools with user interfaces, for clients that declared them. With
`lists_apps`, its lists have the user interfaces. `visibility` is the `_meta` of its tool that is only for
user interfaces.

Its tool `grow` adds one entry to the list of a `kind`. `break` makes that list fail, or not. `stall` keeps
all lists waiting. `counts` returns the number of calls of each method, and `declared` the client's
capabilities.
"""

import json
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Message = dict[str, Any]
APPS = "io.modelcontextprotocol/ui"
LISTS = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("templates", "resourceTemplates"),
    "prompts/list": ("prompts", "prompts"),
}
NAMES = {"type": "object", "properties": {"kind": {"type": "string"}}}


class Growing:
    """One server, on any wire."""

    def __init__(self, script: Message) -> None:
        self.script = script
        self.is_modern = script.get("era", "modern") == "modern"
        self.counts: Counter[str] = Counter()
        self.grown: Counter[str] = Counter()
        self.broken: set[str] = set()
        self.is_stalled = False
        self.declared: Message = {}
        self.lock = threading.Lock()

    def answer(self, message: Message) -> Message | None:
        """The response to a message; None for a notification."""
        if "id" not in message:
            return None
        method: str = message["method"]
        params: Message = message.get("params") or {}
        with self.lock:
            self.counts[method] += 1
            if self.is_modern:
                meta: Message = params.get("_meta") or {}
                self.declared = meta.get("io.modelcontextprotocol/clientCapabilities") or {}
        if method in LISTS:
            time.sleep(3600 if self.is_stalled else self.script.get("slow", 0))
        found = self.result(method, params)
        if found is None:
            error = {"code": -32601, "message": f"no {method}"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        if self.is_modern:
            found = {"resultType": "complete", **found}
        return {"jsonrpc": "2.0", "id": message["id"], "result": found}

    def result(self, method: str, params: Message) -> Message | None:
        if method in LISTS:
            kind, key = LISTS[method]
            return None if kind in self.broken else {key: self.entries(kind), **self.hints(kind)}
        match method:
            case "server/discover" if self.is_modern:
                about = {"supportedVersions": ["2026-07-28"], "capabilities": self.capabilities}
                return {**about, **self.hints("discover")}
            case "initialize" if not self.is_modern:
                self.declared = params.get("capabilities") or {}
                info = {"name": "growing", "version": "1"}
                about = {"protocolVersion": "2025-11-25", "serverInfo": info}
                return {**about, "capabilities": self.capabilities}
            case "tools/call":
                return {"content": [{"type": "text", "text": self.called(params)}]}
            case "resources/read":
                uri = params["uri"]
                text = f"{uri} {self.counts['resources/read']}"
                content = {"uri": uri, "text": text, "mimeType": "text/plain"}
                if uri.startswith("ui://"):
                    content |= {"mimeType": "text/html;profile=mcp-app", "_meta": {"ui": {"csp": {}}}}
                return {"contents": [content], **self.hints("read")}
            case "ping":
                return {}
            case _:
                return None

    @property
    def capabilities(self) -> Message:
        announces = {"listChanged": True} if self.script.get("announces") else {}
        return {"tools": announces, "resources": announces, "prompts": announces}

    def hints(self, kind: str) -> Message:
        ttl = self.script.get("ttl", {})
        if not self.is_modern or (kind not in ttl and kind != "discover"):
            return {}
        return {"ttlMs": ttl.get(kind, 0), "cacheScope": self.script.get("scope", "private")}

    def entries(self, kind: str) -> list[Message]:
        grown = self.grown[kind]
        match kind:
            case "tools":
                names = [
                    "grow",
                    "break",
                    "stall",
                    "counts",
                    "declared",
                    *(f"late{one}" for one in range(grown)),
                ]
                return [*({"name": name, "inputSchema": NAMES} for name in names), *self.app_tools()]
            case "resources":
                own = [{"uri": "ui://dash", "name": "dash"}] if self.script.get("lists_apps") else []
                return [*({"uri": f"data://r{one}", "name": f"r{one}"} for one in range(1 + grown)), *own]
            case "templates":
                own = [{"uriTemplate": "ui://dash/{day}", "name": "day"}]
                listed = [{"uriTemplate": f"t{one}://{{x}}", "name": f"t{one}"} for one in range(1 + grown)]
                return [*listed, *(own if self.script.get("lists_apps") else [])]
            case _:
                return [{"name": f"p{one}"} for one in range(1 + grown)]

    def app_tools(self) -> list[Message]:
        if not self.script.get("apps") or APPS not in (self.declared.get("extensions") or {}):
            return []
        hidden = self.script.get("visibility", {"ui": {"visibility": ["app"], "resourceUri": "ui://dash"}})
        shown = {"ui": {"resourceUri": "ui://dash", "visibility": ["model", "app"]}}
        return [
            {
                "name": "refresh",
                "description": "Refresh the dashboard.",
                "inputSchema": NAMES,
                "_meta": hidden,
            },
            {"name": "show", "description": "Show the dashboard.", "inputSchema": NAMES, "_meta": shown},
        ]

    def called(self, params: Message) -> str:
        given: Message = params.get("arguments") or {}
        kind: str = given.get("kind", "tools")
        match params["name"]:
            case "grow":
                self.grown[kind] += 1
                return "grown"
            case "break":
                self.broken ^= {kind}
                return "broken" if kind in self.broken else "repaired"
            case "stall":
                self.is_stalled = True
                return "stalled"
            case "counts":
                return json.dumps(self.counts)
            case "declared":
                return json.dumps(self.declared)
            case name:
                return f"called {name}"


def serve_stdio(server: Growing) -> None:
    """Answer over stdin and stdout; a slow answer does not keep the next one waiting."""
    printing = threading.Lock()

    def respond(message: Message) -> None:
        response = server.answer(message)
        if response is not None:
            with printing:
                print(json.dumps(response), flush=True)

    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") in LISTS:
            threading.Thread(target=respond, args=(message,), daemon=True).start()
        else:
            respond(message)


def serve_http(server: Growing, port_file: Path) -> None:
    """Answer over HTTP, each request with one JSON document."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            response = server.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            body = b"" if response is None else json.dumps(response).encode()
            self.send_response(202 if response is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_response(405)
            self.send_header("content-length", "0")
            self.end_headers()

        def do_DELETE(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as it is there
            """Write nothing."""

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    part = port_file.with_suffix(".part")
    part.write_text(str(web.server_port))
    part.rename(port_file)
    web.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        serve_stdio(Growing(json.loads(sys.argv[2])))
    else:
        serve_http(Growing(json.loads(sys.argv[3])), Path(sys.argv[2]))
