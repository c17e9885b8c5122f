"""A chart over time as inline SVG: lines in the color of the text, and words that say the same."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from toolbus.console.html.elements import Element, element

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
