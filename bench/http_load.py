"""A raw load generator for MCP over HTTP that costs little itself.

    python -m bench.http_load URL --calls 10000 --in-flight 32 --tool NAME --arguments '{"a": 1}'
    python -m bench.http_load --bare

`--bare` measures the HTTP front of the gateway alone, which answers each call with a constant.
"""

import argparse
import asyncio
import contextlib
import json
import re
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bench.processes import cpu_seconds, running

VERSION = "2026-07-28"
LEGACY_VERSION = "2025-11-25"
PREFIX = "io.modelcontextprotocol/"
INFO = {"name": "load", "version": "1"}
BARE = [sys.executable, "-m", "bench.bare_front"]
Message = dict[str, Any]
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SESSION = re.compile(rb"\r\nmcp-session-id: *(\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The results of a run of calls."""

    calls: int
    seconds: float
    latencies: Sequence[float]
    """Sorted, in seconds."""

    @property
    def per_second(self) -> float:
        return self.calls / self.seconds

    def percentile(self, part: float) -> float:
        """A percentile of the latencies, in milliseconds."""
        return 1000 * self.latencies[min(len(self.latencies) - 1, int(part * len(self.latencies)))]


# Requests


def request(url: str, tool: str, arguments: Mapping[str, Any], key: str | None = None) -> bytes:
    """The bytes of a call of a modern client, the same for every call; `key` is sent as a bearer token."""
    meta = {
        f"{PREFIX}protocolVersion": VERSION,
        f"{PREFIX}clientInfo": INFO,
        f"{PREFIX}clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    return posted(url, {"id": 1, "method": "tools/call", "params": params}, headers, key)


def posted(url: str, message: Message, headers: Mapping[str, str], key: str | None = None) -> bytes:
    """The bytes of a POST with a JSON-RPC message."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    return head("POST", url, "application/json, text/event-stream", lines, key) + body


def head(method: str, url: str, accept: str, headers: Mapping[str, str], key: str | None = None) -> bytes:
    """The head of an HTTP request."""
    parts = urlsplit(url)
    bearer = {"Authorization": f"Bearer {key}"} if key else {}
    lines = {"Host": parts.netloc, "Accept": accept, **headers, **bearer}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {parts.path} HTTP/1.1\r\n{text}\r\n".encode()


# Connections


class Lane:
    """A connection that is kept alive, with one request on it at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def exchange(self, data: bytes) -> tuple[bytes, bytes]:
        """Send a request; returns the head and the body of its response."""
        self.writer.write(data)
        received = await self._reader.readuntil(b"\r\n\r\n")
        size = _LENGTH.search(received)
        return received, await self._reader.readexactly(int(size[1])) if size else b""

    async def call(self, data: bytes) -> float:
        """Seconds of a call, which has to succeed."""
        began = time.perf_counter()
        received, body = await self.exchange(data)
        if not body:
            body = await self._streamed()
        taken = time.perf_counter() - began
        assert received.startswith(b"HTTP/1.1 200"), received
        assert b'"result"' in body, body
        assert b'"isError":true' not in body, body
        return taken

    async def _streamed(self) -> bytes:
        """The chunks of a body: a legacy client's slow answer is a stream of events."""
        chunks: list[bytes] = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            chunks.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return b"".join(chunks)


@contextlib.asynccontextmanager
async def lanes(url: str, count: int) -> AsyncGenerator[list[Lane]]:
    """That many connections."""
    parts = urlsplit(url)
    opened = [Lane(*await asyncio.open_connection(parts.hostname, parts.port)) for _ in range(count)]
    try:
        yield opened
    finally:
        for lane in opened:
            lane.writer.close()
            with contextlib.suppress(ConnectionError):
                await lane.writer.wait_closed()


async def load(over: Sequence[Lane], requests: Sequence[bytes], calls: int) -> Load:
    """Make the calls over these connections, each with its own request; fails on the first error."""
    left = iter(range(calls))
    latencies: list[float] = []

    async def repeat(lane: Lane, data: bytes) -> None:
        for _ in left:
            latencies.append(await lane.call(data))

    started = time.perf_counter()
    await asyncio.gather(*map(repeat, over, requests))
    return Load(calls=calls, seconds=time.perf_counter() - started, latencies=sorted(latencies))


async def legacy_session(lane: Lane, url: str, key: str | None = None) -> dict[str, str]:
    """Open a session as a legacy client; returns the headers of its requests."""
    params = {"protocolVersion": LEGACY_VERSION, "capabilities": {}, "clientInfo": INFO}
    opening = {"id": 0, "method": "initialize", "params": params}
    received, body = await lane.exchange(posted(url, opening, {}, key))
    session = _SESSION.search(received)
    assert session is not None, (received, body)
    headers = {"Mcp-Session-Id": session[1].decode(), "MCP-Protocol-Version": LEGACY_VERSION}
    await lane.exchange(posted(url, {"method": "notifications/initialized"}, headers, key))
    return headers


# The command


async def measured(url: str, data: bytes, options: argparse.Namespace) -> Load:
    """The load that the command line asks for."""
    async with lanes(url, options.in_flight) as over:
        return await load(over, [data] * options.in_flight, options.calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--tool", default="add")
    parser.add_argument("--arguments", type=json.loads, default={"a": 1, "b": 2})
    parser.add_argument("--key", help="sent as a bearer token")
    options = parser.parse_args()
    if options.bare:
        with running(BARE) as (pid, url):
            before = cpu_seconds(pid)
            done = asyncio.run(measured(url, request(url, options.tool, options.arguments), options))
            print(f"{1e6 * (cpu_seconds(pid) - before) / options.calls:.0f} us of CPU per call")
    elif options.url:
        data = request(options.url, options.tool, options.arguments, options.key)
        done = asyncio.run(measured(options.url, data, options))
    else:
        parser.error("name a URL, or --bare")
    p50, p99 = done.percentile(0.5), done.percentile(0.99)
    print(f"{done.per_second:,.0f} calls/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms")


if __name__ == "__main__":
    main()
