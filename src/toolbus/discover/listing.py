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
from mcp_types import INTERNAL_ERROR
from pydantic import ValidationError
from pydantic_core import to_json

from toolbus.connect import Session
from toolbus.connect.sdk import wire
from toolbus.connect.sdk.output_check import OutputCheck
from toolbus.connect.sdk.tools import tool_spec
from toolbus.connect.transports.http import is_temporary
from toolbus.core.errors import CallRejected, CallTimeout
from toolbus.core.records import Quarantined, ToolSpec

MOST_PAGES = 1_000
HEADER = b"x-mcp-header"
Page: TypeAlias = tuple[list[Any], str | None]

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
    may_pass: bool = False
    """Whether the fault may be over in a moment."""


async def listed(session: Session, kinds: Iterable[Kind] = KINDS) -> dict[Kind, Listing]:
    """List the given kinds, all at once; raises `ToolbusError` only if the connection is gone."""
    wanted = list(kinds)
    results = await asyncio.gather(*(_kind(session, kind) for kind in wanted), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return dict(zip(wanted, cast("list[Listing]", results), strict=True))


async def _kind(session: Session, kind: Kind) -> Listing:
    # Tools are asked for in any case: servers have been seen that offer some and forget to say so.
    if kind != "tools" and not _LISTS[kind].declared(session.client.server_capabilities):
        return Listing()
    listing = Listing()
    records: list[Any] = []
    deadline = asyncio.get_running_loop().time() + session.config.timeouts.list
    cursor: str | None = None
    seen: set[str] = set()
    try:
        while True:
            remaining = max(0.001, deadline - asyncio.get_running_loop().time())
            page, cursor = await _PAGES.get(kind, _page)(session, kind, cursor, remaining)
            listing.pages += 1
            records += page
            if not cursor:
                break
            if cursor in seen or listing.pages >= MOST_PAGES:
                listing.fault = f"{kind}: stopped after {listing.pages} pages that would not end"
                break
            seen.add(cursor)
    except (CallRejected, CallTimeout) as error:
        if kind != "tools" or session.client.server_capabilities.tools is not None:
            listing.fault = f"{kind} could not be listed: {error.problem}"
            listing.may_pass = isinstance(error, CallTimeout) or is_temporary(error.status or 0)
    if kind == "tools":
        records, listing.quarantined = _sorted_out(records)
        session.outputs = {
            tool.origin.tool: OutputCheck(tool.output_schema) for tool in records if tool.output_schema
        }
    listing.records = tuple(records)
    return listing


async def _page(session: Session, kind: Kind, cursor: str | None, timeout: float) -> Page:
    how, what = _LISTS[kind], f"the list of {kind}"
    try:
        page = await session.request(what, lambda client: how.ask(client, cursor), timeout)
    except CallRejected as error:
        if session.result_filter.sifting or not isinstance(error.__cause__, ValidationError):
            raise
        # The SDK refuses a page for one bad item: have the bad ones taken out, and ask again.
        session.result_filter.sifting = True
        page = await session.request(what, lambda client: how.ask(client, cursor), timeout)
    return [how.record(session.server, item) for item in how.items(page)], page.next_cursor


async def _tools_page(session: Session, kind: Kind, cursor: str | None, timeout: float) -> Page:
    page = await session.tools_page(cursor, timeout)
    items = page.get("tools")
    if not isinstance(items, list):
        raise CallRejected(session.server, "the list of tools", INTERNAL_ERROR, "the answer holds no list")
    _learn_tasks(session, cast("list[Any]", items))
    following = page.get("nextCursor")
    records = [tool_spec(session.server, item) for item in cast("list[Any]", items)]
    if session.era == "modern":
        headed = {r.name for r in records if isinstance(r, ToolSpec) and HEADER in to_json(r.input_schema)}
        if headed:
            records = await _with_headers(session, records, headed, cursor, timeout)
    return records, following if isinstance(following, str) else None


def _learn_tasks(session: Session, items: list[Any]) -> None:
    """Note the tools that a server of the legacy era runs as tasks only, if it says that it has tasks."""
    tasks = session.client.server_capabilities.tasks
    offered = tasks and tasks.requests and tasks.requests.tools and tasks.requests.tools.call is not None
    for item in items if offered and session.era == "legacy" else ():
        match item:
            case {"name": str() as name, "execution": {"taskSupport": "required"}}:
                session.tasks_only.add(name)
            case {"name": str() as name}:
                session.tasks_only.discard(name)
            case _:
                pass


async def _with_headers(
    session: Session,
    records: list[ToolSpec | Quarantined],
    headed: set[str],
    cursor: str | None,
    timeout: float,
) -> list[ToolSpec | Quarantined]:
    """Some arguments go into headers: have the SDK learn which, and leave out the tools it must not use."""

    async def ask(client: Client) -> types.ListToolsResult:
        with session.result_filter.sifting_tools():
            return await client.list_tools(cursor=cursor)

    page = await session.request("the list of tools", ask, timeout)
    unusable = headed - {tool.name for tool in page.tools}
    return [
        Quarantined(tool=record.name, reason="its x-mcp-header annotations are invalid")
        if isinstance(record, ToolSpec) and record.name in unusable
        else record
        for record in records
    ]


_PAGES = {"tools": _tools_page}


def _sorted_out(records: list[ToolSpec | Quarantined]) -> tuple[list[ToolSpec], tuple[Quarantined, ...]]:
    distinct: dict[str, ToolSpec] = {}
    bad: list[Quarantined] = []
    for record in records:
        if isinstance(record, Quarantined):
            bad.append(record)
        elif record.name in distinct:
            bad.append(
                Quarantined(
                    tool=record.name, reason="the server lists this name twice; the first one is used"
                )
            )
        else:
            distinct[record.name] = record
    # Sorted, because some servers list in another order every time, and prompt caches would miss.
    return [distinct[name] for name in sorted(distinct)], tuple(bad)
