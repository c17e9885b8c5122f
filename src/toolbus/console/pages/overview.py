"""The first page: tasks for a person, the calls of now, and the servers over the last 24 hours."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from toolbus.config.settings.expose import ExposeMode
from toolbus.console.console import Console, RunFacts
from toolbus.console.elements import Child, Element, element, feed, live, slow
from toolbus.console.inbox import WaitingChange, WaitingSignIn, waiting_entries
from toolbus.console.links import held_url, run_link, run_url, server_link, server_url
from toolbus.console.page import Fields, Page, PageRequest
from toolbus.console.pages.calls.calls import CHARTS_SECONDS, charts
from toolbus.console.pages.calls.charts import state_strip
from toolbus.console.pages.calls.wanted import WantedCalls
from toolbus.console.record.counts import Counts
from toolbus.console.record.states import CRASHED_WITHIN
from toolbus.console.widgets import Tone, anchor, badge, status
from toolbus.core.ask.approval import ApprovalRequest
from toolbus.core.ask.question_router import WaitingQuestion
from toolbus.core.text.display import counted, duration, shortened
from toolbus.core.values.errors import LoginRequired, problem_of
from toolbus.core.values.records import ServerStatus

MOST_ENTRIES = 5
"""Entries of the Inbox that are listed."""
MOST_NEEDS = 30
_RATE_SECONDS, _SHARE_SECONDS = 60, 900
_FIRST = ("failed", "auth_required", "retrying", "connecting")
"""The states whose servers are at the top of the table."""


class _Need(NamedTuple):
    """A task for a person, and where they act."""

    tone: Tone
    what: Child
    why: Child
    url: str = ""
    """Empty if that is in no page."""
    action: str = ""


async def render(console: Console, request: PageRequest) -> Element:
    await console.held.load()
    needs = list(_needs(console))
    tokens = await console.tokens_of(console.bus.catalog)
    drawn = await charts(console, WantedCalls.of(Fields()))
    return element(
        "div",
        live("overview-needs", _attention(needs)),
        live("overview-facts", _tiles(console, sum(tokens.values())), class_="tiles"),
        slow(CHARTS_SECONDS, live("overview-charts", drawn, class_="cards")),
        element("div", _servers(console), class_="section"),
    )


# Tasks for a person


def _needs(console: Console) -> Iterator[_Need]:
    """A config that is not in use, then the Inbox in its order; sign-ins are among the servers."""
    if problem := console.config_problem():
        why = f"{shortened(problem, 300)}; the earlier config stays in use"
        yield _Need("bad", "The config has changed, but is not in use", why)
    found = [one.about for one in waiting_entries(console) if not isinstance(one.about, WaitingSignIn)]
    yield from map(_waiting, found[:MOST_ENTRIES])
    if more := len(found[MOST_ENTRIES:]):
        what = counted(more, "more entry", "more entries")
        yield _Need("busy", what, "questions, approvals and changes on hold", "inbox", "Open")
    yield from _servers_in_need(console)


def _waiting(about: WaitingQuestion | WaitingChange | RunFacts) -> _Need:
    match about:
        case WaitingQuestion(question=asked):
            url = f"inbox#question-{about.number}"
            if not isinstance(asked, ApprovalRequest):
                return _Need("busy", f"{asked.server} asks", shortened(asked.message, 200), url, "Answer")
            what = f"{asked.name} waits for approval"
            return _Need("busy", what, shortened(asked.reason, 200), url, "Decide")
        case WaitingChange(server=alias):
            changes = f"{counted(len(about.held.parts), 'change')} on hold"
            why = shortened("; ".join(about.warnings), 200) or changes
            what = [server_link(alias), " differs from the lock"]
            return _Need("bad" if about.warnings else "busy", what, why, held_url(alias), "Review")
        case run:
            return _Need(
                "busy", ["The run ", run_link(run.id), " waits"], run.agent, run_url(run.id), "Answer"
            )


def _servers_in_need(console: Console) -> Iterator[_Need]:
    """Failed servers, crash loops, and logins that expired, in this order.

    A server whose launch is on hold is among the held changes.
    """
    held = {one.server for one in console.bus.held.values() if one.kind == "launch"}
    failures, looping, signed_out = console.bus.failures, list[_Need](), list[_Need]()
    for alias, now in console.bus.servers.items():
        error, url = failures.get(alias), server_url(alias)
        if now.state == "auth_required":
            why = error.reason if isinstance(error, LoginRequired) else "nobody is signed in"
            signed_out.append(_Need("busy", [server_link(alias), " needs a sign-in"], why, url, "Sign in"))
        elif console.states.is_crash_looping(alias):
            crashes = console.states.crashes(alias, CRASHED_WITHIN)
            often = f"{len(crashes)} crashes within {duration(CRASHED_WITHIN)}: "
            why = often + shortened(crashes[-1].error, 200)
            looping.append(_Need("bad", [server_link(alias), " crashes again and again"], why, url, "Look"))
        elif now.state == "failed" and alias not in held:
            why = shortened(problem_of(error), 200) if error is not None else ""
            yield _Need("bad", [server_link(alias), " has failed"], why, url, "Look")
    yield from looping
    yield from signed_out


def _attention(needs: list[_Need]) -> Child:
    if not needs:
        return element("p", badge("ok", "good"), " Nothing needs you.", class_="calm", role="status")
    shown = needs[:MOST_NEEDS]
    items = [
        element(
            "li",
            element("div", element("strong", need.what), element("div", need.why, class_="faint")),
            need.url and element("a", need.action, href=need.url, class_="button"),
            class_=need.tone,
        )
        for need in shown
    ]
    more = len(needs) - len(shown)
    return [
        element("h2", f"Needs you: {len(needs)}"),
        element("ul", items, class_="needs"),
        more > 0 and element("p", element("a", f"{more} more", href="servers"), class_="faint"),
    ]


# Numbers


def _tiles(console: Console, tokens: int) -> list[Element]:
    counts = console.calls.counts
    minute, quarter = counts.last(_RATE_SECONDS), counts.last(_SHARE_SECONDS)
    names = console.bus.catalog
    over = "in 15 min" if time.time() - console.began >= _SHARE_SECONDS else "since the start"
    return [
        _tile("Calls per second", f"{minute.calls / _RATE_SECONDS:.2g}", "in the last minute", "calls"),
        _tile("Errors", _share(quarter), f"{quarter.errors:,} {over}", "calls?outcome=failed&range=15m"),
        _tile("Servers' time, p50", _took(quarter.p50), f"half took no longer, {over}", "calls?range=15m"),
        _tile("Servers' time, p95", _took(quarter.p95), f"95% took no longer, {over}", "calls?range=15m"),
        _tile("Catalog", f"{tokens:,} tokens", f"{counted(len(names), 'tool')}; {_sent(console)}", "tools"),
    ]


def _sent(console: Console) -> str:
    """The requests that contain the definitions."""
    mode: ExposeMode = console.bus.config.expose
    return "in each request to a model" if mode == "all" else f"expose: {mode}"


def _share(counts: Counts) -> str:
    return f"{counts.errors / counts.calls:.1%}" if counts.calls else "no calls"


def _took(seconds: float | None) -> str:
    return "no calls" if seconds is None else duration(seconds)


def _tile(title: str, value: str, about: str, url: str) -> Element:
    return element(
        "a",
        element("span", title, class_="faint"),
        element("strong", value),
        element("span", about, class_="faint"),
        href=url,
        class_="card",
    )


# Servers


def _servers(console: Console) -> list[Child]:
    statuses = console.bus.servers
    console.states.forget_others(console.bus.config.servers)

    def rank(alias: str) -> tuple[int, str]:
        state = statuses[alias].state
        if console.states.is_crash_looping(alias):
            return 0, alias
        return 1 + (_FIRST.index(state) if state in _FIRST else len(_FIRST)), alias

    ready = sum(now.state == "ready" for now in statuses.values())
    rows = [_row(console, alias, statuses[alias]) for alias in sorted(statuses, key=rank)]
    titles = [element("th", text, scope="col") for text in ("Server", "State", "Last 24 hours")]
    titles.append(element("th", "Tools", scope="col", class_="number"))
    summary = f"{ready} of {counted(len(statuses), 'server')} ready"
    return [
        element("h2", live("overview-ready", summary, tag="span")),
        element(
            "div",
            element("table", element("thead", element("tr", titles)), feed("overview-servers", *rows)),
            class_="table",
            role="region",
            tabindex=0,
            aria_label="Servers",
        ),
    ]


def _row(console: Console, alias: str, now: ServerStatus) -> Element:
    is_looping = console.states.is_crash_looping(alias)
    cells = (
        element("th", server_link(alias), scope="row"),
        element("td", badge("crash loop", "bad") if is_looping else status(now.state)),
        element("td", state_strip(console.states, alias), class_="bar"),
        element("td", now.tools, class_="number"),
    )
    return element("tr", cells, id=anchor("overview", alias))


PAGE = Page(
    path="overview",
    title="Overview",
    render=render,
    topics={"servers", "catalog", "held", "questions"},
    every=5.0,
)
