"""The calls of all callers: charts, those in flight, and those that ended, of memory and of the history."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlencode

from toolbus.audit.history.record import HistoryCall
from toolbus.console.call_log import CallRecord
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, feed, live, slow
from toolbus.console.export import exported
from toolbus.console.links import call_url, server_link
from toolbus.console.page import Download, Fields, Page, PageRequest
from toolbus.console.pages.calls.charts import Chart, chart
from toolbus.console.pages.calls.wanted import (
    OUTCOMES,
    WantedCalls,
    matching,
    position_after,
    ranges_of,
    shown_range,
)
from toolbus.console.pages.inbox.questions import call_of
from toolbus.console.record.counts import IN_MEMORY, RANGES, Counts, counts_of, whole
from toolbus.console.widgets import choice, form, moment, status, text_field
from toolbus.core.text.display import counted, duration
from toolbus.shape.render import human_size

MOST_SHOWN = 100
"""The most calls on one page."""
MOST_IN_FLIGHT = 50
MOST_EXPORTED = 20_000
CHARTS_SECONDS = 10.0
"""The charts of an open page change at most so often."""
LONG_STEP = 600
"""Seconds of a step that is drawn before it has ended."""
SHORT_ERROR = 90
"""Characters of an error that are shown without opening it."""
_COLUMNS = ("Call", "Server", "Caller", "Started")


async def render(console: Console, request: PageRequest) -> Element:
    wanted = WantedCalls.of(_renamed(request.query))
    calls = await matching(console, wanted, MOST_SHOWN + 1)
    problem = "" if console.history is None else console.history.problem
    return element(
        "div",
        _ranges(console, wanted),
        slow(CHARTS_SECONDS, live("calls-charts", await charts(console, wanted), class_="cards")),
        _filter(console, wanted),
        problem and element("p", problem, class_="problem"),
        live("calls-in-flight", _in_flight(console, wanted), class_="section"),
        element("div", *_ended(console, wanted, calls), class_="section"),
    )


def _renamed(query: Fields) -> Fields:
    """The query, with the filter for errors under its name of today."""
    if "errors" not in query or "outcome" in query:
        return query
    return Fields(urlencode([("outcome", "failed"), ("server", query.get("server"))]).encode())


# The charts


async def charts(console: Console, wanted: WantedCalls) -> list[Element]:
    """Calls per second, errors, and the time of servers, over a range, for one server or all."""
    key, server = shown_range(console, wanted), wanted.filter.server
    range_, history = RANGES[key], console.history
    if history is not None and (key not in IN_MEMORY or key == "24h"):
        steps = counts_of(await history.steps(key, server), time.time(), key)
    else:
        steps = console.calls.counts.steps(key, server)
        if history is not None and time.time() - range_.seconds < console.began:
            # The history has the calls before this process began, but gets new ones a moment later.
            past = counts_of(await history.steps(key, server), time.time(), key)
            steps = [max(pair, key=lambda one: one.calls) for pair in zip(past, steps, strict=True)]
    # The last step goes on: a short one would look as if calls ended.
    drawn = steps[:-1] if range_.step < LONG_STEP else steps
    calls, errors = whole(steps)
    minute = console.calls.counts.last(60, server)
    slowest = max((step.p95 for step in steps if step.p95 is not None), default=None)
    over, of = f"in {range_.label}", f" of {server}" if server else ""
    share = f"{errors / calls:.1%} of all" if calls else "no call ended"
    figures = [
        Chart(
            "Calls per second",
            f"{counted(minute.calls, 'call')}{of} in the last minute, {calls:,} {over}",
            [[step.calls / range_.step for step in drawn]],
            _plain,
        ),
        Chart(
            "Errors",
            f"{counted(minute.errors, 'error')}{of} in the last minute, {errors:,} {over}: {share}",
            [[step.errors for step in drawn]],
            _plain,
        ),
        Chart(
            "Time of servers",
            _latency(minute, slowest, over),
            [[step.p50 for step in drawn], [step.p95 for step in drawn]],
            duration,
        ),
    ]
    return [chart(one, range_) for one in figures]


def _plain(value: float) -> str:
    return f"{value:g}"


def _latency(minute: Counts, slowest: float | None, over: str) -> str:
    if slowest is None:
        return f"no call was sent {over}"
    if minute.p50 is None or minute.p95 is None:
        recent = "no call was sent in the last minute"
    else:
        half, most = duration(minute.p50), duration(minute.p95)
        recent = f"in the last minute, half took up to {half}, 95% up to {most} (dashed)"
    return f"{recent}; at most {duration(slowest)} {over}"


def _ranges(console: Console, wanted: WantedCalls) -> Element:
    shown = shown_range(console, wanted)
    links = [
        element(
            "a",
            RANGES[key].label,
            href=wanted.url(range=key, before="", **{"from": "", "to": ""}),
            aria_current="true" if key == shown else None,
        )
        for key in ranges_of(console)
    ]
    return element("div", links, class_="ranges", role="group", aria_label="Range of the charts")


# The filter


def _filter(console: Console, wanted: WantedCalls) -> Element:
    known = {*console.bus.config.servers, *(one.server for one in console.calls.ended if one.server)}
    if wanted.filter.server:
        known.add(wanted.filter.server)
    servers = {"": "all servers"} | {name: name for name in sorted(known)}
    at = {"type": "datetime-local", "step": 1}
    exports = element(
        "p",
        "Export these calls as ",
        element("a", "CSV", href=wanted.url("calls/export", before="", form="csv")),
        " or ",
        element("a", "JSON", href=wanted.url("calls/export", before="", form="json")),
        class_="faint",
    )
    fields = [
        choice("field-server", "Server", "server", servers, wanted.filter.server),
        text_field("field-tool", "Tool", "tool", value=wanted.filter.tool, placeholder="files_*"),
        text_field("field-caller", "Caller", "caller", value=wanted.filter.caller, placeholder="ann"),
        choice("field-outcome", "Outcome", "outcome", OUTCOMES, wanted.filter.outcome),
    ]
    times = [
        text_field("field-from", "From (UTC)", "from", value=wanted.since, **at),
        text_field("field-to", "To (UTC)", "to", value=wanted.until, **at),
    ]
    hidden = element("input", type="hidden", name="range", value=wanted.range) if wanted.range else None
    return element(
        "div",
        form(
            "calls",
            hidden,
            [element("div", field) for field in fields],
            element(
                "details",
                element("summary", "Time"),
                [element("div", field) for field in times],
                id="field-times",
                open=bool(wanted.since or wanted.until),
            ),
            element("button", "Show", type="submit"),
            wanted.is_narrowed and element("a", "Show all", href="calls", class_="button"),
            method="get",
            class_="filter",
        ),
        exports,
    )


# The lists


def _in_flight(console: Console, wanted: WantedCalls) -> Child:
    """Those that hang are first."""
    running = sorted(console.calls.in_flight, key=lambda one: one.began)
    if wanted.filter.outcome or wanted.before is not None:
        return None
    found = [(one, one.recorded()) for one in running if _may_match(wanted, one)]
    if not found:
        return [element("h2", "In flight"), element("p", "No call is in flight.", class_="empty")]
    waiting = {call_of(console, one): one.number for one in console.board.waiting.values()}
    rows = [_row(call, waits(one, waiting)) for one, call in found[:MOST_IN_FLIGHT]]
    more = len(found) - len(rows)
    return [
        element("h2", live("calls-running", f"In flight: {len(found)}", tag="span")),
        _table("Calls in flight", (*_COLUMNS, "State"), feed("calls-running-rows", *rows)),
        more > 0 and element("p", live("calls-more", f"and {more} more", tag="span"), class_="faint"),
    ]


def _may_match(wanted: WantedCalls, record: CallRecord) -> bool:
    server = wanted.filter.server
    return (not server or record.server == server) and wanted.filter.matches(record.recorded())


def waits(record: CallRecord, waiting: Mapping[str | None, int]) -> Element:
    """The state of a call in flight: a person who is asked is not a server that works."""
    if not record.waits_for:
        return status("running")
    number = waiting.get(record.id)
    if number is None:
        return status("waiting")  # its client asks its own person
    words = "waits for approval" if record.waits_for == "approval" else "waits for you"
    return element("a", words, href=f"inbox#question-{number}", class_="badge busy")


def _ended(console: Console, wanted: WantedCalls, calls: Sequence[HistoryCall]) -> list[Child]:
    shown = list(calls[:MOST_SHOWN])
    rows = [_row(call, duration(call.seconds), _outcome(call)) for call in shown]
    headings = (*_COLUMNS, "Took", "Outcome")
    if wanted.before is not None:
        title = "Earlier calls"
    else:
        title = "The last calls" + (" that match" if wanted.is_narrowed else "")
    where = "the history" if console.history is not None else "memory"
    none = f"None of the calls in {where} matches." if wanted.is_narrowed else "No call has ended yet."
    return [
        element("h2", title),
        _table("Calls that ended", headings, feed("calls-ended", *rows)),
        live("calls-none", not rows and element("p", none, class_="empty")),
        live(
            "calls-pages",
            wanted.before is not None and element("a", "Newest", href=wanted.url(before=""), class_="button"),
            len(calls) > MOST_SHOWN
            and element(
                "a", "Older", href=wanted.url(before=position_after(shown)), class_="button", rel="next"
            ),
            class_="actions",
        ),
        _kept(console),
    ]


def _kept(console: Console) -> Element:
    if console.history is None:
        hint = "Calls are forgotten when this process ends. To keep them, add "
        return element("p", hint, element("code", "history: calls"), " to the config.", class_="faint")
    setting = console.history.writer.setting
    kept = f"{'with' if console.history.keeps_content else 'without'} arguments and results"
    size, days = human_size(setting.size), counted(setting.days, "day")
    return element("p", f"Calls are kept for {days}, {kept}, in at most {size}.", class_="faint")


def _table(label: str, headings: Iterable[str], rows: Element) -> Element:
    titles = [element("th", heading, scope="col") for heading in headings]
    return element(
        "div",
        element("table", element("thead", element("tr", titles)), rows),
        class_="table calls",
        role="region",
        tabindex=0,
        aria_label=label,
    )


def _row(call: HistoryCall, *more: Child) -> Element:
    """A call; an open page gets thousands of rows, so each is small."""
    is_tool = call.route == "tools/call"
    cells = [
        [not is_tool and f"{call.route} ", element("a", call.name, href=call_url(call.id))],
        call.server and server_link(call.server),
        caller_of(call),
        moment(call.at),
        *more,
    ]
    return element("tr", [element("td", cell) for cell in cells], id=f"c-{call.id}")


def caller_of(call: HistoryCall) -> str:
    """The caller of a call, in words."""
    session = call.session and f"session {call.session}"
    parts = [call.user, call.face and f"via {call.face}", call.run and f"run {call.run}", session]
    return ", ".join(part for part in parts if part) or "program"


def _outcome(call: HistoryCall) -> Child:
    if call.outcome == "ok":
        return "ok"  # nearly all of them: what is not fine stands out
    shown, error = status(call.outcome), call.error
    if not error:
        return shown
    if len(error) <= SHORT_ERROR:
        return [shown, element("div", error, class_="problem")]
    summary = element("summary", error[:SHORT_ERROR].strip(), "...", class_="problem")
    return [shown, element("details", summary, element("div", error, class_="problem"), id=f"e-{call.id}")]


# Export

_EXPORTED = (
    *("id", "began", "ended", "method", "server", "tool", "name", "user", "face", "run", "session"),
    *("outcome", "error", "ms", "server_ms", "bytes"),
)


async def export(console: Console, request: PageRequest) -> Download:
    """The calls that match, at most 20,000 of them, without arguments and results."""
    wanted = WantedCalls.of(_renamed(request.query))
    calls, form_ = await matching(console, wanted, MOST_EXPORTED), request.query.get("form")
    return await asyncio.to_thread(lambda: exported("calls", form_, _EXPORTED, map(_exported, calls)))


def _exported(call: HistoryCall) -> dict[str, str | float | None]:
    took = call.server_seconds
    return {
        "id": call.id,
        "began": _absolute(call.at),
        "ended": None if call.ended is None else _absolute(call.ended),
        "method": call.route,
        **{
            name: getattr(call, name) for name in ("server", "tool", "name", "user", "face", "run", "session")
        },
        "outcome": call.outcome,
        "error": call.error,
        "ms": round(call.seconds * 1000, 3),
        "server_ms": None if took is None else round(took * 1000, 3),
        "bytes": call.size,
    }


def _absolute(at: float) -> str:
    whole_seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return f"{whole_seconds}.{int(at % 1 * 1000):03}Z"


# Every second: what is in flight and the charts go on without an event.
PAGE = Page(
    path="calls",
    title="Calls",
    render=render,
    topics={"questions"},
    every=1.0,
    downloads={"export": export},
)
