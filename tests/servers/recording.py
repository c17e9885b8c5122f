"""A plain MCP server over HTTP that records what it was sent; it can redirect, refuse and speak TLS.

Run it as a process that keeps no stream open: `python recording.py modern|legacy PORT_FILE PORT`.
"""

import json
import socket
import ssl
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

JSON = {"content-type": "application/json"}
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "recording", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "seen"}]},
    "ping": {},
}


class Recording:
    """The requests so far, as (method, path, headers, JSON-RPC method), and what to answer to some."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], str | None]] = []
        self.messages: list[dict[str, Any]] = []
        """The posted messages."""
        self.statuses: dict[str, int] = {}
        """JSON-RPC method -> the HTTP status to refuse it with."""
        self.results = dict(RESULTS)
        """JSON-RPC method -> its result."""
        self.bodies: dict[int, bytes] = {}
        """HTTP status -> the JSON body to refuse with."""
        self.session: str | None = None
        """The session the server knows; others are refused."""
        self.cut: set[str] = set()
        """JSON-RPC methods whose answer is an event stream that ends too early."""
        self.closes = 0
        """The number of times that a call's stream is closed before the answer; a GET goes on with it."""
        self.came: list[float] = []
        """The times at which the stream was continued."""
        self.errors: dict[str, list[dict[str, Any]]] = {}
        """JSON-RPC method -> errors to answer with, one after another, before its result."""
        self.called: Any = None
        self.token: str | None = None
        """The only bearer token to accept; others are refused with 401, and quoted."""
        self.redirects: dict[str, str] = {}
        """Path without query -> Location."""
        self.port = 0
        self.listening: socket.socket | None = None
        self.gate: Event | None = None
        """The event that a call waits for before it is answered."""

    def stop_listening(self) -> None:
        """Take no more connections; running requests go on."""
        assert self.listening is not None
        self.listening.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def refusal(self, command: str, method: str | None, headers: dict[str, str]) -> int | None:
        """The status to refuse a request with, if it is to be refused."""
        if status := self.statuses.get(method or command):
            return status
        if command != "POST":
            return 405
        known = headers.get("mcp-session-id", self.session) == self.session
        return None if known or method == "initialize" else 404

    def greeting(self, method: str | None) -> dict[str, str]:
        """The headers of an answer; that to a handshake names the session."""
        return {"mcp-session-id": self.session} if method == "initialize" and self.session else {}


class _Handler(BaseHTTPRequestHandler):
    record: Recording
    protocol_version = "HTTP/1.1"

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        # So that nothing is left of the server when it stops.
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        message: dict[str, Any] = json.loads(body) if body else {}
        method = message.get("method")
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.record.requests.append((self.command, self.path, headers, method))
        self.record.messages.append(message)
        if self.command == "GET" and headers.get("last-event-id"):
            self.record.came.append(time.monotonic())
            self.go_on(int(headers["last-event-id"]))
        elif location := self.record.redirects.get(self.path.partition("?")[0]):
            self.reply(307, location=location)
        elif self.record.token not in (None, headers.get("authorization", "").removeprefix("Bearer ")):
            error = {"code": -32001, "message": f"invalid token {headers.get('authorization')}"}
            challenge = {"www-authenticate": 'Bearer error="invalid_token"'}
            self.reply(401, json.dumps({"error": error}).encode(), **JSON, **challenge)
        elif status := self.record.refusal(self.command, method, headers):
            self.reply(status, self.record.bodies.get(status, b""), **JSON)
        elif "id" not in message:
            self.reply(202)
        elif method == "tools/call" and self.record.gate is not None:
            self.record.gate.wait(300)
            self.respond(message["id"], self.record.results["tools/call"], {})
        elif method == "tools/call" and self.record.closes:
            self.record.called = message["id"]
            self.record.came.append(time.monotonic())
            self.go_on(0)
        elif method in self.record.cut:
            self.reply(200, b": nothing but a comment\n\n", **{"content-type": "text/event-stream"})
        else:
            self.respond(message["id"], self.record.results.get(str(method)), self.record.greeting(method))

    def go_on(self, closed: int) -> None:
        event = f"id: {closed + 1}\nretry: 200\ndata: \n\n"
        if closed == self.record.closes:
            result = {"jsonrpc": "2.0", "id": self.record.called, "result": self.record.results["tools/call"]}
            event = f"id: {closed + 1}\ndata: {json.dumps(result)}\n\n"
        self.reply(200, event.encode(), **{"content-type": "text/event-stream"})

    def respond(self, number: Any, result: Any, headers: dict[str, str]) -> None:
        missing: dict[str, Any] = {"error": {"code": -32601, "message": "no such method"}}
        if errors := self.record.errors.get(self.record.requests[-1][3] or ""):
            result, missing = None, {"error": errors.pop(0)}
        reply = {"jsonrpc": "2.0", "id": number, **(missing if result is None else {"result": result})}
        self.reply(200, json.dumps(reply).encode(), **JSON, **headers)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


def _server(record: Recording, port: int = 0) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), {"record": record}))
    server.daemon_threads = True
    return server


@contextmanager
def recording(tls: ssl.SSLContext | None = None) -> Generator[Recording]:
    """Serve on a free port of loopback until the block ends."""
    record = Recording()
    server = _server(record)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    record.port, record.listening = server.server_port, server.socket
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield record
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _run(era: str, port_file: str, port: str) -> None:
    record = Recording()
    if era == "modern":
        fresh: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        record.results = {method: {**result, **fresh} for method, result in RESULTS.items()}
        discover: dict[str, Any] = {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            **fresh,
        }
        record.results["server/discover"] = discover
    server = _server(record, int(port))
    partial = Path(port_file + ".partial")
    partial.write_text(str(server.server_port))
    partial.rename(port_file)
    server.serve_forever()


if __name__ == "__main__":
    _run(*sys.argv[1:])
