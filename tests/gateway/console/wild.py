"""A server in plain JSON-RPC over stdio that dies, asks, changes its tools, and sends markup in every field.

Run it: `python wild.py [NEEDED_FILE]`; without that file it cannot start.
"""

import base64
import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

PICTURE = "<img src=x onerror=alert(1)>"
HOSTILE = (
    f"</pre></textarea></style></title><script>alert('1')</script>{PICTURE}"
    "<svg onload=alert(2)>\"'&\x1b[31m\u202e\u200b\U000e0041"
)
NAMED = {"name": HOSTILE, "title": HOSTILE, "description": HOSTILE}
OBJECT: dict[str, Any] = {"type": "object"}
KINDS: dict[str, Any] = {
    "type": "object",
    "title": HOSTILE,
    "properties": {
        "words": {"type": "string", "maxLength": 100, "title": HOSTILE, "description": HOSTILE},
        "many": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "ratio": {"type": "number"},
        "loud": {"type": "boolean"},
        "size": {"enum": ["small", "large", HOSTILE]},
        "tags": {"type": "array", "items": {"type": "string"}, "default": [HOSTILE]},
        "more": {"type": "object", "description": HOSTILE},
        HOSTILE: {"type": "string", "default": HOSTILE, "description": HOSTILE},
    },
    "required": ["words", "size"],
    "additionalProperties": False,
}
QUESTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": HOSTILE, "description": HOSTILE},
        "kind": {"type": "string", "enum": ["a", "b"], "enumNames": [HOSTILE, "plain"]},
        "sure": {"type": "boolean", "default": True},
    },
    "required": ["name"],
}


def png(width: int = 48, height: int = 32) -> bytes:
    """A picture in one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x24\x56\xc7" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _tool(name: str, schema: dict[str, Any] = OBJECT) -> dict[str, Any]:
    return {
        "name": name,
        "title": HOSTILE,
        "description": f"{name}: {HOSTILE}",
        "inputSchema": schema,
        "annotations": {"title": HOSTILE, "readOnlyHint": name == "kinds"},
    }


class Wild:
    """The server."""

    def __init__(self) -> None:
        names = ("fail", "refuse", "ask", "slow", "go_on", "die", "change", HOSTILE)
        self.tools = [_tool("kinds", KINDS), *map(_tool, names)]
        self.waiting: list[Any] = []
        self.asking: Any = None

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                self.answered(message)
            elif "id" in message:
                self.take(message["id"], message["method"], message.get("params") or {})

    def take(self, number: Any, method: str, params: dict[str, Any]) -> None:
        match method:
            case "initialize":
                info = {"name": HOSTILE, "title": HOSTILE, "version": HOSTILE}
                capabilities = {"tools": {"listChanged": True}, "logging": {}, "prompts": {}, "resources": {}}
                result = {"protocolVersion": "2025-06-18", "serverInfo": info, "capabilities": capabilities}
                self.result(number, {**result, "instructions": HOSTILE})
            case "tools/list":
                self.result(number, {"tools": self.tools})
            case "prompts/list":
                self.result(number, {"prompts": [{**NAMED, "arguments": [NAMED]}]})
            case "resources/list":
                self.result(number, {"resources": [{**NAMED, "uri": "memo://x", "mimeType": HOSTILE}]})
            case "resources/templates/list":
                self.result(number, {"resourceTemplates": [{**NAMED, "uriTemplate": "memo://{x}"}]})
            case "tools/call":
                print(f"called {params['name']} {HOSTILE}", file=sys.stderr, flush=True)
                self.tell("notifications/message", {"level": "error", "logger": HOSTILE, "data": HOSTILE})
                self.call(number, params["name"], params)
            case "server/discover":
                self.refuse(number, "no such method")
            case _:
                self.result(number, {})

    def call(self, number: Any, name: str, params: dict[str, Any]) -> None:
        match name:
            case "kinds":
                self.done(number, json.dumps(params["arguments"], sort_keys=True), with_picture=True)
            case "fail":
                self.result(number, {"content": [_text(HOSTILE)], "isError": True})
            case "refuse":
                self.refuse(number, HOSTILE)
            case "ask":
                self.asking = number
                asked = {"message": HOSTILE, "requestedSchema": QUESTION}
                self.say({"id": "question", "method": "elicitation/create", "params": asked})
            case "slow":
                self.waiting.append(number)
                token = params.get("_meta", {}).get("progressToken")
                report = {"progressToken": token, "progress": 1, "total": 4, "message": HOSTILE}
                self.tell("notifications/progress", report)
            case "go_on":
                for waiting in self.waiting:
                    self.done(waiting, "it went on")
                self.waiting = []
                self.done(number, "told")
            case "die":
                print(f"dying of {HOSTILE}", file=sys.stderr)
                sys.exit(3)
            case "change":
                self.tools = [*self.tools, _tool("grown")]
                self.tell("notifications/tools/list_changed", {})
                self.done(number, "changed")
            case _:
                self.done(number, HOSTILE)

    def answered(self, message: dict[str, Any]) -> None:
        self.done(self.asking, f"answered: {json.dumps(message.get('result'), sort_keys=True)}")

    def done(self, number: Any, text: str, *, with_picture: bool = False) -> None:
        data = base64.b64encode(png()).decode("ascii")
        picture = {"type": "image", "data": data, "mimeType": "image/png"}
        link = {"type": "resource_link", "uri": "memo://x", "name": HOSTILE, "title": HOSTILE}
        content = [_text(text), *([picture, link, _text(HOSTILE)] if with_picture else [])]
        structured = {"structuredContent": {HOSTILE: HOSTILE}} if with_picture else {}
        self.result(number, {"content": content, **structured})

    def refuse(self, number: Any, text: str) -> None:
        self.say({"id": number, "error": {"code": -32601, "message": text, "data": text}})

    def result(self, number: Any, result: dict[str, Any]) -> None:
        self.say({"id": number, "result": result})

    def tell(self, method: str, params: dict[str, Any]) -> None:
        self.say({"method": method, "params": params})

    def say(self, message: dict[str, Any]) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


if __name__ == "__main__":
    if sys.argv[1:] and not Path(sys.argv[1]).exists():
        print(f"cannot start: {HOSTILE}", file=sys.stderr)
        sys.exit(3)
    Wild().serve()
