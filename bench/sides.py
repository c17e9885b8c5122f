"""The two sides of every comparison: the SDK's own client, and toolbus.

Both get the same server, the same era and the same work, and both have listed before they call.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, TypeAlias

from mcp import Client, StdioServerParameters
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolbus import Toolbus

Era: TypeAlias = Literal["modern", "legacy"]
Call: TypeAlias = Callable[[str, str], Awaitable[object]]
"""Calls a tool, by the server's name for it, with a text."""

ROOT = Path(__file__).parent.parent
SERVER = [str(Path(__file__).with_name("server.py"))]
STDIO: dict[str, Any] = {"command": sys.executable, "args": [*SERVER, "stdio"]}
TOOLS = 5
"""The default number of tools of the server."""
STOPPING = 10.0


@contextmanager
def http_server(tools: int = TOOLS) -> Generator[str]:
    """The server over HTTP in a process of its own; gives its URL."""
    command = [sys.executable, *SERVER, "http", str(tools)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError("the server of the benchmark did not start")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait(STOPPING)


def raw_client(url: str | None, era: Era) -> Client:
    """The SDK's client, over stdio if there is no URL."""
    mode = "auto" if era == "modern" else "legacy"
    return Client(url or StdioServerParameters(**STDIO), mode=mode)


def bus_entry(url: str | None, era: Era) -> dict[str, Any]:
    """The same server as an entry of a toolbus config; `auto` in the modern case, as for the client."""
    where = {"url": url} if url else STDIO
    return {**where, "era": "auto" if era == "modern" else "legacy", "required": True}


def bench_bus(url: str | None, era: Era) -> Toolbus:
    """toolbus with that one server."""
    return Toolbus({"servers": {"bench": bus_entry(url, era)}})


async def listed(client: Client) -> tuple[object, ...]:
    """List what toolbus lists at its start, at once as toolbus does."""
    return await asyncio.gather(
        client.list_tools(), client.list_resources(), client.list_resource_templates(), client.list_prompts()
    )


@asynccontextmanager
async def raw_calls(url: str | None, era: Era) -> AsyncGenerator[Call]:
    """Calls by the SDK's client."""
    async with raw_client(url, era) as client:
        assert (client.protocol_version in MODERN_PROTOCOL_VERSIONS) == (era == "modern")
        await listed(client)
        yield lambda tool, text: client.call_tool(tool, {"text": text})


@asynccontextmanager
async def bus_calls(url: str | None, era: Era) -> AsyncGenerator[Call]:
    """Calls by toolbus."""
    async with bench_bus(url, era) as bus:
        assert bus.servers["bench"].era == era
        yield lambda tool, text: bus.call(f"bench_{tool}", {"text": text})


async def raw_listed(url: str) -> float:
    """Seconds until a client has connected over HTTP and holds the lists."""
    began = perf_counter()
    async with raw_client(url, "modern") as client:
        held = await listed(client)
        elapsed = perf_counter() - began
        assert held
    return elapsed


async def bus_listed(url: str, tools: int) -> float:
    """Seconds until toolbus has connected over HTTP and holds the catalog."""
    began = perf_counter()
    async with bench_bus(url, "modern") as bus:
        elapsed = perf_counter() - began
        assert len(bus.catalog) == tools
    return elapsed


async def raw_started(count: int) -> float:
    """Seconds until `count` clients, each with a process of its own, have connected and listed."""
    # Two barriers: a client has to be left in the task that entered it.
    ready, leave = asyncio.Barrier(count + 1), asyncio.Barrier(count + 1)

    async def one() -> None:
        async with raw_client(None, "modern") as client:
            await listed(client)
            await ready.wait()
            await leave.wait()

    async with asyncio.TaskGroup() as group:
        began = perf_counter()
        for _ in range(count):
            group.create_task(one())
        await ready.wait()
        elapsed = perf_counter() - began
        await leave.wait()
    return elapsed


async def bus_started(count: int) -> float:
    """Seconds until a bus of `count` processes has started."""
    began = perf_counter()
    bus = Toolbus({"servers": {f"bench{n}": bus_entry(None, "modern") for n in range(count)}})
    try:
        await bus.start()
        elapsed = perf_counter() - began
        assert len(bus.catalog) == count * TOOLS
    finally:
        await bus.stop()
    return elapsed
