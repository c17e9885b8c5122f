"""Servers that send any bytes in answer to a call, over HTTP in this process and over stdio.

Over stdio it is a program: a call of `look` has the bytes to write in its arguments, in base64.
"""

import asyncio
import base64
import gc
import json
import logging
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from copy import deepcopy
from typing import Any, Literal

ID = b'"@ID@"'
"""Stands for the id of the call."""
Kind = Literal["post", "session", "sse"]
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hostile", "version": "1"},
    },
    "tools/list": {
        "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("look", "plain")]
    },
    "tools/call": {"content": [{"type": "text", "text": "seen"}]},
    "ping": {},
}


def answer(message: dict[str, Any], results: dict[str, Any] = RESULTS) -> bytes:
    """The answer that a good server would send."""
    result = results.get(message["method"])
    outcome = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}).encode()


def modern(results: dict[str, Any]) -> dict[str, Any]:
    """The same, for a client of the modern era."""
    discover: dict[str, Any] = {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hostile", "version": "1"},
        "ttlMs": 0,
        "cacheScope": "private",
    }
    cached = {"ttlMs": 0, "cacheScope": "private"}
    return {
        **results,
        "server/discover": {"resultType": "complete", **discover},
        "tools/list": {"resultType": "complete", **cached, **results["tools/list"]},
        "tools/call": {"resultType": "complete", **results["tools/call"]},
    }


def response(body: bytes, *headers: str, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """A response of a given length."""
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def chunked(*parts: bytes, kind: str = "application/json", end: bytes = b"0\r\n\r\n") -> bytes:
    """A response in chunks."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


class HostileHttp:
    """Answers every request as it should, except calls of `look`."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.attack = b""
        """The response to a call of `look`; over a stream, the bytes in front of the answer."""
        self.odd = "tools/call"
        """The attacked method; of all calls, only `look` is attacked."""
        self.results = deepcopy(RESULTS)
        self.url = ""
        self.swallows = False
        """Whether calls are not answered."""
        self.swallowed = asyncio.Event()
        self.streaming = asyncio.Event()
        """Set when an event stream is open."""
        self._asked: dict[str, asyncio.Event] = {}
        self._streams: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()
            self._connections.discard(writer)

    async def close(self) -> None:
        """End all connections, so that none is left to be found unclosed later."""
        open_ones = list(self._connections)
        for writer in open_ones:
            writer.close()
        for writer in open_ones:
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                fields = dict(line.lower().split(": ", 1) for line in head.strip().split("\r\n")[1:])
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                if head.startswith("GET"):
                    self._open_stream(writer)
                elif not body or not {"id", "method"} <= set(message := json.loads(body)):
                    is_odd = self.odd.startswith("notifications/") and self.odd.encode() in body
                    writer.write(self.attack if is_odd else response(b"", status="202 Accepted"))
                    if is_odd:
                        break
                else:
                    self._answer(writer, message)
                await writer.drain()

    def _open_stream(self, writer: asyncio.StreamWriter) -> None:
        if self.kind == "post":
            writer.write(response(b"", status="405 Method Not Allowed"))
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        if self.kind == "sse":
            writer.write(b"event: endpoint\r\ndata: /post\r\n\r\n")
        self._streams.add(writer)
        self.streaming.set()

    def asked(self, method: str) -> asyncio.Event:
        """Set when there was a request of that method."""
        return self._asked.setdefault(method, asyncio.Event())

    def write_event(self, data: bytes) -> None:
        """Send a message that nobody asked for."""
        for stream in self._streams:
            stream.write(b"data: " + data + b"\n\n")

    def drop_streams(self) -> None:
        """End the event streams that are open."""
        for stream in self._streams:
            stream.close()
        self._streams.clear()

    def _answer(self, writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        self.asked(message["method"]).set()
        if self.swallows:
            writer.write(response(b"", status="202 Accepted"))
            self.swallowed.set()
            return
        is_call = message["method"] == "tools/call"
        is_odd = message["method"] == self.odd and (not is_call or message["params"]["name"] == "look")
        attack = self.attack.replace(ID, json.dumps(message["id"]).encode()) if is_odd else b""
        if self.kind == "post":
            writer.write(attack if is_odd else response(answer(message, self.results)))
            if is_odd:
                writer.close()
            return
        for stream in self._streams:
            stream.write(attack)
        if self.kind == "session":
            writer.write(response(answer(message, self.results), "mcp-session-id: one"))
            return
        for stream in self._streams:
            stream.write(b"\n\ndata: " + answer(message, self.results) + b"\n\n")
        writer.write(response(b"", status="202 Accepted"))


@asynccontextmanager
async def hostile_http(kind: Kind) -> AsyncGenerator[HostileHttp]:
    """Serve on a free port until the block ends."""
    server = HostileHttp(kind)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        server.url = f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
        try:
            yield server
        finally:
            await server.close()


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(f"{record.getMessage()} {record.exc_info}")


@contextmanager
def nothing_unhandled() -> Generator[None]:
    """Fail if an exception was logged, or was never retrieved from a task."""
    records = _Records()
    loggers = [logging.getLogger(name) for name in ("toolbus", "asyncio")]
    for logger in loggers:
        logger.addHandler(records)
    gc.collect(1)
    gc.freeze()  # so that only what is new is searched, which is a tenth of the time in a long run
    try:
        yield
        gc.collect()
    finally:
        for logger in loggers:
            logger.removeHandler(records)
    assert records.found == []


def _serve_stdio() -> None:
    out = sys.stdout.buffer
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        if message["method"] == "tools/call" and message["params"]["name"] == "look":
            raw = base64.b64decode(message["params"]["arguments"]["raw"])
            out.write(raw.replace(ID, json.dumps(message["id"]).encode()) + b"\n")
        out.write(answer(message) + b"\n")
        out.flush()


if __name__ == "__main__":
    _serve_stdio()
