"""The calls of all callers: those in flight, the last ones with their outcome, and charts of 15 minutes."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from toolbus.console.call_log import MINUTES, MOST_CALLS, STEP, CallLog, CallRecord
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Page, PageRequest
from toolbus.console.widgets import Tone, badge, choice, form, moment, short_session, table
from toolbus.core.operation.operation import Caller
from toolbus.core.text.display import counted, duration

MOST_IN_FLIGHT = 100
"""How many calls in flight are listed."""
_TONES: dict[str, Tone] = {"ok": "good", "pending": "busy", "cancelled": "quiet"}


async def render(console: Console, request: PageRequest) -> Element:
    log, server = console.calls, request.query.get("server")
    only_errors = bool(request.query.get("errors"))
    running = [] if only_errors else _of(server, log.in_flight)
    ended = [one for one in _of(server, log.ended) if one.is_error or not only_errors]
    return element(
        "div",
        live("calls-charts", _charts(log), class_="cards"),
        _filter(console, server, only_errors=only_errors),
        live("calls-in-flight", not only_errors and _in_flight(log, running), class_="section"),
        live("calls-ended", _ended(ended, is_filtered=bool(server) or only_errors), class_="section"),
    )


def _of(server: str, records: Iterable[CallRecord]) -> list[CallRecord]:
    return [record for record in records if not server or record.server == server]


def _filter(console: Console, server: str, *, only_errors: bool) -> Element:
    known = {*console.bus.config.servers, *(one.server for one in console.calls.ended if one.server)}
    if server:
        known.add(server)
    options = {"": "all servers"} | {name: name for name in sorted(known)}
    only = element("input", type="checkbox", name="errors", value="yes", checked=only_errors)
    return form(
        "calls",
        element("div", choice("field-server", "Server", "server", options, server)),
        element("label", only, " errors only", class_="checkbox"),
        element("button", "Show", type="submit"),
        method="get",
        class_="filter",
    )


# The lists


def _in_flight(log: CallLog, records: Sequence[CallRecord]) -> Child:
    if not records:
        return [element("h2", "In flight"), element("p", "No call is in flight.", class_="empty")]
    rows = [
        [*_who_and_what(one), f"for {duration(log.running_for(one))}"] for one in records[:MOST_IN_FLIGHT]
    ]
    more = len(records) - len(rows)
    return [
        element("h2", f"In flight: {len(records)}"),
        table("Calls in flight", ("Call", "Server", "Caller", "Started", "Running"), rows),
        more > 0 and element("p", f"and {more} more", class_="faint"),
    ]


def _ended(records: Sequence[CallRecord], *, is_filtered: bool) -> Child:
    if not records:
        none = "None of the last calls is like that." if is_filtered else "No call has ended yet."
        return [element("h2", "Ended"), element("p", none, class_="empty")]
    rows = [
        [*_who_and_what(one), one.elapsed is not None and duration(one.elapsed), _outcome(one)]
        for one in records
    ]
    return [
        element("h2", f"The last {counted(len(records), 'call')}"),
        table("Calls that ended", ("Call", "Server", "Caller", "Started", "Took", "Outcome"), rows),
        len(records) == MOST_CALLS and element("p", "Earlier calls are not kept.", class_="faint"),
    ]


def _who_and_what(record: CallRecord) -> list[Child]:
    is_tool = record.route == "tools/call"
    return [
        [not is_tool and [element("span", record.route, class_="faint"), " "], record.name],
        record.server,
        _caller(record.caller),
        moment(record.at),
    ]


def _caller(caller: Caller) -> Child:
    if not (caller.face or caller.user or caller.session):
        return element("span", "program", class_="faint")
    session = caller.session and f"session {short_session(caller.session)}"
    parts = [caller.user, caller.face and f"via {caller.face}", session]
    return ", ".join(part for part in parts if part)


def _outcome(record: CallRecord) -> Child:
    outcome = record.outcome or ""
    shown = badge(outcome.replace("_", " "), _TONES.get(outcome, "bad"))
    return [shown, record.error and element("div", record.error, class_="problem")]


# The charts


def _charts(log: CallLog) -> list[Element]:
    steps, minute = log.steps(), log.last(60)
    calls, errors = sum(step.calls for step in steps), sum(step.errors for step in steps)
    fastest = max(step.calls for step in steps) / STEP
    worst = max(step.errors for step in steps)
    slowest = max((step.p95 for step in steps if step.p95 is not None), default=None)
    over = f"in {MINUTES} minutes"
    return [
        chart(
            "Calls per second",
            f"{counted(minute.calls, 'call')} in the last minute, {calls} {over}; "
            f"at most {fastest:g} per second",
            [[step.calls / STEP for step in steps]],
            f"{fastest:g} per second",
        ),
        chart(
            "Errors",
            f"{counted(minute.errors, 'error')} in the last minute, {errors} {over}",
            [[step.errors for step in steps]],
            f"{worst} in {STEP} s",
        ),
        chart(
            "Latency",
            _latency(minute.p50, minute.p95, slowest),
            [[step.p50 for step in steps], [step.p95 for step in steps]],
            "" if slowest is None else duration(slowest),
        ),
    ]


def _latency(half: float | None, most: float | None, slowest: float | None) -> str:
    if slowest is None:
        return f"no call was sent in {MINUTES} minutes"
    if half is None or most is None:
        recent = "no call was sent in the last minute"
    else:
        recent = f"in the last minute, half took up to {duration(half)}, 95 % up to {duration(most)} (dashed)"
    return f"{recent}; at most {duration(slowest)} in {MINUTES} minutes"


# Every second: what is in flight and the charts go on without an event.
PAGE = Page(path="calls", title="Calls", render=render, every=1.0)


_WIDTH, _HEIGHT, _TOP = 300, 80, 14
_STYLES: tuple[dict[str, str], ...] = ({}, {"stroke_dasharray": "4 3"})
"""How the first and the second line look."""


def chart(title: str, summary: str, lines: Sequence[Sequence[float | None]], most: str) -> Element:
    """A figure with up to two lines over the same time; None is a gap.

    `most` is the highest value in words; `summary` tells what a reader of the lines would see.
    """
    highest = max((value for line in lines for value in line if value is not None), default=0)
    drawn = [
        [_drawn(points, style) for points in _pieces(line, highest)]
        for line, style in zip(lines, _STYLES, strict=False)
    ]
    picture = element(
        "svg",
        element("title", f"{title}: {summary}"),
        element("path", d=f"M0 {_HEIGHT - 0.5}H{_WIDTH}", stroke="currentColor", stroke_opacity="0.4"),
        element("text", most, x=0, y=10, font_size=10, fill="currentColor") if highest else None,
        drawn,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="chart",
    )
    # The picture says the same to those who do not see it.
    caption = element("figcaption", summary, aria_hidden="true")
    return element("figure", element("h2", title), picture, caption, class_="card")


def _pieces(line: Sequence[float | None], highest: float) -> Iterator[list[tuple[float, float]]]:
    """The points of a line between its gaps."""
    scale = (_HEIGHT - _TOP - 2) / highest if highest else 0
    across = _WIDTH / max(1, len(line) - 1)
    for is_gap, points in groupby(enumerate(line), key=lambda point: point[1] is None):
        if not is_gap:
            yield [(number * across, _HEIGHT - 1 - (value or 0) * scale) for number, value in points]


def _drawn(points: Iterable[tuple[float, float]], style: dict[str, str]) -> Element:
    (x, y), *rest = points
    # A single point is a short line, or nobody would see it.
    steps = "".join(f"L{x:.1f} {y:.1f}" for x, y in rest) or "h1"
    return element(
        "path",
        d=f"M{x:.1f} {y:.1f}{steps}",
        fill="none",
        stroke="currentColor",
        stroke_width="1.5",
        stroke_linejoin="round",
        **style,
    )
