"""The second step before a change with signs of deception is approved: the signs, and a typed answer."""

from typing import cast

from toolbus.console.console import Console
from toolbus.console.elements import Element, element, live
from toolbus.console.links import held_url
from toolbus.console.page import Page, PageRequest
from toolbus.console.pages.safety.differences import differences, label_of_part, signs, status_of
from toolbus.console.pages.safety.held import approval_url, part_fields
from toolbus.console.safety.held import HeldPart
from toolbus.console.widgets import button, form, hidden_fields, text_field, titled
from toolbus.lock.approval import NotAsShown
from toolbus.lock.drift import HeldKind, label_of

WORD = "approve"
"""A typed answer: pressing a key twice is not enough."""


async def render(console: Console, request: PageRequest) -> Element:
    query = request.query
    one = await console.held.find(query.get("server"), query.get("kind"), query.get("name"))
    if one is None or one.digest is None:
        return element(
            "div",
            element("p", "This is not on hold any more, or cannot be approved."),
            element("p", element("a", "All changes on hold", href="held")),
        )
    return element("div", live("flagged", _shown(one)), _answer(one))


async def decide(console: Console, request: PageRequest) -> str:
    """Approve a flagged change, if the person typed so."""
    given = request.form
    alias, kind, name = given.get("server"), cast(HeldKind, given.get("kind")), given.get("name")
    if given.get("word").strip().casefold() != WORD:
        return request.fail(f"Nothing was approved: type {WORD} to do so.", approval_url(alias, kind, name))
    try:
        await console.held.approve(alias, (kind, name), given.get("seal"), confirmed=True)
    except NotAsShown as error:
        return request.fail(str(error), approval_url(alias, kind, name))
    await console.use_approved()
    return request.say(f"Approved {label_of(alias, kind, name)}.", "held")


def _shown(one: HeldPart) -> Element:
    """All that the person decides about; live, so that a change of it is seen before the answer."""
    return element(
        "article",
        signs(one.warnings),
        titled("h2", f"{one.held.server} / {label_of_part(one.held)}", status_of(one)),
        element("p", one.held.change, class_="faint"),
        differences(one),
        class_="card",
    )


def _answer(one: HeldPart) -> Element:
    held = one.held
    warning = (
        "A model that reads this text may follow it. Approve it only if you know why the server sends it. "
        "Words in the columns Approved and Now are the server's, not ours."
    )
    fields = text_field("word", f"Type {WORD} to put it into the lock as shown", "word", required=True)
    reject = button("Reject", "held/reject", part_fields(one), class_="main", hint=f"Reject {held.key}")
    return element(
        "section",
        element("h2", "Approve it in spite of the signs?"),
        element("p", warning),
        element(
            "div",
            reject,
            element("a", "Back to the changes on hold", href=held_url(held.server), class_="button"),
            class_="actions",
        ),
        form(
            "approve/decide",
            hidden_fields(part_fields(one)),
            fields,
            element("button", "Approve in spite of the signs", type="submit", class_="danger"),
        ),
        class_="card section",
    )


PAGE = Page(
    path="approve",
    title="Approve a flagged change",
    render=render,
    topics={"held"},
    under="lock",
    actions={"decide": decide},
)
