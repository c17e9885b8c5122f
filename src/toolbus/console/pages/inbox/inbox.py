"""The Inbox: approvals, questions, changes and sign-ins in one queue, highest risk first."""

import shlex
from collections import Counter

from toolbus.console.console import Console, RunFacts
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.inbox import (
    RISKS,
    InboxEntry,
    WaitingChange,
    WaitingSignIn,
    waiting_count,
    waiting_entries,
)
from toolbus.console.links import held_url, run_link, run_url, server_link, server_url
from toolbus.console.page import Page, PageRequest
from toolbus.console.pages.inbox.questions import answer, card, decide, question_card
from toolbus.console.widgets import anchor, badge, facts, moment
from toolbus.core.ask.question_router import WaitingQuestion
from toolbus.core.text.display import counted, shortened

_MOST_WARNINGS = 5


async def render(console: Console, request: PageRequest) -> Element:
    await console.held.load()
    entries = waiting_entries(console)
    empty = element("p", "Nothing waits for an answer.", class_="empty")
    return element(
        "div",
        live("inbox-summary", _summary(entries), tag="p", role="status"),
        live("inbox-keys", len(entries) > 0 and _keys()),
        live("inbox", [_entry(console, entry) for entry in entries] or empty, class_="queue"),
        live("inbox-lock", console.bus.lock is None and _without_lockfile(console)),
    )


def _summary(entries: list[InboxEntry]) -> str:
    kinds = Counter(entry.risk for entry in entries)
    return ", ".join(counted(kinds[risk], *words) for risk, words in RISKS.items() if kinds[risk])


def _keys() -> Element:
    def key(name: str) -> Element:
        return element("kbd", name)

    return element(
        "p",
        [key("j"), " and ", key("k"), " go to the next entry and back, ", key("Enter"), " goes into it."],
        class_="faint keys",
    )


def _without_lockfile(console: Console) -> Element:
    file = console.bus.config.file
    command = "toolbus lock" if file is None else shlex.join(["toolbus", "lock", "--config", file])
    return element(
        "section",
        element("h2", "Changes of your servers are not put on hold"),
        element(
            "p",
            "There is no lockfile, so agents get a tool that changed at once. ",
            element("code", command),
            " shows what your servers offer now, asks you, and writes ",
            element("code", "toolbus.lock"),
            " next to the config. From then on, each change waits here.",
        ),
        class_="panel section",
    )


def _entry(console: Console, entry: InboxEntry) -> Element:
    match entry.about:
        case WaitingQuestion():
            return question_card(console, entry.about)
        case WaitingChange():
            return _change(entry, entry.about)
        case WaitingSignIn():
            return _sign_in(entry, entry.about)
        case _:
            return _run(entry, entry.about)


def _change(entry: InboxEntry, change: WaitingChange) -> Element:
    kinds = Counter("new" if one.difference is None else one.difference.status for one in change.held.parts)
    words = {"added": "new", "removed": "removed", "changed": "changed"}
    known = ", ".join(f"{number} {words.get(kind, kind)}" for kind, number in kinds.items())
    names = [f"{one.held.kind} {one.held.name}".strip() for one in change.held.parts]
    return card(
        anchor("change", change.server),
        f"{change.server} differs from the lock",
        [element("p", f"Warning: {one}", class_="problem") for one in change.warnings[:_MOST_WARNINGS]],
        element("p", f"{known}: {shortened(', '.join(names), 200)}"),
        element("p", "It is on hold: no agent gets it until you approve it.", class_="faint"),
        facts({"server": server_link(change.server)}),
        _open("Review the changes", held_url(change.server)),
        beside=badge(RISKS[entry.risk][0], "bad" if entry.risk == "flagged" else "busy"),
    )


def _sign_in(entry: InboxEntry, waiting: WaitingSignIn) -> Element:
    return card(
        anchor("waiting-sign-in", waiting.server),
        f"Sign in to {waiting.server}",
        element("p", "Its calls fail until somebody signs in."),
        facts({"server": server_link(waiting.server), "asked": moment(entry.since)}),
        _open("Sign in", server_url(waiting.server)),
        beside=badge(RISKS[entry.risk][0], "busy"),
    )


def _run(entry: InboxEntry, run: RunFacts) -> Element:
    asked = run.question
    assert asked is not None, "only runs that wait are in the queue"
    pending = asked.pending
    title = f"Allow a call of {pending.tool}?" if asked.is_approval else f"{pending.server} asks"
    known = {"run": run_link(run.id), "agent": run.agent, "server": server_link(pending.server)}
    return card(
        anchor("waiting-run", run.id),
        title,
        [element("p", one.message, class_="description") for one in pending.questions.values()],
        facts({**known, "asked": moment(run.updated)}),
        _open("Answer in the run", run_url(run.id)),
        beside=badge(RISKS[entry.risk][0], "busy"),
    )


def _open(label: str, url: str) -> Child:
    return element("div", element("a", label, href=url, class_="main button"), class_="actions answers")


PAGE = Page(
    path="inbox",
    title="Inbox",
    render=render,
    topics={"questions", "held", "servers"},
    scripts=("inbox.js",),
    actions={"answer": answer, "decide": decide},
    count=waiting_count,
)
