"""Search over servers, tools, calls and pages; the palette of the header shows its hits over any page."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolbus.console.call_log import CallRecord
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element
from toolbus.console.links import call_url, server_url, tool_url
from toolbus.console.page import Page, PageRequest
from toolbus.console.widgets import form, moment, status, text_field
from toolbus.core.text.display import shortened
from toolbus.core.values.records import ServerStatus, ToolSpec

MOST_HITS = 10
"""The hits of each kind that are shown."""
LONGEST_WORDS = 200
_ABOUT = 120
Kind: TypeAlias = Literal["Pages", "Servers", "Tools", "Calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaletteHit:
    """Something that has all the words."""

    kind: Kind
    title: str
    url: str
    about: Callable[[], Child] = lambda: None
    """More about it; called for shown hits alone."""
    rank: int
    """The lower, the better."""


def search_page(pages: Callable[[], Sequence[Page]]) -> Page:
    """The page that searches; `pages` are those that it finds."""

    async def render(console: Console, request: PageRequest) -> Element:
        words = request.query.get("words")[:LONGEST_WORDS]
        known = [page for page in pages() if not page.under and page.is_there(console)]
        statuses, tools = console.bus.servers, list(console.bus.catalog)
        calls = [*console.calls.in_flight, *console.calls.ended]

        def found() -> list[PaletteHit]:
            return [
                *_pages(known, words),
                *_servers(statuses, words),
                *(_tools(tools, words) if words.strip() else ()),
                *(_calls(calls, words) if words.strip() else ()),
            ]

        label, field = text_field(
            "words", "Words", "words", type="search", value=words, maxlength=LONGEST_WORDS
        )
        line = element("div", field, element("button", "Search", type="submit"), class_="search")
        hits = await asyncio.to_thread(found)
        return element(
            "div",
            form("search", label, line, method="get", role="search"),
            element("div", _groups(hits, words), id="hits", class_="hits"),
        )

    return Page(path="search", title="Search", render=render, under="search")


def _groups(hits: Iterable[PaletteHit], words: str) -> Child:
    """The hits by kind, with the kind of the best one first."""
    groups = dict[Kind, list[PaletteHit]]()
    for hit in sorted(hits, key=lambda hit: hit.rank):
        groups.setdefault(hit.kind, []).append(hit)
    if not groups:
        none = f"Nothing has the words {shortened(words)!r}." if words else "There is nothing yet."
        return element("p", none, class_="empty", role="status")
    return [_group(kind, found) for kind, found in groups.items()]


def _group(kind: Kind, hits: Sequence[PaletteHit]) -> Element:
    more = len(hits) - MOST_HITS
    return element(
        "section",
        element("h2", kind),
        element("ul", [element("li", _hit(hit)) for hit in hits[:MOST_HITS]]),
        more > 0 and element("p", f"{more:,} more; type more words to find them", class_="faint"),
        aria_label=kind,
    )


def _hit(hit: PaletteHit) -> Element:
    return element("a", hit.title, element("span", hit.about(), class_="about"), href=hit.url)


def _rank(words: str, name: str, more: str = "") -> int | None:
    """The rank of a name, from 0 for the best; None if a word is neither in it nor in `more`."""
    terms, name = words.lower().split(), name.lower()
    whole = " ".join(terms)
    if name == whole:
        return 0
    if name.startswith(whole):
        return 1
    if all(term in name for term in terms):
        return 2
    text = f"{name} {more}".lower()
    return 3 if all(term in text for term in terms) else None


def _pages(pages: Iterable[Page], words: str) -> Iterator[PaletteHit]:
    for page in pages:
        if (rank := _rank(words, page.title)) is not None:
            yield PaletteHit(kind="Pages", title=page.title, url=page.path, rank=rank)


def _servers(statuses: Mapping[str, ServerStatus], words: str) -> Iterator[PaletteHit]:
    for alias, now in statuses.items():
        if (rank := _rank(words, alias, now.state)) is not None:

            def about(now: ServerStatus = now) -> Child:
                return status(now.state)

            yield PaletteHit(kind="Servers", title=alias, url=server_url(alias), about=about, rank=rank)


def _tools(tools: Iterable[ToolSpec], words: str) -> Iterator[PaletteHit]:
    for spec in tools:
        more = f"{spec.origin} {spec.title or ''} {spec.description}"
        if (rank := _rank(words, spec.name, more)) is not None:

            def about(spec: ToolSpec = spec) -> Child:
                return f"{spec.origin.server}: {shortened(spec.description, _ABOUT)}"

            yield PaletteHit(kind="Tools", title=spec.name, url=tool_url(spec.name), about=about, rank=rank)


def _calls(calls: Iterable[CallRecord], words: str) -> Iterator[PaletteHit]:
    for call in calls:
        who = f"{call.caller.face} {call.caller.user}"
        more = f"{call.id} {call.server} {who} {call.outcome or 'running'} {call.error or ''}"
        if (rank := _rank(words, call.name, more)) is not None:

            def about(call: CallRecord = call) -> Child:
                now = call.outcome or ("waiting" if call.waits_for else "running")
                return [status(now), " ", moment(call.at), f" {call.error or ''}"]

            yield PaletteHit(
                kind="Calls", title=call.name, url=call_url(str(call.id)), about=about, rank=rank
            )
