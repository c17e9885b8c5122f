"""The picture in README shows what the commands print today, and loads nothing."""

import re
from pathlib import Path

from tests.pictures import COMMANDS, PICTURE, draw, drawn_lines, examples, final_lines, record


def test_the_picture_shows_what_the_commands_print_today(tmp_path: Path) -> None:
    shown = drawn_lines(PICTURE.read_text(encoding="utf-8"))
    today = drawn_lines(draw(record(examples(tmp_path))))
    assert [line for line in shown if line.startswith("$ ")] == [f"$ {command}" for command in COMMANDS]
    assert shown == today, "draw it again: make docs"


def test_the_picture_needs_nothing_from_the_network() -> None:
    picture = PICTURE.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"' )<]+", picture)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",  # a comment: who drew it
    }
    assert re.findall(r"@font-face|@import|<image|<script|href=", picture) == []


def test_a_spinner_is_not_in_the_picture() -> None:
    raw = "one\r\n\x1b[?25l\r\x1b[2Kwait 1\r\x1b[2Kwait 2\r\n\x1b[?25h\r\x1b[1A\x1b[2K\x1b[1mtwo\x1b[0m\r\n"
    assert final_lines(raw) == ["one", "\x1b[1mtwo\x1b[0m"]


def test_what_is_drawn_can_be_read_back() -> None:
    lines = ["\x1b[1;32m$\x1b[0m toolbus <tools>", "", "  \x1b[31mfailed\x1b[0m & gone"]
    assert drawn_lines(draw(lines)) == ["$ toolbus <tools>", "  failed & gone"]
