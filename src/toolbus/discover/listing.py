"""List everything a server offers: all pages, up to a limit.

A list that fails is a problem in the inventory, never a failed connection. A tool whose definition is
invalid is quarantined with a reason; the others are kept.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import mcp_types as types
from mcp import Client
from mcp_types import INTERNAL_ERROR, METHOD_NOT_FOUND
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from toolbus.connect.sdk import wire
from toolbus.connect.session import OutputCheck, ServerSession
from toolbus.connect.transports.http import is_temporary
from toolbus.core.collector import paused_collector
from toolbus.core.text.text import cleaned
from toolbus.core.values import freshness
from toolbus.core.values.errors import CallTimeout, ServerRejected
from toolbus.core.values.freshness import KINDS, Freshness, ListKind, freshness_of
from toolbus.core.values.records import Quarantined, ToolSpec
from toolbus.core.values.skills import SKILLS, InvalidSkill, shown_uri, skill_of
from toolbus.core.values.tool_definition import tool_spec

T = TypeVar("T")
MAX_PAGES = 1_000
HEADER = b"x-mcp-header"

PAUSE_AFTER = 0.01
"""Seconds of reading definitions after which other tasks have their turn."""


class ListPage(NamedTuple):
    """One page of a list: its items or their records, and how it goes on."""

    items: list[Any]
    cursor: str | None
    freshness: Freshness | None


def _parsed(model: type[BaseModel], record: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda server, item: record(server, model.model_validate(item, by_name=False))


class _ListMethod(NamedTuple):
    """The way to list one kind; `Any` because the SDK's models have no common base class."""

    method: str
    key: str
    """The list in a page."""
    limit: str
    """The key of `limits`."""
    record: Callable[[str, Any], Any] | None
    """The record of an item; None for tools, which are read in `_tools`."""


_LISTS: dict[ListKind, _ListMethod] = {
    "tools": _ListMethod("tools/list", "tools", "tools", None),
    "resources": _ListMethod(
        "resources/list", "resources", "resources", _parsed(types.Resource, wire.resource)
    ),
    "templates": _ListMethod(
        "resources/templates/list",
        "resourceTemplates",
        "resources",
        _parsed(types.ResourceTemplate, wire.resource_template),
    ),
    "prompts": _ListMethod("prompts/list", "prompts", "prompts", _parsed(types.Prompt, wire.prompt)),
    "skills": _ListMethod("skills/list", "skills", "skills", skill_of),
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
    fresh_until: float | None = None
    """The time when the first of its pages expires (`freshness.clock`); None if the server does not say."""

    def add_page(self, said: Freshness | None) -> None:
        """Count one more page, which has just come."""
        self.pages += 1
        if said is not None:
            until = freshness.clock() + said.seconds
            self.fresh_until = until if self.fresh_until is None else min(until, self.fresh_until)


async def list_kinds(session: ServerSession, kinds: Sequence[ListKind] = KINDS) -> dict[ListKind, ListResult]:
    """List the given kinds concurrently; raises `ToolbusError` only if the connection is gone."""
    results = await asyncio.gather(*(_list_kind(session, kind) for kind in kinds), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return dict(zip(kinds, cast("list[ListResult]", results), strict=True))


async def _list_kind(session: ServerSession, kind: ListKind) -> ListResult:
    if not _is_declared(session, kind):
        return ListResult()
    result = ListResult()
    records: list[Any] = []
    deadline = asyncio.get_running_loop().time() + session.config.timeouts.list
    cursor: str | None = None
    seen: set[str] = set()
    key = _LISTS[kind].limit
    limit: int = getattr(session.config.limits, key)
    try:
        while True:
            remaining = max(0.001, deadline - asyncio.get_running_loop().time())
            page = await _page(session, kind, cursor, remaining)
            result.add_page(page.freshness)
            records += page.items
            cursor = page.cursor
            if len(records) > limit:
                result.problem = f"{kind}: only the first {limit:,} are used (limits.{key})"
                del records[limit:]
                break
            if not cursor:
                break
            if cursor in seen or result.pages >= MAX_PAGES:
                result.problem = f"{kind}: stopped after {result.pages} pages because the list does not end"
                break
            seen.add(cursor)
    except (ServerRejected, CallTimeout) as error:
        if not _is_optional(session, kind, error):
            result.problem = f"{kind} could not be listed: {error.problem}"
            result.is_temporary = isinstance(error, CallTimeout) or is_temporary(error.status or 0)
    if kind == "tools":
        records, result.quarantined = _deduplicated(records)
        session.outputs = {
            tool.origin.tool: OutputCheck(tool.output_schema) for tool in records if tool.output_schema
        }
    if kind == "skills":
        records = list({skill.uri: skill for skill in reversed(records)}.values())[::-1]
    result.records = tuple(records)
    return result


def _is_declared(session: ServerSession, kind: ListKind) -> bool:
    capabilities = session.client.server_capabilities
    match kind:
        case "tools":  # some servers offer tools without declaring the capability
            return True
        case "skills":
            return SKILLS in (capabilities.extensions or {})
        case "prompts":
            return capabilities.prompts is not None
        case "resources" | "templates":
            return capabilities.resources is not None


def _is_optional(session: ServerSession, kind: ListKind, error: ServerRejected | CallTimeout) -> bool:
    """Whether the failure only shows that the server does not offer this kind."""
    if kind == "tools":
        return session.client.server_capabilities.tools is None
    return isinstance(error, ServerRejected) and error.code == METHOD_NOT_FOUND


async def _page(session: ServerSession, kind: ListKind, cursor: str | None, timeout: float) -> ListPage:
    """One page of records; an item that is invalid is left out, with a warning."""
    method, key, limit, record = _LISTS[kind]
    what = f"the list of {kind}"
    page = await session.list_page(method, what, cursor, timeout)
    sent, next_cursor = page.get(key), page.get("nextCursor")
    if not isinstance(sent, list):
        raise ServerRejected(session.server, what, INTERNAL_ERROR, "the response contains no list")
    # One more than the limit, which shows that there are more.
    most: int = getattr(session.config.limits, limit)
    items = cast("list[Any]", sent)[: most + 1]

    def kept(item: Any) -> Any:
        assert record is not None
        try:
            return record(session.server, item)
        except (ValidationError, RecursionError, InvalidSkill) as error:
            session.result_filter.dropped.append(_left_out(kind[:-1], item, error))
            return None

    if record is None:
        records = await _tools(session, items, cursor, timeout)
    else:
        records = [each for each in await _converted(items, kept) if each is not None]
    return ListPage(
        records,
        next_cursor if isinstance(next_cursor, str) else None,
        freshness_of(page) if session.era == "modern" else None,
    )


def _left_out(noun: str, item: Any, error: Exception) -> str:
    if isinstance(error, InvalidSkill):
        return f"the {noun} {shown_uri(item)} was left out: {error}"
    name = cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else None
    reason = "its definition is nested too deeply"
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'definition'}: {first['msg']}"
    return f"the {noun}{f' {cleaned(name)!r}' if isinstance(name, str) else ''} was left out: {reason}"


async def _tools(
    session: ServerSession, items: list[Any], cursor: str | None, timeout: float
) -> list[ToolSpec | Quarantined]:
    _record_task_tools(session, items)
    server, limits = session.server, session.config.limits
    longest, largest = limits.description, limits.schema_size
    records = await _converted(items, lambda item: tool_spec(server, item, longest, largest))
    if session.era == "modern":
        specs = [record for record in records if isinstance(record, ToolSpec)]
        # All at once first, because hardly any server has such tools.
        if HEADER in to_json([spec.input_schema for spec in specs]):
            names = {spec.name for spec in specs if HEADER in to_json(spec.input_schema)}
            return await _check_headers(session, records, names, cursor, timeout)
    return records


async def _converted(items: list[Any], record: Callable[[Any], T]) -> list[T]:
    """The records of items; a long list is read in parts, so that it does not keep the loop busy."""
    records: list[T] = []
    waiting = iter(items)
    while True:
        end = time.perf_counter() + PAUSE_AFTER
        with paused_collector():
            for item in waiting:
                records.append(record(item))
                if time.perf_counter() > end:
                    break
            else:
                return records
        await asyncio.sleep(0)


def _record_task_tools(session: ServerSession, items: list[Any]) -> None:
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
    session: ServerSession,
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
