"""List everything a server offers: all pages, with a guard against those that never end.

A list that fails is a note, never a failed connection. A tool whose definition is invalid is left
out with a reason; the others live.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import mcp_types as types
from mcp import Client
from pydantic import ValidationError

from toolbus.connect import Session, wire
from toolbus.errors import CallRejected, CallTimeout
from toolbus.records import Quarantined, ToolSpec

MOST_PAGES = 1_000

Kind: TypeAlias = Literal["tools", "resources", "templates", "prompts"]
KINDS: tuple[Kind, ...] = ("tools", "resources", "templates", "prompts")


@dataclass(frozen=True, slots=True)
class _List:
    """How one kind of thing is listed; `Any` because the SDK's pages share no base with their items."""

    ask: Callable[[Client, str | None], Awaitable[Any]]
    items: Callable[[Any], Iterable[Any]]
    record: Callable[[str, Any], Any]
    declared: Callable[[types.ServerCapabilities], bool]


_LISTS: dict[Kind, _List] = {
    "tools": _List(
        lambda client, cursor: client.list_tools(cursor=cursor),
        lambda page: page.tools,
        wire.tool_spec,
        # Asked for in any case: servers have been seen that offer tools and forget to say so.
        lambda _: True,
    ),
    "resources": _List(
        lambda client, cursor: client.list_resources(cursor=cursor),
        lambda page: page.resources,
        wire.resource,
        lambda capabilities: capabilities.resources is not None,
    ),
    "templates": _List(
        lambda client, cursor: client.list_resource_templates(cursor=cursor),
        lambda page: page.resource_templates,
        wire.resource_template,
        lambda capabilities: capabilities.resources is not None,
    ),
    "prompts": _List(
        lambda client, cursor: client.list_prompts(cursor=cursor),
        lambda page: page.prompts,
        wire.prompt,
        lambda capabilities: capabilities.prompts is not None,
    ),
}


@dataclass(slots=True)
class Listing:
    """What came of listing one kind: the records, and what went wrong, if anything did."""

    records: tuple[Any, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    pages: int = 0
    fault: str | None = None


async def listed(session: Session, kinds: Iterable[Kind] = KINDS) -> dict[Kind, Listing]:
    """List the given kinds, all at once; raises `ToolbusError` only if the connection is gone."""
    wanted = list(kinds)
    results = await asyncio.gather(*(_kind(session, kind) for kind in wanted), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return dict(zip(wanted, cast("list[Listing]", results), strict=True))


async def _kind(session: Session, kind: Kind) -> Listing:
    how = _LISTS[kind]
    if not how.declared(session.client.server_capabilities):
        return Listing()
    items: list[Any] = []
    listing = Listing()
    quarantined: list[Quarantined] = []
    deadline = asyncio.get_running_loop().time() + session.config.timeouts.list
    cursor: str | None = None
    seen: set[str] = set()
    try:
        while True:
            page = await _page(session, kind, cursor, deadline)
            listing.pages += 1
            items += how.items(page)
            if kind == "tools":
                quarantined += _left_out(session, page)
            cursor = page.next_cursor
            if not cursor:
                break
            if cursor in seen or listing.pages >= MOST_PAGES:
                listing.fault = f"{kind}: stopped after {listing.pages} pages that would not end"
                break
            seen.add(cursor)
    except (CallRejected, CallTimeout) as error:
        listing.fault = f"{kind} could not be listed: {error.problem}"
    records = [how.record(session.server, item) for item in items]
    if kind == "tools":
        records, twice = _distinct(records)
        quarantined += twice
        session.listed = {tool.origin.tool for tool in records}
    listing.records, listing.quarantined = tuple(records), tuple(quarantined)
    return listing


async def _page(session: Session, kind: Kind, cursor: str | None, deadline: float) -> Any:
    remaining = max(0.001, deadline - asyncio.get_running_loop().time())
    what = f"the list of {kind}"
    try:
        return await session.request(what, lambda client: _LISTS[kind].ask(client, cursor), remaining)
    except CallRejected as error:
        if session.sieve.sifting or not isinstance(error.__cause__, ValidationError):
            raise
        # The SDK refuses a page for one bad item: have the bad ones taken out, and ask again.
        session.sieve.sifting = True
        return await session.request(what, lambda client: _LISTS[kind].ask(client, cursor), remaining)


def _left_out(session: Session, page: types.ListToolsResult) -> list[Quarantined]:
    sieve = session.sieve
    left_out, sieve.quarantined = sieve.quarantined, []
    kept = {tool.name for tool in page.tools}
    # In the modern era the SDK must drop such tools, and does so in silence.
    left_out += [
        Quarantined(tool=name, reason="its x-mcp-header annotations are invalid")
        for name in sieve.listed
        if name not in kept
    ]
    return left_out


def _distinct(tools: list[ToolSpec]) -> tuple[list[ToolSpec], list[Quarantined]]:
    distinct: dict[str, ToolSpec] = {}
    bad: list[Quarantined] = []
    for tool in tools:
        name = tool.origin.tool
        if not name.strip():
            bad.append(Quarantined(tool="(no name)", reason="the name is empty"))
        elif name in distinct:
            bad.append(
                Quarantined(tool=name, reason="the server lists this name twice; the first one is used")
            )
        else:
            distinct[name] = tool
    # Sorted, because some servers list in another order every time, and prompt caches would miss.
    return [distinct[name] for name in sorted(distinct)], bad
