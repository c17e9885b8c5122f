"""The pictures on the pages show what the commands print today, and load nothing."""

import re
from pathlib import Path

import pytest

from tests.pictures import (
    ANIMATED,
    COMMANDS,
    ROOT,
    SVG_TEXT,
    animated,
    draw,
    drawn_lines,
    examples,
    final_lines,
    record,
)


@pytest.mark.parametrize("file", COMMANDS, ids=lambda file: file.stem)
def test_the_picture_shows_what_the_commands_print_today(file: Path, tmp_path: Path) -> None:
    shown = drawn_lines(file.read_text(encoding="utf-8"))
    today = drawn_lines(draw(record(COMMANDS[file], examples(tmp_path))))
    assert [line for line in shown if line.startswith("$ ")] == [f"$ {command}" for command in COMMANDS[file]]
    assert shown == today, "draw it again: make docs"


@pytest.mark.parametrize("file", COMMANDS, ids=lambda file: file.stem)
def test_the_picture_is_on_a_page_and_needs_nothing_from_the_network(file: Path) -> None:
    pages = [ROOT / "README.md", ROOT / "docs" / "cli.md"]
    assert any(f"{file.name})" in page.read_text(encoding="utf-8") for page in pages)
    picture = file.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"' )<]+", picture)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",  # a comment: who drew it
    }
    assert re.findall(r"@font-face|@import|<image|<script|href=", picture) == []


def test_a_spinner_is_not_in_the_picture() -> None:
    raw = "one\r\n\x1b[?25l\r\x1b[2Kwait 1\r\x1b[2Kwait 2\r\n\x1b[?25h\r\x1b[1A\x1b[2K\x1b[1mtwo\x1b[0m\r\n"
    assert final_lines(raw) == ["one", "\x1b[1mtwo\x1b[0m"]


def test_each_color_has_one_for_a_light_page() -> None:
    picture = draw(["\x1b[33mone\x1b[0m", "two"])
    dark, _, light = picture.partition("@media (prefers-color-scheme: light)")
    light = light.partition("</style>")[0]
    names = re.findall(r"\.terminal-r\d+ \{ fill", dark)
    assert names
    assert re.findall(r"\.terminal-r\d+ \{ fill", light) == names
    assert {".frame { fill", ".terminal-title { fill"} <= set(re.findall(r"\.[\w-]+ \{ fill", light))
    assert '<rect class="frame"' in picture


def test_what_is_drawn_can_be_read_back() -> None:
    lines = ["\x1b[1;32m$\x1b[0m toolbus <tools>", "", "  \x1b[31mfailed\x1b[0m & gone"]
    assert drawn_lines(draw(lines)) == ["$ toolbus <tools>", "  failed & gone"]


def test_the_recovery_is_played_line_by_line_unless_less_motion_is_wanted() -> None:
    [file] = ANIMATED
    svg = file.read_text(encoding="utf-8")
    lines = drawn_lines(svg)
    still, _, moving = svg.partition("@media (prefers-reduced-motion: no-preference) {")
    moving = moving.partition("</style>")[0]
    assert "animation" not in still
    shown = [float(part) for part in re.findall(r"%, ([\d.]+)% \{ opacity: 0 \}", moving)]
    assert (len(shown), shown) == (len(lines) - 1, sorted(shown))
    rows = list(dict.fromkeys(y for _, y, _ in SVG_TEXT.findall(svg)))
    assert re.findall(r'\.terminal-matrix \[y="([\d.]+)"\] \{ animation: line', moving) == rows[1:]


def test_an_animation_changes_no_text() -> None:
    still = draw(["one", "kill -9", "math: retrying -> ready"])
    assert drawn_lines(animated(still)) == drawn_lines(still)
