"""A server of both eras whose tool reports and answers in one write, so that all of it arrives at once.

Run it: `python bursting.py stdio`, or `python bursting.py http PORT_FILE`. `burst(count)` sends so many log
messages and progress notifications, in turns and numbered, and then its answer: a result, or an error.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Message = dict[str, Any]
FRESH: Message = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
CAPABILITIES: Message = {"tools": {}, "logging": {}}
RESULTS: dict[str, Message] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "bursting", "version": "1"},
    },
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, **FRESH},
    "tools/list": {"tools": [{"name": "burst", "inputSchema": {"type": "object"}}], **FRESH},
    "ping": {},
    "logging/setLevel": {},
}


def replies(message: Message) -> list[Message]:
    """All that answers a message, the answer last."""
    params: Message = message.get("params") or {}
    if "id" not in message or "method" not in message:
        return []
    if message["method"] != "tools/call":
        result = RESULTS.get(message["method"])
        unknown = {"error": {"code": -32601, "message": "Method not found"}}
        return [{"jsonrpc": "2.0", "id": message["id"], **({"result": result} if result else unknown)}]
    arguments: Message = params["arguments"]
    reports: list[Message] = []
    for number in range(1, arguments["count"] + 1):
        reports.append(notification("message", level="info", data=number))
        if (token := params.get("_meta", {}).get("progressToken")) is not None:
            reports.append(notification("progress", progressToken=token, progress=number))
    failed = {"error": {"code": -32000, "message": "it failed"}}
    done = {"result": {"content": [{"type": "text", "text": "done"}], **FRESH}}
    return [*reports, {"jsonrpc": "2.0", "id": message["id"], **(failed if arguments.get("fail") else done)}]


def notification(kind: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": f"notifications/{kind}", "params": params}


class Handler(BaseHTTPRequestHandler):
    """Streamable HTTP without sessions."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(405, b"")

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        events = (f"data: {json.dumps(reply)}\n\n" for reply in replies(message))
        self.answer(200 if "id" in message else 202, "".join(events).encode())

    def answer(self, status: int, body: bytes) -> None:
        """Answer in one write."""
        kind = "content-type: text/event-stream\r\n" if body else ""
        head = f"HTTP/1.1 {status} Fine\r\n{kind}content-length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def main(transport: str, port_file: str = "") -> None:
    """Serve until the input ends, or forever."""
    if transport == "stdio":
        for line in sys.stdin:
            sys.stdout.write("".join(json.dumps(reply) + "\n" for reply in replies(json.loads(line))))
            sys.stdout.flush()
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    partial = Path(port_file + ".partial")
    partial.write_text(str(server.server_port))
    partial.rename(port_file)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
