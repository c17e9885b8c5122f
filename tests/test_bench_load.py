"""The load measures what it says, on real gateways; its figures are for `make load`."""

import json
from xml.etree import ElementTree

import pytest

from bench.load.__main__ import CHART, PAGE, main, with_report
from bench.load.chart import draw
from bench.load.measure import Figure
from bench.load.report import NOTES, caption, line
from bench.load.scenarios import QUICK, Row

FIGURE = Figure(calls=2000, refused=3, seconds=2.0, p50=1.5, p99=9.25, cpu=350.0, memory=75.0)
SVG = "{http://www.w3.org/2000/svg}"


def row(group: str, size: int, clients: int = 10) -> Row:
    return Row(group=group, size=size, clients=clients, figure=FIGURE, start=2.0)


ROWS = {
    "processes": [(workers, clients) for workers in QUICK.workers for clients in QUICK.clients],
    "servers": [(1, 10), (10, 10)],
    "tools": [(5, 10), (10, 10)],
    "users": [(1, 10), (10, 10)],
    "greedy": [(0, 1), (40, 1)],
}
"""The sizes of each group, and the numbers of clients, in a quick run."""


@pytest.mark.full
@pytest.mark.parametrize("group", ROWS)
def test_a_quick_run_has_every_figure(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = PAGE.read_text(encoding="utf-8")
    assert main(["--quick", "--json", "--only", group]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(one["group"], one["size"], one["clients"]) for one in rows] == [
        (group, *sizes) for sizes in ROWS[group]
    ]
    for one in rows:
        figure = one["figure"]
        assert figure["calls"] > 0, one
        assert 0 < figure["p50"] <= figure["p99"], one
        assert figure["memory"] > 10, one
    assert PAGE.read_text(encoding="utf-8") == before


def test_a_line_shows_the_figure() -> None:
    assert line(row("servers", 1000)).split() == [
        *("1,000", "1,000", "1.50", "9.25", "350", "75", "2.0", "3", "refused"),
    ]
    assert line(row("processes", 4, 100)).split()[:3] == ["4", "100", "1,000"]


def test_the_chart_draws_a_line_for_each_group() -> None:
    rows = [row("processes", workers, clients) for workers in (1, 2, 4) for clients in (10, 100)]
    rows += [row(kind, size) for kind in ("servers", "tools", "users") for size in (1, 1000)]
    drawn = ElementTree.fromstring(draw(rows, "today"))
    lines = [one for one in drawn.iter(f"{SVG}polyline") if one.get("class") != "axis"]
    assert len(lines) == 4 * 3
    shown = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"1 proc.", "2 proc.", "4 proc.", "servers", "tools", "users", "today"} <= set(shown)


def test_the_page_has_the_report_of_a_full_run_and_its_chart() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert NOTES in page
    assert with_report(page, "new\n").count("```text\nnew\n") == 1
    ElementTree.fromstring(CHART.read_text(encoding="utf-8"))
    assert "load average before it" in caption()
