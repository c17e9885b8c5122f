"""The chart of a run: the time of a call by every client, relative to the SDK's, as an SVG of plain strings.

It has a background and colors of its own, one set for light pages and one for dark ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from bench.measure import Outcome

TITLE = "Time of a tool call, relative to the SDK's own client (shorter is better)"
STYLE = """\
text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 12px; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.panel { font-size: 13px; font-weight: 600 }
.small { font-size: 10px; fill: #59636e }
.page { fill: #ffffff }
.toolbus { fill: #1a7f37 }
.raw { fill: #0969da }
.peer { fill: #8c959f }
.limit { fill: #d1d9e0 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .small { fill: #9198a1 }
  .page { fill: #0d1117 }
  .toolbus { fill: #3fb950 }
  .raw { fill: #4493f8 }
  .peer { fill: #6e7681 }
  .limit { fill: #3d444d }
}"""

MARGIN = 20
HEADER = 62
PANEL_WIDTH = 440
LABELS = 130
"""The width of the names of the clients."""
BARS = 190
"""The length of the longest bar of a panel."""
STEP = 20
THICKNESS = 14
PANEL_HEAD = 24
PANEL_GAP = 18
COLUMNS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One client on one line."""

    label: str
    kind: str
    seconds: float
    ratio: float

    @property
    def figures(self) -> str:
        return f"{self.ratio:.2f} ({1 / self.seconds:,.0f}/s)"


def bars(outcome: Outcome) -> list[Bar]:
    """The bars of a line, toolbus first."""
    found = [
        Bar(label="toolbus", kind="toolbus", seconds=outcome.toolbus, ratio=outcome.ratio),
        Bar(label="SDK client", kind="raw", seconds=outcome.raw, ratio=1.0),
        *(
            Bar(label=name, kind="peer", seconds=seconds, ratio=seconds / outcome.raw)
            for name, seconds in outcome.peers.items()
        ),
    ]
    if outcome.limit is not None:
        ratio = outcome.limit / outcome.raw
        found.append(Bar(label="limit (by hand)", kind="limit", seconds=outcome.limit, ratio=ratio))
    return found


def draw(outcomes: Sequence[Outcome], caption: str) -> str:
    """The chart of these lines, two beside each other."""
    panels = [bars(outcome) for outcome in outcomes]
    panel_height = PANEL_HEAD + STEP * max(map(len, panels), default=0) + PANEL_GAP
    width = 2 * MARGIN + COLUMNS * PANEL_WIDTH
    height = HEADER + panel_height * -(-len(panels) // COLUMNS)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(TITLE)}</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
        _text(MARGIN, 26, TITLE, "title"),
        _text(MARGIN, 44, caption, "small"),
    ]
    for place, (outcome, found) in enumerate(zip(outcomes, panels, strict=True)):
        left = MARGIN + place % COLUMNS * PANEL_WIDTH
        top = HEADER + place // COLUMNS * panel_height
        drawn += _panel(left, top, outcome.name, found)
    return "\n".join([*drawn, "</svg>", ""])


def _panel(left: int, top: int, name: str, found: Iterable[Bar]) -> Iterator[str]:
    found = list(found)
    longest = max(bar.ratio for bar in found)
    yield _text(left, top + 14, name, "panel")
    for row, bar in enumerate(found):
        y = top + PANEL_HEAD + row * STEP
        length = max(1.0, BARS * bar.ratio / longest)
        yield _text(left, y + 11, bar.label)
        yield (
            f'<rect class="{bar.kind}" x="{left + LABELS}" y="{y}" '
            f'width="{length:.1f}" height="{THICKNESS}" rx="2"/>'
        )
        yield _text(left + LABELS + round(length) + 6, y + 11, bar.figures)


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{style}>{escape(text)}</text>'
