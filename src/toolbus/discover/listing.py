"""List everything a server offers: all pages, up to a limit.

A list that fails is a problem in the inventory, never a failed connection. A tool whose definition is
invalid is quarantined with a reason; the others are kept.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import mcp_types as types
from mcp import Client
from mcp_types import INTERNAL_ERROR
from pydantic import ValidationError
from pydantic_core import to_json

from toolbus.connect.sdk import wire
from toolbus.connect.sdk.output_check import OutputCheck
from toolbus.connect.session import Session
from toolbus.connect.transports.http import is_temporary
from toolbus.core.collector import paused_collector
from toolbus.core.errors import CallRejected, CallTimeout
from toolbus.core.records import Quarantined, ToolSpec
from toolbus.core.tool_definition import tool_spec

MAX_PAGES = 1_000
HEADER = b"x-mcp-header"
Page: TypeAlias = tuple[list[Any], str | None]

ListKind: TypeAlias = Literal["tools", "resources", "templates", "prompts"]
KINDS: tuple[ListKind, ...] = ("tools", "resources", "templates", "prompts")


@dataclass(frozen=True, slots=True)
class _ListMethod:
    """How to list one kind; `Any` because the SDK's pages have no common base class."""

    request: Callable[[Client, str | None], Awaitable[Any]]
    items: Callable[[Any], Iterable[Any]]
    record: Callable[[str, Any], Any]
    declared: Callable[[types.ServerCapabilities], bool]


_LISTS: dict[ListKind, _ListMethod] = {
    "resources": _ListMethod(
        lambda client, cursor: client.list_resources(cursor=cursor),
        lambda page: page.resources,
        wire.resource,
        lambda capabilities: capabilities.resources is not None,
    ),
    "templates": _ListMethod(
        lambda client, cursor: client.list_resource_templates(cursor=cursor),
        lambda page: page.resource_templates,
        wire.resource_template,
        lambda capabilities: capabilities.resources is not None,
    ),
    "prompts": _ListMethod(
        lambda client, cursor: client.list_prompts(cursor=cursor),
        lambda page: page.prompts,
        wire.prompt,
        lambda capabilities: capabilities.prompts is not None,
    ),
}


@dataclass(slots=True)
class ListResult:
    """The records of one kind, and the problem if it could not be listed completely."""

    records: tuple[Any, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    pages: int = 0
    problem: str | None = None
    is_temporary: bool = False
    """Whether listing again may succeed."""


async def list_kinds(session: Session, kinds: Sequence[ListKind] = KINDS) -> dict[ListKind, ListResult]:
    """List the given kinds concurrently; raises `ToolbusError` only if the connection is gone."""
    results = await asyncio.gather(*(_list_kind(session, kind) for kind in kinds), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return dict(zip(kinds, cast("list[ListResult]", results), strict=True))


async def _list_kind(session: Session, kind: ListKind) -> ListResult:
    # Tools are always listed: some servers offer tools without declaring the capability.
    if kind != "tools" and not _LISTS[kind].declared(session.client.server_capabilities):
        return ListResult()
    result = ListResult()
    records: list[Any] = []
    deadline = asyncio.get_running_loop().time() + session.config.timeouts.list
    cursor: str | None = None
    seen: set[str] = set()
    limit = session.config.limits.tools
    try:
        while True:
            remaining = max(0.001, deadline - asyncio.get_running_loop().time())
            page, cursor = await (
                _tools_page(session, cursor, remaining)
                if kind == "tools"
                else _page(session, kind, cursor, remaining)
            )
            result.pages += 1
            records += page
            if kind == "tools" and len(records) > limit:
                result.problem = f"tools: only the first {limit:,} are used (limits.tools)"
                del records[limit:]
                break
            if not cursor:
                break
            if cursor in seen or result.pages >= MAX_PAGES:
                result.problem = f"{kind}: stopped after {result.pages} pages because the list does not end"
                break
            seen.add(cursor)
    except (CallRejected, CallTimeout) as error:
        if kind != "tools" or session.client.server_capabilities.tools is not None:
            result.problem = f"{kind} could not be listed: {error.problem}"
            result.is_temporary = isinstance(error, CallTimeout) or is_temporary(error.status or 0)
    if kind == "tools":
        records, result.quarantined = _deduplicated(records)
        session.outputs = {
            tool.origin.tool: OutputCheck(tool.output_schema) for tool in records if tool.output_schema
        }
    result.records = tuple(records)
    return result


async def _page(session: Session, kind: ListKind, cursor: str | None, timeout: float) -> Page:
    method, what = _LISTS[kind], f"the list of {kind}"
    try:
        page = await session.request(what, lambda client: method.request(client, cursor), timeout)
    except CallRejected as error:
        if session.result_filter.drops_invalid or not isinstance(error.__cause__, ValidationError):
            raise
        # The SDK refuses a page because of one invalid item: drop those, and list again.
        session.result_filter.drops_invalid = True
        page = await session.request(what, lambda client: method.request(client, cursor), timeout)
    return [method.record(session.server, item) for item in method.items(page)], page.next_cursor


async def _tools_page(session: Session, cursor: str | None, timeout: float) -> Page:
    page = await session.tools_page(cursor, timeout)
    items = page.get("tools")
    if not isinstance(items, list):
        raise CallRejected(
            session.server, "the list of tools", INTERNAL_ERROR, "the response contains no list"
        )
    # One more than the limit, which shows that there are more.
    items = cast("list[Any]", items)[: session.config.limits.tools + 1]
    _record_task_tools(session, items)
    next_cursor = page.get("nextCursor")
    with paused_collector():
        records = [tool_spec(session.server, item, session.config.limits) for item in items]
    if session.era == "modern":
        specs = [record for record in records if isinstance(record, ToolSpec)]
        # All at once first, because hardly any server has such tools.
        if HEADER in to_json([spec.input_schema for spec in specs]):
            names = {spec.name for spec in specs if HEADER in to_json(spec.input_schema)}
            records = await _check_headers(session, records, names, cursor, timeout)
    return records, next_cursor if isinstance(next_cursor, str) else None


def _record_task_tools(session: Session, items: list[Any]) -> None:
    """Remember the tools that a legacy server runs only as tasks, if it declares that it supports tasks."""
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


async def _check_headers(
    session: Session,
    records: list[ToolSpec | Quarantined],
    names: set[str],
    cursor: str | None,
    timeout: float,
) -> list[ToolSpec | Quarantined]:
    """Let the SDK learn which arguments of these tools go into headers; quarantine those it refuses."""

    async def list_tools(client: Client) -> types.ListToolsResult:
        with session.result_filter.dropping_invalid_tools():
            return await client.list_tools(cursor=cursor)

    page = await session.request("the list of tools", list_tools, timeout)
    invalid = names - {tool.name for tool in page.tools}
    return [
        Quarantined(tool=record.name, reason="its x-mcp-header annotations are invalid")
        if isinstance(record, ToolSpec) and record.name in invalid
        else record
        for record in records
    ]


def _deduplicated(records: list[ToolSpec | Quarantined]) -> tuple[list[ToolSpec], tuple[Quarantined, ...]]:
    distinct: dict[str, ToolSpec] = {}
    quarantined: list[Quarantined] = []
    for record in records:
        if isinstance(record, Quarantined):
            quarantined.append(record)
        elif record.name in distinct:
            quarantined.append(
                Quarantined(
                    tool=record.name, reason="the server lists this name twice; the first one is used"
                )
            )
        else:
            distinct[record.name] = record
    # Sorted, because some servers change the order on every request, which would defeat prompt caches.
    return [distinct[name] for name in sorted(distinct)], tuple(quarantined)
