"""The openings of the sides of a comparison: connected, started or held, and ready for a round of work."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeAlias

from bench.compare.peers import OTHERS, Connected, Entry
from bench.fresh import Held, first_listing, held, imported, server_started
from bench.limit import limit_calls
from bench.measure import Opening, Piece, Round, Sides, reason, single
from bench.sides import (
    STDIO,
    Era,
    bus_calls,
    bus_listed,
    bus_started,
    http_server,
    raw_calls,
    raw_listed,
    raw_started,
)
from bench.turns import Run, timed
from bench.work import Work

Turning: TypeAlias = Callable[[], AbstractAsyncContextManager[Run]]

SERVER = "bench"


def calls(url: str | None, work: Work, era: Era = "modern", *, with_peers: bool = False) -> Opening:
    """All sides connected to a server, and the same calls on each."""

    @asynccontextmanager
    async def open_all() -> AsyncGenerator[Sides]:
        async with (
            raw_calls(url, era) as raw,
            bus_calls(url, era) as toolbus,
            limit_calls(url) as limit,
            AsyncExitStack() as stack,
        ):
            peers, left_out = await connected_peers(stack, url, work) if with_peers else ({}, {})
            yield Sides(
                raw=lambda: work(raw),
                toolbus=lambda: work(toolbus),
                limit=lambda: work(limit),
                peers=peers,
                left_out=left_out,
            )

    return open_all


def beside_limit(url: str | None, work: Work) -> Opening:
    """toolbus, next to the client that is written by hand."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        async with limit_calls(url) as limit, bus_calls(url, "modern") as toolbus:
            yield Sides(raw=lambda: work(limit), toolbus=lambda: work(toolbus))

    return open_both


async def connected_peers(
    stack: AsyncExitStack, url: str | None, work: Work
) -> tuple[dict[str, Round], dict[str, str]]:
    """The rounds of the other clients, and why some have none."""
    entry: Entry = {"url": url} if url else STDIO
    peers: dict[str, Round] = {}
    left_out: dict[str, str] = {}
    for peer in OTHERS.values():
        try:
            connected = await stack.enter_async_context(peer.open({SERVER: entry}))
        except Exception as error:  # not installed, or it cannot speak to the server
            left_out[peer.name] = reason(error)
        else:
            peers[peer.name] = peer_round(work, connected)
    return peers, left_out


def peer_round(work: Work, connected: Connected) -> Round:
    """A round of work by another client."""
    return lambda: work(lambda tool, text: connected.call(SERVER, tool, text))


def listing(tools: int) -> Opening:
    """Both sides listing that many tools of a server that is up."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with http_server(tools) as url:
            yield once(lambda: raw_listed(url), lambda: bus_listed(url, tools))

    return open_both


def tools_held(count: int) -> Opening:
    """Both sides holding that many tools, each alone in an interpreter."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        with http_server(count) as url:
            yield held_by_both("tools", count, url)

    return open_both


def holding(what: Held, count: int, url: str = "") -> Opening:
    """Both sides holding that many links or calls, each alone in an interpreter."""
    return alone(held_by_both(what, count, url))


def held_by_both(what: Held, count: int, url: str) -> Sides:
    """The bytes for each, on both sides."""
    return once(lambda: held("raw", what, count, url), lambda: held("toolbus", what, count, url))


def started(count: int) -> Opening:
    """Both sides starting that many servers."""
    return alone(once(lambda: raw_started(count), lambda: bus_started(count)))


def imports() -> Opening:
    """Both sides imported by an interpreter of their own."""
    return alone(once(lambda: imported("mcp"), lambda: imported("toolbus")))


def first_listings() -> Opening:
    """A first listing, next to the two things it cannot do without."""
    return alone(once(lambda: imported("mcp"), first_listing, server_started))


def turns(own: Turning, ours: Turning) -> Opening:
    """The same agent on its framework's own MCP integration and on toolbus."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        async with own() as raw, ours() as toolbus:
            yield Sides(raw=lambda: timed(raw), toolbus=lambda: timed(toolbus))

    return open_both


def alone(sides: Sides) -> Opening:
    """Sides that need nothing held open."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[Sides]:
        yield sides

    return open_both


def once(raw: Piece, toolbus: Piece, second_raw: Piece | None = None) -> Sides:
    """Rounds of a single piece each."""
    return Sides(
        raw=single(raw), toolbus=single(toolbus), second_raw=single(second_raw) if second_raw else None
    )
