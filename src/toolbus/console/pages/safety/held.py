"""Held changes: side by side with the lock, to be approved, rejected, or switched off in the config."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import NamedTuple, cast
from urllib.parse import urlencode

from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.links import held_url, server_link, switch_url
from toolbus.console.page import Page, PageRequest
from toolbus.console.pages.safety.differences import differences, label_of_part, signs, status_of
from toolbus.console.safety.held import HeldPart, HeldServer, NotConfirmed
from toolbus.console.widgets import anchor, badge, button, titled
from toolbus.core.text.display import counted
from toolbus.lock.approval import NotAsShown
from toolbus.lock.drift import HeldKind, label_of
from toolbus.lock.file import NAME

HEAVIEST = 60_000
"""Characters of markup of the changes on one page; the others are on the next ones."""
MOST_PAGES = 1_000


class _Wanted(NamedTuple):
    """The server and the page that a reader chose."""

    server: str
    page: int
    """The number of the page, from 1."""

    def link(self, page: int) -> str:
        return held_url(self.server, page)


class _Shown(NamedTuple):
    """One page of the changes."""

    sections: list[Element]
    has_more: bool


async def render(console: Console, request: PageRequest) -> Element:
    if console.bus.lock is None:
        text = f"Nothing is on hold: there is no {NAME}. "
        create = element("a", "Create one on the page Lock.", href="lock")
        return element("div", live("held-summary", text, create, tag="p", role="status"), live("held"))
    servers = await console.held.load()
    page = request.query.get("page", "1")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 4 else 1
    wanted = _Wanted(request.query.get("server"), max(1, number))
    rejected = console.bus.held.keys() - {held.key for held in console.held.open}
    # Comparing words takes long, and there may be thousands of changes.
    shown = await asyncio.to_thread(_page, servers, wanted, rejected)
    return element(
        "div",
        live("held-summary", _summary(servers, rejected), tag="p", role="status"),
        live("held-servers", _servers(servers, wanted)),
        live("held", shown.sections),
        live("held-pages", _pages(wanted, has_more=shown.has_more), class_="actions"),
    )


# Actions


async def approve(console: Console, request: PageRequest) -> str:
    """Approve one part that shows no signs of deception; one that does leads to the second step."""
    alias, kind, name = _named(request)
    try:
        await console.held.approve(alias, (kind, name), request.form.get("seal"))
    except NotConfirmed as error:
        return request.fail(str(error), approval_url(alias, kind, name))
    await console.use_approved()
    return request.say(f"Approved {label_of(alias, kind, name)}.", "held")


async def approve_all(console: Console, request: PageRequest) -> str:
    """Approve all that was shown of a server and shows no signs of deception."""
    alias = request.form.get("server")
    number = await console.held.approve_plain(alias, request.form.get("digest"))
    await console.use_approved()
    return request.say(f"Approved {counted(number, 'change')} of {alias}.", "held")


async def reject(console: Console, request: PageRequest) -> str:
    """Keep a change on hold, and out of the Inbox until it is another one."""
    one = await _as_shown(console, request)
    await asyncio.to_thread(console.held.reject, one)
    console.changed("held")
    return request.say(f"Rejected {one.held.key}: it stays on hold, and is not asked about again.", "held")


async def reopen(console: Console, request: PageRequest) -> str:
    """Take back that a change was rejected."""
    one = await _as_shown(console, request)
    await asyncio.to_thread(console.held.reopen, one)
    console.changed("held")
    return request.say(f"{one.held.key} is in the Inbox again.", "held")


async def _as_shown(console: Console, request: PageRequest) -> HeldPart:
    """The part that a form names, if it is as it was shown."""
    alias, kind, name = _named(request)
    one = await console.held.find(alias, kind, name)
    if one is None or one.seal != request.form.get("seal"):
        raise NotAsShown(label_of(alias, kind, name))
    return one


def _named(request: PageRequest) -> tuple[str, HeldKind, str]:
    form = request.form
    # A kind that nothing is of is refused: nothing of it is held.
    return form.get("server"), cast(HeldKind, form.get("kind")), form.get("name")


# What is shown


def approval_url(server: str, kind: str, name: str) -> str:
    """The second step before a flagged change is approved."""
    return f"approve?{urlencode({'server': server, 'kind': kind, 'name': name})}"


def part_fields(one: HeldPart) -> dict[str, str]:
    """The fields of a form that name a part as it is shown."""
    held = one.held
    return {"server": held.server, "kind": held.kind, "name": held.name, "seal": one.seal}


def _summary(servers: Mapping[str, HeldServer], rejected: Set[str]) -> str:
    parts = [one for server in servers.values() for one in server.parts]
    if not parts:
        return "Nothing is on hold."
    flagged = sum(bool(one.warnings) for one in parts)
    summary = f"{counted(len(parts), 'difference')} from the lock"
    summary += f"; {flagged} with signs of deception" if flagged else ""
    dismissed = sum(one.held.key in rejected for one in parts)
    return f"{summary}; {dismissed} rejected" if dismissed else summary


def _servers(servers: Mapping[str, HeldServer], wanted: _Wanted) -> Child:
    """Links to the changes of one server."""
    if len(servers) < 2:
        return None
    every = [("", "All servers", sum(len(one.parts) for one in servers.values()))]
    names = [*every, *((alias, alias, len(one.parts)) for alias, one in servers.items())]
    return element(
        "nav",
        [
            element(
                "a",
                f"{text} ({number})",
                href=held_url(alias),
                class_="button",
                aria_current="true" if alias == wanted.server else None,
            )
            for alias, text, number in names
        ],
        class_="actions",
        aria_label="Servers with changes on hold",
    )


def _page(servers: Mapping[str, HeldServer], wanted: _Wanted, rejected: Set[str]) -> _Shown:
    """The changes of one page: the riskiest first, those that were rejected last."""
    parts = [
        (alias, one)
        for alias, server in servers.items()
        if wanted.server in ("", alias)
        for one in sorted(
            server.parts, key=lambda one: (one.held.key in rejected, not one.warnings, one.held.key)
        )
    ]
    pages = _weighed(parts, rejected)
    for _ in range(min(wanted.page, MOST_PAGES) - 1):
        next(pages, None)
    shown, following = next(pages, None), next(pages, None)
    sections = [
        _section(alias, servers[alias], [(one, card) for _, one, card in group])
        for alias, group in groupby(shown or (), key=lambda entry: entry[0])
    ]
    return _Shown(sections, has_more=following is not None)


def _weighed(
    parts: Iterable[tuple[str, HeldPart]], rejected: Set[str]
) -> Iterator[list[tuple[str, HeldPart, Element]]]:
    """The cards, divided into pages."""
    page, weight = list[tuple[str, HeldPart, Element]](), 0
    for alias, one in parts:
        card = _card(one, is_rejected=one.held.key in rejected)
        size = len(str(card))
        if page and weight + size > HEAVIEST:
            yield page
            page, weight = [], 0
        page.append((alias, one, card))
        weight += size
    if page:
        yield page


def _section(alias: str, server: HeldServer, shown: Sequence[tuple[HeldPart, Element]]) -> Element:
    heading = anchor("name", alias)
    plain = {one.part for one, _ in shown} & server.plain.keys()
    # Only what stands on this page was shown.
    may_approve = len(plain) > 1 and len(plain) == len(server.plain)
    flagged = sum(bool(one.warnings) for one in server.parts)
    label = f"Approve all {len(plain)}" + (" without signs of deception" if flagged else "")
    fields, hint = {"server": alias, "digest": server.digest}, f"{label} of {alias} as shown"
    return element(
        "section",
        element(
            "div",
            element("h2", server_link(alias), id=heading),
            may_approve and button(label, "held/approve-all", fields, hint=hint),
            class_="title",
        ),
        element("div", [card for _, card in shown], class_="wide cards"),
        aria_labelledby=heading,
    )


def _card(one: HeldPart, *, is_rejected: bool) -> Element:
    held, heading = one.held, anchor("part", one.held.key)
    return element(
        "article",
        signs(one.warnings),
        titled(
            "h3",
            label_of_part(held),
            status_of(one),
            is_rejected and badge("rejected", "quiet"),
            key=heading,
        ),
        element("p", held.change, class_="faint"),
        one.is_too_long
        and element("p", f"Too long to review here. Run: toolbus lock diff {held.server}", class_="problem"),
        None if one.is_too_long else differences(one),
        element("div", _choices(one, is_rejected=is_rejected), class_="actions"),
        class_="card",
        aria_labelledby=heading,
    )


def _choices(one: HeldPart, *, is_rejected: bool) -> Iterator[Child]:
    held, fields = one.held, part_fields(one)
    if one.digest is not None and one.warnings:
        where = approval_url(held.server, held.kind, held.name)
        yield element("a", "Approve...", href=where, class_="button", aria_label=f"Approve {held.key}...")
    elif one.digest is not None:
        hint = f"Approve {held.key} as shown"
        yield button("Approve", "held/approve", fields, class_="main", hint=hint)
    if is_rejected:
        yield button("Ask again", "held/reopen", fields, hint=f"Ask about {held.key} again")
    else:
        yield button("Reject", "held/reject", fields, hint=f"Reject {held.key}")
    tool = held.name if held.kind == "tool" else ""
    what = "Disable the tool" if tool else "Disable the server"
    where = switch_url(held.server, tool, back="held")
    yield element("a", what, href=where, class_="button", aria_label=f"{what}: {held.key}")


def _pages(wanted: _Wanted, *, has_more: bool) -> list[Child]:
    return [
        wanted.page > 1 and element("a", "Previous", href=wanted.link(wanted.page - 1), class_="button"),
        has_more and element("a", "Next", href=wanted.link(wanted.page + 1), class_="button", rel="next"),
    ]


PAGE = Page(
    path="held",
    title="Changes on hold",
    render=render,
    topics={"held"},
    under="lock",
    actions={"approve": approve, "approve-all": approve_all, "reject": reject, "reopen": reopen},
)
