"""Other gateways in front of the same stdio server, each as its documentation shows, without authentication.

| gateway | started as |
|---|---|
| FastMCP proxy | `create_proxy({"mcpServers": ...})`: a session with the server for each request |
| FastMCP, shared | `create_proxy(client)`, with a client that is connected: one session for all |
| mcp-proxy | `mcp-proxy -- COMMAND`: one session for all; its clients are of the legacy era |
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import distributions

from bench.http_load import lanes, legacy_session, load, posted, request
from bench.measure import Round, reason
from bench.processes import running
from bench.sides import ROOT, STDIO

COMMAND: list[str] = [STDIO["command"], *STDIO["args"]]
FASTMCP = [sys.executable, "-m", "bench.fastmcp_proxy"]
MCP_PROXY = ROOT / ".interop" / "mcp-proxy" / "bin" / "mcp-proxy"
LISTENS = r"running on (http://[\w.:]+)"
"""The log line of uvicorn, on which all of them run."""
TEXT: Mapping[str, str] = {"text": "hello"}
LONGEST = 120.0
"""Seconds of a round, so that a gateway that hangs is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherGateway:
    """A gateway to compare with."""

    command: Sequence[str]
    legacy: bool = False
    """Whether its clients are of the legacy era."""


OTHERS: dict[str, OtherGateway] = {
    "FastMCP proxy": OtherGateway(command=[*FASTMCP, *COMMAND]),
    "FastMCP, shared": OtherGateway(command=[*FASTMCP, "shared", *COMMAND]),
    "mcp-proxy": OtherGateway(command=[str(MCP_PROXY), "--port", "0", "--", *COMMAND], legacy=True),
}


def mcp_proxy_version() -> str | None:
    """Of the one that `tests/interop/install.py` installs; None if it is not there."""
    folders = map(str, MCP_PROXY.parents[1].glob("lib/python*/site-packages"))
    return next((found.version for found in distributions(name="mcp-proxy", path=list(folders))), None)


async def open_others(
    stack: AsyncExitStack, in_flight: int, calls: int
) -> tuple[dict[str, Round], dict[str, str]]:
    """Rounds of calls through each of them, and why some have none."""
    rounds: dict[str, Round] = {}
    left_out: dict[str, str] = {}
    for name, gateway in OTHERS.items():
        try:
            url, requests = await stack.enter_async_context(_opened(gateway, in_flight))
        except Exception as error:  # not installed, or it cannot serve
            left_out[name] = reason(error)
        else:
            rounds[name] = calls_round(url, requests, calls)
    return rounds, left_out


@asynccontextmanager
async def _opened(gateway: OtherGateway, in_flight: int) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """Its URL, and a call for each connection."""
    with running(gateway.command, LISTENS) as (_, address):
        url = f"{address}/mcp"
        if not gateway.legacy:
            yield url, [request(url, "echo", TEXT)] * in_flight
            return
        async with lanes(url, 1) as [lane]:
            headers = await legacy_session(lane, url)
        call = {"method": "tools/call", "params": {"name": "echo", "arguments": TEXT}}
        # In one session, calls in flight need different ids.
        yield url, [posted(url, {"id": number, **call}, headers) for number in range(1, in_flight + 1)]


def calls_round(url: str, requests: Sequence[bytes], calls: int) -> Round:
    """That many calls, each request on a connection of its own: the seconds of each call, or per call."""

    async def run() -> list[float]:
        # New connections each time: many servers close those that are idle for some seconds.
        async with lanes(url, len(requests)) as over, asyncio.timeout(LONGEST):
            done = await load(over, requests, calls)
        return list(done.latencies) if len(requests) == 1 else [done.seconds / calls]

    return run
