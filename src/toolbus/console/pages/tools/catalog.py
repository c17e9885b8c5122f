"""All tools by server, with what each costs in tokens, and a search over their names and descriptions."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeAlias
from urllib.parse import urlencode

from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Page, PageRequest
from toolbus.console.widgets import anchor, form, table, text_field
from toolbus.core.text.display import counted, shortened
from toolbus.core.values.records import ToolSpec

MOST_SHOWN = 1000
"""Tools on the page; a search finds the others."""
_ABOUT = 200
Tokens: TypeAlias = Mapping[str, int]
"""How many tokens a tool takes, by its name; without those that cannot be counted."""


async def render(console: Console, request: PageRequest) -> Element:
    words = request.query.get("search")
    catalog = list(console.bus.catalog)
    found = await asyncio.to_thread(matching, catalog, words)
    tokens = await console.costs.highest(found[:MOST_SHOWN])
    servers = await asyncio.to_thread(_servers, found[:MOST_SHOWN], tokens)
    return element(
        "div",
        _search(words),
        live("catalog-summary", _summary(catalog, found, tokens), tag="p", role="status"),
        live("catalog", servers or _empty(words)),
    )


def matching(tools: Sequence[ToolSpec], words: str) -> list[ToolSpec]:
    """The tools with all these words in their names or descriptions."""
    terms = words.lower().split()

    def has_all(spec: ToolSpec) -> bool:
        text = f"{spec.name} {spec.origin} {spec.title or ''} {spec.description}".lower()
        return all(term in text for term in terms)

    return [spec for spec in tools if has_all(spec)]


def link_to(spec: ToolSpec) -> str:
    return f"tool?{urlencode({'name': spec.name})}"


def _search(words: str) -> Element:
    label, field = text_field("search", "Search", "search", type="search", value=words)
    line = element("div", field, element("button", "Search", type="submit"), class_="search")
    return form("catalog", label, line, method="get", role="search")


def _summary(catalog: Sequence[ToolSpec], found: Sequence[ToolSpec], tokens: Tokens) -> str:
    shown = counted(len(found), "tool")
    if len(found) < len(catalog):
        shown = f"{len(found)} of {counted(len(catalog), 'tool')}"
    if len(found) > MOST_SHOWN:
        shown += f"; the first {MOST_SHOWN} are shown"
    return f"{shown}, about {sum(tokens.values()):,} tokens in a request to a model"


def _empty(words: str) -> Element:
    return element("p", "No tool has these words." if words else "There are no tools.", class_="empty")


def _servers(found: Sequence[ToolSpec], tokens: Tokens) -> list[Element]:
    by_server: dict[str, list[ToolSpec]] = {}
    for spec in found:
        by_server.setdefault(spec.origin.server, []).append(spec)
    return [_server(alias, specs, tokens) for alias, specs in by_server.items()]


def _server(alias: str, specs: Sequence[ToolSpec], tokens: Tokens) -> Element:
    heading = anchor("catalog-name", alias)
    total = sum(tokens.get(spec.name, 0) for spec in specs)
    return live(
        anchor("catalog-server", alias),
        element("h2", alias, id=heading),
        element("p", f"{counted(len(specs), 'tool')}, about {total:,} tokens", class_="faint"),
        table(
            f"Tools of {alias}",
            ("Tool", "Tokens"),
            [_row(one, tokens.get(one.name)) for one in specs],
            number=1,
        ),
        tag="section",
        aria_labelledby=heading,
    )


def _row(spec: ToolSpec, tokens: int | None) -> tuple[Child, Child]:
    about = element("div", shortened(spec.description, _ABOUT), class_="faint")
    link = element("a", spec.name, href=link_to(spec))
    return [link, spec.description != "" and about], "unknown" if tokens is None else f"{tokens:,}"


PAGE = Page(path="catalog", title="Catalog", render=render, topics={"catalog"})
