"""A raw load generator for MCP over HTTP, modern era, that costs little itself.

    python -m bench.http_load URL --calls 10000 --in-flight 32 --tool NAME --arguments '{"a": 1}'
    python -m bench.http_load --bare

`--bare` measures the HTTP front alone: a gateway that answers each call with a constant, in this process, and
the load in another.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from toolbus.bus import Toolbus
from toolbus.core.records import JSONObject
from toolbus.gateway.exchange import Exchange
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.app import App
from toolbus.gateway.http.run import HttpServer, listening_socket

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a run of calls came to."""

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


def request(url: str, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
    """The bytes of a tool call; the same for every call."""
    parts = urlsplit(url)
    meta = {
        f"{PREFIX}protocolVersion": VERSION,
        f"{PREFIX}clientInfo": {"name": "load", "version": "1"},
        f"{PREFIX}clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = json.dumps(message).encode()
    lines = {
        "Host": parts.netloc,
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
        "Content-Length": str(len(body)),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {parts.path} HTTP/1.1\r\n{head}\r\n".encode() + body


async def load(url: str, data: bytes, calls: int, in_flight: int) -> Load:
    """Make the calls, each connection one after the other; fails on the first error."""
    parts = urlsplit(url)
    left = iter(range(calls))
    latencies: list[float] = []

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for _ in left:
            started = time.perf_counter()
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            size = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
            body = await reader.readexactly(size)
            latencies.append(time.perf_counter() - started)
            assert b'"result"' in body, body
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    started = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(in_flight)))
    return Load(calls=calls, seconds=time.perf_counter() - started, latencies=sorted(latencies))


class ConstantGateway(Gateway):
    """Answers every request with the same result."""

    async def answer(self, exchange: Exchange, method: str, params: JSONObject | None) -> JSONObject:
        return {"content": [{"type": "text", "text": "3"}]}


async def bare(calls: int, in_flight: int) -> tuple[Load, float]:
    """The HTTP front alone: what a load came to, and the microseconds of CPU that each call took."""
    server = HttpServer(App(ConstantGateway(Toolbus({"servers": {}}))))
    sock = listening_socket("127.0.0.1", 0)
    await server.start(sock)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
    data = request(url, "add", {"a": 1, "b": 2}, {})
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(
        target=_load_in_child, args=(theirs, url, data, calls, in_flight)
    )
    before = time.process_time()
    child.start()
    try:
        done = await asyncio.to_thread(ours.recv)
    finally:
        child.join()
        await server.close()
    return done, 1e6 * (time.process_time() - before) / calls


def _load_in_child(pipe: Any, url: str, data: bytes, calls: int, in_flight: int) -> None:
    asyncio.set_event_loop(None)
    pipe.send(asyncio.run(load(url, data, calls, in_flight)))


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
        done, cpu = asyncio.run(bare(options.calls, options.in_flight))
        print(f"{cpu:.0f} us of CPU per call")
    else:
        headers = {"Authorization": f"Bearer {options.key}"} if options.key else {}
        data = request(options.url, options.tool, options.arguments, headers)
        done = asyncio.run(load(options.url, data, options.calls, options.in_flight))
    p50, p99 = done.percentile(0.5), done.percentile(0.99)
    print(f"{done.per_second:,.0f} calls/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms")


if __name__ == "__main__":
    main()
