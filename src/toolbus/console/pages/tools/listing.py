"""The tools by server: filtered, sorted, and no more of them than a page can carry."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias
from urllib.parse import urlencode

from toolbus.bus.inner import tenant_of
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Fields
from toolbus.console.widgets import anchor, badge, choice, form, hidden_fields
from toolbus.core.text.display import counted
from toolbus.core.values.apps import app_of
from toolbus.core.values.records import Inventory, ToolSpec

MOST_ROWS = 400
"""Tools on the page; of a server that was asked for, all of them."""
FEWEST_ROWS = 4
"""Tools of each server on a full page."""
MOST_OPEN = 60
"""With more tools, most servers are closed."""
ToolState: TypeAlias = Literal["on", "off", "denied"]
"""`off`: the config excludes it; `denied`: the policy denies each call."""
SORTS = {"name": "Name", "tokens": "Most tokens", "use": "Most used"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """The part of the list that a page shows, as in its URL."""

    tool: str = ""
    """The tool that is shown beside the list."""
    search: str = ""
    sort: str = "name"
    server: str = ""
    """Of this one, all tools are shown."""

    @classmethod
    def of(cls, query: Fields) -> "ListQuery":
        sort = query.get("sort")
        return cls(
            tool=query.get("tool"),
            search=query.get("search")[:200],
            sort=sort if sort in SORTS else "name",
            server=query.get("server"),
        )

    @property
    def kept(self) -> dict[str, str]:
        """The query that a link to a tool keeps."""
        given = {"search": self.search, "sort": self.sort, "server": self.server}
        return {key: value for key, value in given.items() if value and (key, value) != ("sort", "name")}

    def url(self, tool: str) -> str:
        return f"tools?{urlencode({'tool': tool, **self.kept})}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """One tool in the list."""

    spec: ToolSpec
    tokens: int | None = None
    uses: int = 0
    state: ToolState = "on"

    @property
    def name(self) -> str:
        """The name that leads to its page."""
        return self.spec.name if self.is_on else str(self.spec.origin)

    @property
    def is_on(self) -> bool:
        """Whether it can be called."""
        return self.state == "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSource:
    """The tools of a bus at one moment; a thread makes the list of it."""

    catalog: Sequence[ToolSpec]
    denied: Sequence[ToolSpec]
    inventories: Mapping[str, Inventory]
    tokens: Mapping[str, int]
    """By public name, as far as they are counted."""
    uses: Mapping[str, int]
    held: Mapping[str, int]
    """The number of tools on hold, by server."""

    @classmethod
    async def of(cls, console: Console) -> "ListSource":
        bus = console.bus
        catalog = bus.catalog
        records = (*console.calls.ended, *console.calls.in_flight)
        return cls(
            catalog=catalog.specs,
            denied=tenant_of(bus).live.shaped.removed.specs,
            inventories=bus.inventories,
            tokens=await console.tokens_of(catalog),
            uses=Counter(one.name for one in records),
            held=Counter(one.server for one in bus.held.values() if one.kind == "tool"),
        )

    def rows(self) -> list[ToolRow]:
        """All tools, those that are off after the others of their server."""
        known = {one.origin for one in (*self.catalog, *self.denied)}
        on = [
            ToolRow(spec=spec, tokens=self.tokens.get(spec.name), uses=self.uses.get(spec.name, 0))
            for spec in self.catalog
        ]
        off = [
            ToolRow(spec=spec, state="off")
            for inventory in self.inventories.values()
            for spec in inventory.tools
            if spec.origin not in known
        ]
        return [*on, *(ToolRow(spec=spec, state="denied") for spec in self.denied), *off]


def search_form(query: ListQuery) -> Element:
    """The filter of the list; not live, because a person types into it."""
    return form(
        "tools",
        hidden_fields({"tool": query.tool} if query.tool else {}),
        element("label", "Search", for_="search", class_="spoken"),
        element(
            "input",
            id="search",
            name="search",
            type="search",
            value=query.search,
            placeholder="Filter by name or description",
            autocomplete="off",
        ),
        element("div", choice("sort", "Sort by", "sort", SORTS, query.sort), class_="sort"),
        element("button", "Show", type="submit", class_="unscripted"),
        method="get",
        role="search",
        id="list-search",
        class_="tools-search",
    )


def tool_list(source: ListSource, query: ListQuery) -> Element:
    """The list, with what it does not show; it takes a while with many tools."""
    rows = source.rows()
    found = _sorted(_matching(rows, query.search), query.sort)
    groups: dict[str, list[ToolRow]] = {}
    for row in found:
        groups.setdefault(row.spec.origin.server, []).append(row)
    ordered = sorted(groups.items(), key=lambda group: (-_weight(group[1], query.sort), group[0].lower()))
    limits = _limits(groups, query.server)
    shown = [
        _group(alias, own, limits[alias], query, is_open=_is_open(alias, found, query))
        for alias, own in ordered
    ]
    if not query.search:
        shown += [_held(alias, source.held[alias]) for alias in sorted(source.held)]
    empty = "No tool has these words." if query.search else "There are no tools."
    return live(
        "list",
        element("p", _summary(rows, found), id="list-summary", role="status", class_="faint"),
        shown or element("p", empty, class_="empty"),
        class_="side-list",
    )


def _matching(rows: Sequence[ToolRow], words: str) -> Sequence[ToolRow]:
    """The tools with all these words in their names or descriptions."""
    terms = words.lower().split()
    if not terms:
        return rows

    def has_all(spec: ToolSpec) -> bool:
        text = f"{spec.name} {spec.origin} {spec.title or ''} {spec.description}".lower()
        return all(term in text for term in terms)

    return [row for row in rows if has_all(row.spec)]


def _sorted(rows: Iterable[ToolRow], sort: str) -> list[ToolRow]:
    def key(row: ToolRow) -> tuple[bool, int, str]:
        most = {"tokens": row.tokens or 0, "use": row.uses}.get(sort, 0)
        return not row.is_on, -most, row.spec.origin.tool.lower()

    return sorted(rows, key=key)


def _weight(rows: Iterable[ToolRow], sort: str) -> int:
    """The weight by which servers are sorted; equal ones are sorted by name."""
    return sum({"tokens": row.tokens or 0, "use": row.uses}.get(sort, 0) for row in rows)


def _limits(groups: Mapping[str, Sequence[ToolRow]], whole: str) -> dict[str, int]:
    """The number of tools to show of each server."""
    if sum(map(len, groups.values())) <= MOST_ROWS:
        return {alias: len(rows) for alias, rows in groups.items()}
    left = MOST_ROWS - len(groups.get(whole, ()))
    each = max(FEWEST_ROWS, left // len(groups))
    return {alias: max(MOST_ROWS, each) if alias == whole else each for alias in groups}


def _is_open(alias: str, found: Sequence[ToolRow], query: ListQuery) -> bool:
    if len(found) <= MOST_OPEN or alias == query.server:
        return True
    return any(row.name == query.tool and row.spec.origin.server == alias for row in found)


def _summary(rows: Sequence[ToolRow], found: Sequence[ToolRow]) -> str:
    every, shown = sum(row.is_on for row in rows), sum(row.is_on for row in found)
    tools = f"{every:,} {'tool' if every == 1 else 'tools'}"
    text = tools if shown == every else f"{shown:,} of {tools}"
    off = sum(row.state == "off" for row in found)
    known = [row.tokens for row in found if row.is_on]
    tokens = [one for one in known if one is not None]
    text += f", {off:,} off" if off else ""
    if len(tokens) < shown:
        return f"{text}; their tokens are being counted" if shown else text
    return f"{text}, about {sum(tokens):,} tokens in a request to a model"


def _group(alias: str, rows: Sequence[ToolRow], limit: int, query: ListQuery, *, is_open: bool) -> Element:
    shown = rows[:limit]
    # The tool that is shown has its place in the list.
    shown = [*shown, *(row for row in rows[limit:] if row.name == query.tool)]
    tokens = sum(row.tokens or 0 for row in rows)
    more = len(rows) - len(shown)
    all_of_it = replace(query, server=alias)
    return element(
        "details",
        element(
            "summary",
            element("strong", alias),
            " ",
            element("span", f"{len(rows):,}", class_="faint", title=f"{tokens:,} tokens"),
        ),
        element("ul", [_row(row, query) for row in shown], class_="plain"),
        more > 0
        and element(
            "p",
            element("a", f"Show all {len(rows):,} of {alias}", href=f"{all_of_it.url(query.tool)}#list"),
        ),
        id=anchor("tools-of", alias),
        open=is_open,
    )


def _held(alias: str, count: int) -> Element:
    where = f"held?{urlencode({'server': alias})}"
    return element("p", element("a", f"{alias}: {counted(count, 'tool')} on hold", href=where))


def _row(row: ToolRow, query: ListQuery) -> Element:
    spec = row.spec
    is_shown = query.tool in (row.name, str(spec.origin))
    own = spec.origin.tool if spec.name.endswith(spec.origin.tool) else spec.name
    link = element("a", own, href=query.url(row.name), aria_current="true" if is_shown else None)
    beside: Child = element("span", _figure(row, query.sort))
    has_app = row.is_on and app_of(spec.meta) is not None
    return element(
        "li",
        link,
        has_app and badge("app", "quiet"),
        beside if row.is_on else badge(row.state, "quiet"),
    )


def _figure(row: ToolRow, sort: str) -> str:
    if sort == "use":
        return f"{row.uses:,}" if row.uses else ""
    return "" if row.tokens is None else f"{row.tokens:,}"
