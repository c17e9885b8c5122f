"""The server that all sides call: `python server.py stdio|http [TOOLS]`, without the SDK.

It costs as little as a server in Python can, so that only the client is measured. Over HTTP, it prints its
port once it listens, and ends when its input does. `echo` gives back its text, `big` a text of a given size.
Over stdio, a call of `hold` is answered only after a call of `release`. A call of `held` is answered once the
number of held calls in its text is reached.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

TEXT: Message = {"type": "object", "properties": {"text": {"type": "string"}}}
# Lists that may be kept for a minute: without that, the SDK's client leaves its cache empty.
FRESH = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
CAPABILITIES: Message = {"tools": {}, "resources": {}, "prompts": {}}
NAMES = ["echo", "big", "hold", "held", "release"]


def tools(count: int) -> list[Message]:
    """The five that do something, and as many more as are asked for."""
    named = [*NAMES, *(f"tool_{number}" for number in range(count - len(NAMES)))]
    return [{"name": name, "description": f"The tool {name}.", "inputSchema": TEXT} for name in named]


class Server:
    """Answers one message at a time; what a call gives back is up to `said`."""

    def __init__(self, tools: list[Message], said: Callable[[Message], str]) -> None:
        self._tools = tools
        self._said = said

    def answer(self, data: bytes) -> bytes | None:
        """The reply to a message; none to a notice."""
        message: Message = json.loads(data)
        if "id" not in message:
            return None
        reply: Message = {"jsonrpc": "2.0", "id": message["id"]}
        result = self._result(message["method"], message.get("params") or {})
        if result is None:
            reply["error"] = {"code": -32601, "message": "no such method"}
        else:
            reply["result"] = result
        return json.dumps(reply, separators=(",", ":")).encode()

    def _result(self, method: str, params: Message) -> Message | None:
        match method:
            case "tools/call":
                return {"content": [{"type": "text", "text": self._said(params)}], "resultType": "complete"}
            case "tools/list":
                return {"tools": self._tools, **FRESH}
            case "resources/list":
                return {"resources": [], **FRESH}
            case "resources/templates/list":
                return {"resourceTemplates": [], **FRESH}
            case "prompts/list":
                return {"prompts": [], **FRESH}
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, **FRESH}
            case "initialize":
                info = {"name": "bench", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
            case _:
                return None


def said(params: Message) -> str:
    """The result of a call."""
    arguments: Message = params.get("arguments") or {}
    return "x" * int(arguments["text"]) if params["name"] == "big" else str(arguments.get("text"))


class Holding:
    """Keeps calls of `hold` back until one of `release`; passes on all other messages."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self._answer = answer
        self._held: list[bytes] = []
        self._awaited: tuple[int, bytes] | None = None
        """The number of calls that `held` waits for, and the call itself."""

    def answers(self, data: bytes) -> list[bytes]:
        """The replies that a message sets free."""
        ready = [data]
        if any(b'"%b"' % name in data for name in (b"hold", b"held", b"release")):
            ready = self._ready(data, json.loads(data))
        return [reply for message in ready if (reply := self._answer(message))]

    def _ready(self, data: bytes, message: Message) -> list[bytes]:
        params: Message = message.get("params") or {}
        match params.get("name"):
            case "hold":
                self._held.append(data)
            case "held":
                self._awaited = (int(params["arguments"]["text"]), data)
            case "release":
                released, self._held = self._held, []
                return [*released, data]
            case _:
                return [data]
        if self._awaited is None or len(self._held) < self._awaited[0]:
            return []
        (_, awaiting), self._awaited = self._awaited, None
        return [awaiting]


def serve_stdio(server: Server) -> None:
    """Serve until the input ends."""
    holding = Holding(server.answer)
    for line in sys.stdin.buffer:
        for reply in holding.answers(line):
            sys.stdout.buffer.write(reply + b"\n")
            sys.stdout.buffer.flush()


async def serve_http(server: Server, port: int = 0) -> None:
    """Serve on a port of loopback, by default a free one, connections kept alive, until the input ends."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = next(
                    (int(h[15:]) for h in head.lower().split(b"\r\n") if h[:15] == b"content-length:"), 0
                )
                reply = server.answer(await reader.readexactly(size)) if head[:4] == b"POST" else None
                status = b"200 OK" if reply else b"202 Accepted" if head[:4] == b"POST" else b"405 No"
                kind = b"content-type: application/json\r\n" if reply else b""
                length = str(len(reply or b"")).encode()
                writer.write(
                    b"HTTP/1.1 %b\r\n%bcontent-length: %b\r\n\r\n" % (status, kind, length) + (reply or b"")
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    asyncio.get_running_loop().add_reader(sys.stdin, os._exit, 0)
    listening = await asyncio.start_server(converse, "127.0.0.1", port, limit=2**26)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    kind, *more = sys.argv[1:]
    bare = Server(tools(int(more[0]) if more else len(NAMES)), said)
    serve_stdio(bare) if kind == "stdio" else asyncio.run(serve_http(bare))
