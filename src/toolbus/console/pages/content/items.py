"""The resources, templates, prompts and skills of all servers as one list, and the fields that each takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlencode

from toolbus.console.console import Console
from toolbus.console.elements import Element, element, live
from toolbus.console.fields import InputField
from toolbus.console.page import Fields
from toolbus.console.widgets import anchor, choice, form, hidden_fields
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ArgumentsError
from toolbus.core.values.records import Prompt, Resource, ResourceTemplate
from toolbus.core.values.skills import Skill
from toolbus.core.values.uri_templates import required_variables, variables

Kind: TypeAlias = Literal["resource", "template", "prompt", "skill"]
KINDS: dict[Kind, str] = {
    "resource": "Resources",
    "template": "Templates",
    "prompt": "Prompts",
    "skill": "Skills",
}
MOST_ROWS = 400
"""Entries on the page; the filter finds the others."""
Entry: TypeAlias = Resource | ResourceTemplate | Prompt | Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentItem:
    """Something that a server offers beside its tools."""

    kind: Kind
    server: str
    name: str
    """A URI, a template, or the name of a prompt."""
    entry: Entry

    @property
    def title(self) -> str:
        """Its name for people."""
        return getattr(self.entry, "title", None) or self.entry.name

    @property
    def key(self) -> str:
        """Tells it from all others."""
        return f"{self.kind} {self.server} {self.name}"

    @property
    def hidden(self) -> dict[str, str]:
        """The fields of a form that name it."""
        return {"kind": self.kind, "server": self.server, "name": self.name}

    def url(self, **more: str | int) -> str:
        return f"content?{urlencode({**self.hidden, **more})}"

    @property
    def fields(self) -> list[InputField]:
        """The fields to fill in before it is read; ArgumentsError if its template is invalid."""
        if isinstance(self.entry, Prompt):
            return [
                InputField(
                    name=one.name,
                    kind="text",
                    title=one.name,
                    description=one.description,
                    required=one.required,
                )
                for one in self.entry.arguments
            ]
        if isinstance(self.entry, ResourceTemplate):
            template = self.entry.uri_template
            needed = required_variables(template)
            return [
                InputField(name=name, kind="text", title=name, required=name in needed)
                for name in variables(template)
            ]
        return []

    @property
    def fault(self) -> str | None:
        """The reason if it cannot be read."""
        try:
            _ = self.fields
        except ArgumentsError as error:
            return str(error)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentQuery:
    """The part of the list that a page shows, as in its URL."""

    search: str = ""
    only: str = ""
    """The kind that is shown; empty for all."""
    kind: str = ""
    server: str = ""
    name: str = ""

    @classmethod
    def of(cls, query: Fields) -> "ContentQuery":
        only = query.get("show")
        return cls(
            search=query.get("search")[:200],
            only=only if only in KINDS else "",
            kind=query.get("kind"),
            server=query.get("server"),
            name=query.get("name"),
        )

    @property
    def kept(self) -> dict[str, str]:
        """The query that a link to an entry keeps."""
        given = {"search": self.search, "show": self.only}
        return {key: value for key, value in given.items() if value}


def items_of(console: Console) -> list[ContentItem]:
    """All that the servers offer, and the policy allows, beside tools."""
    bus = console.bus
    return [
        *(
            ContentItem(kind="resource", server=one.server, name=one.uri, entry=one)
            for one in bus.resources()
        ),
        *(
            ContentItem(kind="template", server=one.server, name=one.uri_template, entry=one)
            for one in bus.templates()
        ),
        *(ContentItem(kind="prompt", server=one.server, name=one.name, entry=one) for one in bus.prompts()),
        *(ContentItem(kind="skill", server=one.server, name=one.uri, entry=one) for one in bus.skills()),
    ]


def find(items: Sequence[ContentItem], fields: Fields) -> ContentItem | None:
    """The entry that a query or a form names."""
    key = f"{fields.get('kind')} {fields.get('server')} {fields.get('name')}"
    return next((one for one in items if one.key == key), None)


def search_form(query: ContentQuery) -> Element:
    given = {"kind": query.kind, "server": query.server, "name": query.name} if query.name else {}
    return form(
        "content",
        hidden_fields(given),
        element("label", "Search", for_="search", class_="spoken"),
        element(
            "input",
            id="search",
            name="search",
            type="search",
            value=query.search,
            placeholder="Filter by name, URI or description",
            autocomplete="off",
        ),
        element(
            "div", choice("show", "Show", "show", {"": "everything", **KINDS}, query.only), class_="sort"
        ),
        element("button", "Show", type="submit", class_="unscripted"),
        method="get",
        role="search",
        id="list-search",
        class_="tools-search",
    )


def item_list(items: Sequence[ContentItem], query: ContentQuery) -> Element:
    """The list by server; it takes a while with many entries."""
    found = [one for one in items if _matches(one, query)]
    by_server: dict[str, list[ContentItem]] = {}
    for one in found:
        by_server.setdefault(one.server, []).append(one)
    each = len(found) if len(found) <= MOST_ROWS else max(4, MOST_ROWS // max(1, len(by_server)))
    summary = f"{len(found):,} of {len(items):,} entries" if len(found) < len(items) else _count(items)
    empty = "Nothing has these words." if items else "No server offers resources, prompts or skills."
    return live(
        "list",
        element("p", summary, role="status", class_="faint"),
        [_group(alias, own, each, query, is_open=len(found) <= 60) for alias, own in by_server.items()]
        or element("p", empty, class_="empty"),
        class_="side-list",
    )


def _matches(item: ContentItem, query: ContentQuery) -> bool:
    if query.only and item.kind != query.only:
        return False
    text = f"{item.name} {item.title} {item.entry.description}".lower()
    return all(term in text for term in query.search.lower().split())


def _count(items: Sequence[ContentItem]) -> str:
    kinds = {kind: sum(one.kind == kind for one in items) for kind in KINDS}
    return ", ".join(counted(number, kind) for kind, number in kinds.items() if number)


def _group(
    alias: str, items: Sequence[ContentItem], limit: int, query: ContentQuery, *, is_open: bool
) -> Element:
    chosen = [
        one for one in items if (one.server, one.kind, one.name) == (query.server, query.kind, query.name)
    ]
    shown = [*items[:limit], *(one for one in chosen if one in items[limit:])]
    more = len(items) - len(shown)
    return element(
        "details",
        element("summary", element("strong", alias), " ", element("span", f"{len(items):,}", class_="faint")),
        element("ul", [_row(one, query, is_shown=one in chosen) for one in shown], class_="plain"),
        more > 0 and element("p", f"{more:,} more; the filter finds them", class_="faint"),
        id=anchor("content-of", alias),
        open=is_open or bool(chosen),
    )


def _row(item: ContentItem, query: ContentQuery, *, is_shown: bool) -> Element:
    link = element(
        "a",
        item.title,
        href=item.url(**query.kept),
        title=item.name,
        aria_current="true" if is_shown else None,
    )
    return element("li", link, element("span", item.kind))
