"""The time axis of a run: its steps and its waits as bars."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from toolbus.console.console import RunFacts, RunStep
from toolbus.console.elements import Element, element
from toolbus.core.text.display import duration

WIDTH = 1000
"""Of the drawing, in its own units."""
_NARROWEST = 4
"""A step that took no time can still be seen."""
_ASKS = ("asked", "waits", "held")
"""The outcomes of steps after which a person, or a task, is waited for."""
_LEAST_PAUSE = 1.0
"""Seconds: a shorter pause is drawn as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that took time."""

    began: float
    ended: float
    kind: Literal["model", "call", "other", "wait", "queue"]
    is_bad: bool = False
    step: RunStep | None = None
    """None for a wait."""

    @property
    def seconds(self) -> float:
        return max(0.0, self.ended - self.began)


def spans(info: RunFacts, steps: Sequence[RunStep], now: float) -> list[Span]:
    """The steps of a run in order, with the waits before and between them."""
    end = now if info.is_open else info.updated
    return [*_waits_at_start(info, steps, end), *_spans(info, steps, end)]


def _waits_at_start(info: RunFacts, steps: Sequence[RunStep], end: float) -> Iterator[Span]:
    first = next((began for step in steps if (began := _began(step)) is not None), None)
    until = first if first is not None else end if info.status == "queued" else None
    if until is not None and until - info.created > _LEAST_PAUSE:
        yield Span(began=info.created, ended=until, kind="queue")


def _spans(info: RunFacts, steps: Sequence[RunStep], end: float) -> Iterator[Span]:
    for place, step in enumerate(steps):
        began = _began(step)
        if began is None:
            continue
        ended = end if step.at is None or step.outcome == "begun" else step.at
        kind = "model" if step.name == "model" else "call" if step.name in ("call", "intent") else "other"
        is_bad = step.outcome in ("failed", "refused", "unknown")
        yield Span(began=began, ended=max(began, ended), kind=kind, is_bad=is_bad, step=step)
        if step.outcome in _ASKS:
            following = (later for later in steps[place + 1 :] if _began(later) is not None)
            after = next((_began(later) for later in following), None)
            until = after if after is not None else end if info.is_open else None
            if until is not None:
                yield Span(began=ended, ended=max(until, ended), kind="wait")


def _began(step: RunStep) -> float | None:
    return step.at if step.began is None else step.began


class TimeAxis:
    """An axis on which long pauses, in which nothing worked, are shortened."""

    def __init__(self, found: Sequence[Span]) -> None:
        self._points = [(0.0, 0.0)]
        """Pairs of a time since the beginning, and its place; between two of them it is proportional."""
        self.start = min((span.began for span in found), default=0.0)
        work = _merged((span.began, span.ended) for span in found if span.kind not in ("wait", "queue"))
        worked = sum(end - begin for begin, end in work)
        pause = max(_LEAST_PAUSE, 0.1 * worked)
        self.is_shortened = False
        at = place = 0.0
        last = max((span.ended for span in found), default=0.0) - self.start
        for begin, end in [*((b - self.start, e - self.start) for b, e in work), (last, last)]:
            gap = max(0.0, begin - at)
            self.is_shortened |= gap > pause
            place += min(gap, pause)
            self._points.append((begin, place))
            place += end - begin
            self._points.append((end, place))
            at = max(at, end)
        self.seconds = last

    def x(self, time: float) -> float:
        """The place of a time, from 0 to the width."""
        since, total = time - self.start, self._points[-1][1] or 1.0
        before, after = self._points[0], self._points[-1]
        for one, other in zip(self._points, self._points[1:], strict=False):
            if one[0] <= since <= other[0]:
                before, after = one, other
                break
        share = (since - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 0.0
        return WIDTH * (before[1] + share * (after[1] - before[1])) / total

    def bar(self, span: Span, label: str) -> Element:
        """A span on the axis, as a picture with its words."""
        left = min(self.x(span.began), WIDTH - _NARROWEST)
        width = max(_NARROWEST, self.x(span.ended) - left)
        tone = "bad" if span.is_bad else span.kind
        return element(
            "svg",
            element("title", f"{label}: after {duration(span.began - self.start)}, {duration(span.seconds)}"),
            element("rect", x=f"{left:.1f}", y=2, width=f"{width:.1f}", height=12, class_=f"span {tone}"),
            viewBox=f"0 0 {WIDTH} 16",
            preserveAspectRatio="none",
            role="img",
            class_="bar",
        )


def _merged(spans: Iterator[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times in which something worked, without overlaps."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found
