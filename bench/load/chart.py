"""The figures of the load as an SVG of plain strings: calls per second, and how cost grows."""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import log10

from bench.load.scenarios import Row

TITLE = "The gateway under load"
STYLE = """\
text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 12px; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.panel { font-size: 13px; font-weight: 600 }
.small { font-size: 10px; fill: #59636e }
.page { fill: #ffffff }
.axis { stroke: #d1d9e0; fill: none }
.a { stroke: #1a7f37; fill: #1a7f37 }
.b { stroke: #0969da; fill: #0969da }
.c { stroke: #9a6700; fill: #9a6700 }
polyline.a, polyline.b, polyline.c { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .small { fill: #9198a1 }
  .page { fill: #0d1117 }
  .axis { stroke: #3d444d }
  .a { stroke: #3fb950; fill: #3fb950 }
  .b { stroke: #4493f8; fill: #4493f8 }
  .c { stroke: #d29922; fill: #d29922 }
}"""
COLORS = ("a", "b", "c")
MARGIN, HEADER = 20, 62
WIDTH, HEIGHT = 420, 240
"""The size of a panel."""
LEFT, RIGHT, TOP, BOTTOM = 52, 90, 30, 34
"""Around its lines."""

Line = tuple[str, list[tuple[int, float]]]
"""A name, and points."""


def draw(rows: Sequence[Row], caption: str) -> str:
    """Four panels: calls per second, p99, CPU time and memory."""
    by_workers = _grouped(rows, "processes", lambda row: f"{row.size} proc.", lambda row: row.clients)
    by_kind = [(kind, [row for row in rows if row.group == kind]) for kind in ("servers", "tools", "users")]
    panels: list[tuple[str, str, list[Line]]] = [
        ("calls per second", "clients", _lines(by_workers, lambda row: row.figure.per_second, "clients")),
        ("p99, milliseconds", "clients", _lines(by_workers, lambda row: row.figure.p99, "clients")),
        ("CPU time of a call, microseconds", "how many", _lines(by_kind, lambda row: row.figure.cpu, "size")),
        ("memory, MiB", "how many", _lines(by_kind, lambda row: row.figure.memory, "size")),
    ]
    width, height = 2 * MARGIN + 2 * WIDTH, HEADER + 2 * HEIGHT
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(TITLE)}</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
        _text(MARGIN, 26, TITLE, "title"),
        _text(MARGIN, 44, caption, "small"),
    ]
    for place, (name, below, found) in enumerate(panels):
        left, top = MARGIN + place % 2 * WIDTH, HEADER + place // 2 * HEIGHT
        drawn += _panel(left, top, name, below, found)
    return "\n".join([*drawn, "</svg>", ""])


def _grouped(
    rows: Sequence[Row], group: str, name: Callable[[Row], str], order: Callable[[Row], int]
) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in sorted((row for row in rows if row.group == group), key=order):
        found.setdefault(name(row), []).append(row)
    return sorted(found.items())


def _lines(
    groups: Sequence[tuple[str, Sequence[Row]]], value: Callable[[Row], float], across: str
) -> list[Line]:
    return [(name, [(getattr(row, across), value(row)) for row in rows]) for name, rows in groups if rows]


def _panel(left: int, top: int, name: str, below: str, lines: Sequence[Line]) -> Iterator[str]:
    """Lines over a logarithmic axis of counts, from zero up."""
    points = [point for _, found in lines for point in found]
    most = max(value for _, value in points) or 1.0
    first, last = log10(min(x for x, _ in points)), log10(max(x for x, _ in points))
    inner, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: int, value: float) -> tuple[float, float]:
        share = (log10(x) - first) / ((last - first) or 1.0)
        return left + LEFT + share * inner, top + TOP + tall * (1 - value / most)

    yield _text(left, top + 16, name, "panel")
    x0, y0 = left + LEFT, top + TOP + tall
    yield f'<polyline class="axis" points="{x0},{top + TOP} {x0},{y0} {x0 + inner},{y0}"/>'
    yield _text(left, top + TOP + 8, f"{most:,.0f}", "small")
    yield _text(left, y0, "0", "small")
    for x in sorted({x for x, _ in points}):
        yield _text(at(x, 0)[0] - 6, y0 + 14, f"{x:,}", "small")
    yield _text(x0 + inner + 14, y0 + 14, below, "small")
    for color, (_, found) in zip(COLORS, lines, strict=False):
        places = [at(x, value) for x, value in found]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline class="{color}" points="{joined}"/>'
        for x, y in places:
            yield f'<circle class="{color}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    # Names one below the other: ends of lines may be at the same place.
    for row, (color, (label, _)) in enumerate(zip(COLORS, lines, strict=False)):
        y = top + TOP + 10 + 16 * row
        yield f'<circle class="{color}" cx="{x0 + inner + 18}" cy="{y - 4}" r="4"/>'
        yield _text(x0 + inner + 26, y, label)


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{style}>{escape(text)}</text>'
