"""Pictures of numbers over time: lines with axes, and the states of a server as a strip. Each has a text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from math import ceil, floor, log10
from typing import NamedTuple

from toolbus.console.elements import Child, Element, element
from toolbus.console.record.counts import TimeRange
from toolbus.console.record.states import DAY, ServerStates, StateSpan
from toolbus.console.widgets import Tone
from toolbus.core.text.display import duration
from toolbus.core.values.records import State

_WIDTH, _HEIGHT = 360, 120
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 8, 20
_STYLES: tuple[dict[str, str], ...] = ({}, {"stroke_dasharray": "4 3"})
"""The looks of the first and the second line."""


class Chart(NamedTuple):
    """Up to two lines over the same time; None is a gap."""

    title: str
    summary: str
    """The lines in words, for people who do not see them."""
    lines: Sequence[Sequence[float | None]]
    label: Callable[[float], str]
    """A value in words, for the axis."""


def chart(shown: Chart, range_: TimeRange, heading: Child = None) -> Element:
    """A figure with axes: from 0 to a round number, and from the beginning of the range to now."""
    highest = max((value for line in shown.lines for value in line if value is not None), default=0)
    top = _round_up(highest)
    drawn = [
        [_drawn(points, style) for points in _pieces(line, top)]
        for line, style in zip(shown.lines, _STYLES, strict=False)
    ]
    picture = element(
        "svg",
        element("title", f"{shown.title}: {shown.summary}"),
        _axes(top, shown.label, range_),
        drawn,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="chart",
    )
    # The picture says the same to those who do not see it.
    caption = element("figcaption", shown.summary, aria_hidden="true")
    return element("figure", element("h2", heading or shown.title), picture, caption, class_="card")


def _round_up(highest: float) -> float:
    """The next of 1, 2 and 5, times a power of ten."""
    if highest <= 0:
        return 0.0
    unit = 10.0 ** floor(log10(highest))
    return next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= highest * 0.9999)


def _axes(top: float, label: Callable[[float], str], range_: TimeRange) -> Iterator[Element]:
    values = (0.0, top / 2, top) if top else (0.0,)
    for value in values:
        y = _y(value, top)
        yield element("path", d=f"M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}", class_="grid")
        text = label(value) if value else "0"
        yield element("text", text, x=_LEFT - 4, y=f"{y + 3:.1f}", text_anchor="end", class_="tick")
    thirds = 3
    for third in range(thirds + 1):
        x = _LEFT + third * (_WIDTH - _LEFT - _RIGHT) / thirds
        text = "now" if third == thirds else f"-{duration(range_.seconds * (thirds - third) / thirds)}"
        place = "end" if third == thirds else "start" if third == 0 else "middle"
        yield element("text", text, x=f"{x:.0f}", y=_HEIGHT - 5, text_anchor=place, class_="tick")


def _y(value: float, top: float) -> float:
    whole = _HEIGHT - _TOP - _BOTTOM
    return _TOP + whole - (whole * value / top if top else 0)


def _pieces(line: Sequence[float | None], top: float) -> Iterator[list[tuple[float, float]]]:
    """The points of a line between its gaps."""
    across = (_WIDTH - _LEFT - _RIGHT) / max(1, len(line) - 1)
    for is_gap, points in groupby(enumerate(line), key=lambda point: point[1] is None):
        if not is_gap:
            yield [(_LEFT + number * across, _y(value or 0, top)) for number, value in points]


def _drawn(points: Sequence[tuple[float, float]], style: dict[str, str]) -> Element:
    (x, y), *rest = points
    # A point between two of the same height shows nothing.
    bends = [
        here
        for before, (here, after) in zip(points, pairwise([*rest, (-1.0, -1.0)]), strict=False)
        if not before[1] == here[1] == after[1]
    ]
    # A single point is a short line, or nobody would see it.
    steps = "".join(f"L{x:.1f} {y:.1f}" for x, y in bends) or "h1"
    return element("path", d=f"M{x:.1f} {y:.1f}{steps}", class_="line", **style)


# The strip of a server

CELLS = 96
_STRIP_WIDTH, _STRIP_HEIGHT = 192, 16
_CELL_SECONDS = DAY / CELLS
_TONES: dict[State | None, Tone] = {
    "ready": "good",
    "connecting": "busy",
    "retrying": "busy",
    "auth_required": "bad",
    "failed": "bad",
}
_WORST: tuple[Tone, ...] = ("bad", "busy", "good", "quiet")
_HEIGHTS: dict[Tone, int] = {"bad": 16, "busy": 11, "good": 6, "quiet": 2}
"""A worse state is higher, so that nobody needs the colors."""
_NAMES: dict[State | None, str] = {"auth_required": "sign-in needed", None: "not known"}


def state_strip(states: ServerStates, server: str) -> Element:
    """The states of a server over the last 24 hours, in cells of 15 minutes; each shows the worst."""
    spans = states.spans(server)
    crashes = states.crashes(server, DAY)
    text = f"{server}, last 24 hours: {_in_words(spans)}"
    if crashes:
        text += f"; {'1 crash' if len(crashes) == 1 else f'{len(crashes)} crashes'}"
    return element(
        "svg",
        element("title", text),
        [_cells(tone, first, number) for tone, first, number in _runs(spans, [one.at for one in crashes])],
        viewBox=f"0 0 {_STRIP_WIDTH} {_STRIP_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        class_="strip",
    )


def _in_words(spans: Iterable[StateSpan]) -> str:
    seconds: dict[State | None, float] = {}
    for span in spans:
        seconds[span.state] = seconds.get(span.state, 0.0) + span.end - span.start
    lasted = sorted(seconds.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{_NAMES.get(state, state)} {_share(took / DAY)}" for state, took in lasted)


def _share(part: float) -> str:
    # Of the day, which changes less often than a duration: an open page need not be told.
    return f"{part:.0%}" if part >= 0.01 else "less than 1%"


def _runs(spans: Sequence[StateSpan], crashes: Iterable[float]) -> list[tuple[Tone, int, int]]:
    """The worst tone of each cell, bad where it crashed; neighbors that are alike are one run.

    A run is a tone, its first cell and the number of its cells.
    """
    if not spans:
        return [("quiet", 0, CELLS)]
    begins = spans[-1].end - DAY
    cells: list[Tone] = ["quiet"] * CELLS
    for span in spans:
        tone = _TONES.get(span.state, "quiet")
        first = max(0, floor((span.start - begins) / _CELL_SECONDS))
        for cell in range(first, min(CELLS, ceil((span.end - begins) / _CELL_SECONDS))):
            if _WORST.index(tone) < _WORST.index(cells[cell]):
                cells[cell] = tone
    for crash in crashes:
        cells[min(CELLS - 1, max(0, floor((crash - begins) / _CELL_SECONDS)))] = "bad"
    runs, at = list[tuple[Tone, int, int]](), 0
    for tone, group in groupby(cells):
        number = len(list(group))
        runs.append((tone, at, number))
        at += number
    return runs


def _cells(tone: Tone, first: int, number: int) -> Element:
    wide, high = _STRIP_WIDTH // CELLS, _HEIGHTS[tone]
    return element(
        "rect", x=first * wide, y=_STRIP_HEIGHT - high, width=number * wide, height=high, class_=tone
    )
