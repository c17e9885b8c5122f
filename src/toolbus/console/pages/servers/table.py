"""All servers in one table: failed ones first, with what they did in the last 24 hours."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.links import server_link
from toolbus.console.page import Page, PageRequest
from toolbus.console.pages.servers.actions import actions_of
from toolbus.console.pages.servers.health import counts_of, crashes_per_hour, is_looping, strip_of
from toolbus.console.pages.servers.parts import NAMES, offers_sign_in, reason_of, server_button, state_badge
from toolbus.console.widgets import anchor, badge, choice, form, moment, text_field
from toolbus.core.text.display import counted, duration, shortened
from toolbus.core.values.records import ServerStatus

LONGEST_REASON = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """A server as one row of the table."""

    alias: str
    state: str
    """As a person reads it: `crash loop`, `sign-in needed`."""
    rank: int
    """The lower, the more it needs attention."""
    transport: str
    status: ServerStatus | None
    """None for a disabled server."""
    reason: str = ""
    calls: int = 0
    errors: int = 0
    p95: float | None = None
    crashes: int = 0
    """Within an hour."""


_RANKS = (
    "crash loop",
    "failed",
    "sign-in needed",
    "retrying",
    "connecting",
    "closed",
    "ready",
    "idle",
    "disabled",
)
_SORTS: Mapping[str, tuple[str, Callable[[ServerRow], tuple[object, ...]]]] = {
    "state": ("State", lambda row: (row.rank,)),
    "name": ("Server", lambda row: ()),
    "tools": ("Tools", lambda row: (-(row.status.tools if row.status else 0),)),
    "calls": ("Calls", lambda row: (-row.calls,)),
    "errors": ("Errors", lambda row: (-row.errors,)),
    "p95": ("p95", lambda row: (-(row.p95 or 0.0),)),
    "crashes": ("Crashes per hour", lambda row: (-row.crashes,)),
}
_COLUMNS = ("name", "state", "", "tools", "calls", "errors", "p95", "crashes", "")
"""The sort key of each column."""
_LABELS = {column: _SORTS[key][0] for column, key in enumerate(_COLUMNS) if 3 <= column <= 7}
"""The headings of numbers, for phones."""


async def render(console: Console, request: PageRequest) -> Element:
    rows = [*_rows(console)]
    shown = _sorted(_found(rows, request), request.query.get("sort"))
    return element(
        "div",
        element(
            "div",
            live("servers-summary", _summary(rows, len(console.bus.catalog)), tag="p", role="status"),
            element("a", "Add a server", href="add-server", class_="main button"),
            class_="title",
        ),
        _filter(rows, request),
        live("servers", _table(console, shown, request) if shown else _empty(rows)),
    )


def _rows(console: Console) -> Iterable[ServerRow]:
    config, statuses = console.bus.config, console.bus.servers
    for alias, status in statuses.items():
        if alias not in config.servers:
            continue
        error, counts = console.bus.failures.get(alias), counts_of(console, alias)
        loops = is_looping(console, alias)
        state = "crash loop" if loops else NAMES.get(status.state, status.state)
        yield ServerRow(
            alias=alias,
            state=state,
            rank=_RANKS.index(state),
            transport=config.servers[alias].transport,
            status=status,
            reason=reason_of(error) if error else "",
            calls=counts.calls,
            errors=counts.errors,
            p95=counts.p95,
            crashes=crashes_per_hour(console, alias),
        )
    for alias in config.disabled:
        yield ServerRow(
            alias=alias, state="disabled", rank=_RANKS.index("disabled"), transport="", status=None
        )


def _summary(rows: Sequence[ServerRow], tools: int) -> str:
    used = [row for row in rows if row.status is not None]
    ready = sum(row.state == "ready" for row in used)
    off = len(rows) - len(used)
    disabled = f", {off} disabled" if off else ""
    return (
        f"{ready} of {counted(len(used), 'server')} ready{disabled}, {counted(tools, 'tool')} in the catalog"
    )


def _filter(rows: Sequence[ServerRow], request: PageRequest) -> Element:
    asked, sort = request.query, request.query.get("sort")
    states = {"": "any state"} | {state: state for state in _RANKS}
    sorts = {key: label for key, (label, _) in _SORTS.items()}
    transports = {"": "any transport"} | {one: one for one in sorted({row.transport for row in rows} - {""})}
    return form(
        "servers",
        element(
            "div", text_field("servers-search", "Name", "search", type="search", value=asked.get("search"))
        ),
        element("div", choice("servers-state", "State", "state", states, asked.get("state"))),
        element(
            "div", choice("servers-transport", "Transport", "transport", transports, asked.get("transport"))
        ),
        element("div", choice("servers-sort", "Sort by", "sort", sorts, sort if sort in _SORTS else "state")),
        element("button", "Show", type="submit"),
        method="get",
        class_="filter",
        role="search",
    )


def _found(rows: Iterable[ServerRow], request: PageRequest) -> list[ServerRow]:
    words = request.query.get("search").casefold().split()
    state, transport = request.query.get("state"), request.query.get("transport")
    return [
        row
        for row in rows
        if all(word in row.alias.casefold() for word in words)
        and state in ("", row.state)
        and transport in ("", row.transport)
    ]


def _sorted(rows: Iterable[ServerRow], sort: str) -> list[ServerRow]:
    _, key = _SORTS.get(sort, _SORTS["state"])
    return sorted(rows, key=lambda row: (*key(row), row.alias.casefold()))


def _empty(rows: Sequence[ServerRow]) -> Element:
    if rows:
        return element(
            "p", "No server is like that. ", element("a", "Show all", href="servers"), class_="empty"
        )
    text = "The config has no servers. ", element("a", "Add the first one.", href="add-server")
    return element("p", text, class_="empty")


def _table(console: Console, rows: Sequence[ServerRow], request: PageRequest) -> Element:
    labels = {"name": "Server", "": "24 hours"}
    titles = [
        element("th", _heading(key, request) if key else labels[""], scope="col", class_=_class(column))
        for column, key in enumerate(_COLUMNS[:-1])
    ]
    return element(
        "div",
        element(
            "table",
            element(
                "thead", element("tr", titles, element("th", element("span", "Actions", class_="spoken")))
            ),
            element("tbody", [_row(console, row) for row in rows]),
        ),
        class_="table servers",
        role="region",
        tabindex=0,
        aria_label="Servers",
    )


def _class(column: int) -> str | None:
    return "number" if 3 <= column <= 7 else None


def _heading(key: str, request: PageRequest) -> Element:
    now = request.query.get("sort")
    is_now = key == (now if now in _SORTS else "state")
    asked = {name: request.query.get(name) for name in ("search", "state", "transport")}
    query = urlencode({**{name: text for name, text in asked.items() if text}, "sort": key})
    return element(
        "a",
        _SORTS[key][0],
        href=f"servers?{query}",
        aria_current="true" if is_now else None,
        title=f"Sort by {_SORTS[key][0].lower()}",
    )


def _row(console: Console, row: ServerRow) -> Element:
    cells: list[Child] = [
        _state(row),
        row.status and strip_of(console, row.alias),
        row.status and row.status.tools,
        row.calls,
        element("span", row.errors, class_="problem") if row.errors else 0,
        duration(row.p95) if row.p95 is not None else element("span", "none", class_="faint"),
        row.crashes,
        _actions(console, row),
    ]
    return live(
        anchor("server", row.alias),
        element(
            "th",
            server_link(row.alias),
            row.transport and [" ", element("span", row.transport, class_="transport")],
            scope="row",
        ),
        [
            element("td", cell, class_=_class(column), data_label=_LABELS.get(column))
            for column, cell in enumerate(cells, start=1)
        ],
        tag="tr",
    )


def _state(row: ServerRow) -> Child:
    status = row.status
    if status is None:
        return badge("disabled", "quiet")
    shown = state_badge(status.state, is_looping=row.state == "crash loop")
    return [
        shown,
        " ",
        element("span", moment(status.since), class_="faint"),
        row.reason and element("div", shortened(row.reason, LONGEST_REASON), class_="problem"),
    ]


def _actions(console: Console, row: ServerRow) -> Child:
    alias = row.alias
    if row.status is None:
        query = urlencode({"name": alias, "switch": "enable"})
        return element(
            "a", "Enable", href=f"edit-server?{query}", class_="button", aria_label=f"Enable {alias}"
        )
    sign_in = offers_sign_in(console, console.bus.config.servers[alias])
    return element(
        "div",
        sign_in and server_button("Sign in", "sign-in", alias, f"Sign in to {alias}", class_="main"),
        server_button("Restart", "restart", alias, f"Restart {alias}", page="servers"),
        class_="actions",
    )


PAGE = Page(
    path="servers",
    title="Servers",
    render=render,
    topics={"servers", "catalog"},
    every=2.0,
    actions=actions_of(lambda alias: f"servers#{anchor('server', alias)}"),
)
