"""Draw docs/terminal.svg: commands recorded in a real terminal, in a copy of examples/.

`make docs` runs it; a test compares the picture with what the commands print today.
"""

import html
import re
import shlex
import shutil
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.cli.terminal import terminal

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "terminal.svg"
WIDTH = 92
BEFORE = ["toolbus trust --yes"]
"""Commands that run first and are not in the picture."""
COMMANDS = [
    "toolbus tools",
    'toolbus call notes_add text="buy tea"',
    "toolbus call notes_add txt=tea",
    "toolbus check broken",
]
PROMPT = "\x1b[1;32m$\x1b[0m "

FONT_FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
FONTS = ("Fira Code, monospace", "Menlo, Consolas, 'DejaVu Sans Mono', monospace")
CELL = 12.2
"""The width of a character there."""
MOVES = re.compile(r"(\r|\n|\x1b\[2K|\x1b\[\d*A|\x1b\[\?25[lh])")
SVG_TEXT = re.compile(r'<text class="[^"]*-r\d+" x="([^"]*)" y="([^"]*)"[^>]*>([^<]*)</text>')


def record(folder: Path) -> list[str]:
    """Run the commands in that folder; return the lines that are on the screen at the end, with colors."""
    for command in BEFORE:
        run(command, folder)
    lines: list[str] = []
    for command in COMMANDS:
        lines += [PROMPT + command, *run(command, folder)]
    return lines


def run(command: str, folder: Path) -> list[str]:
    """The lines that a command leaves on the screen."""
    with terminal(*shlex.split(command)[1:], folder=folder, width=WIDTH) as screen:
        screen.ended()
    return final_lines(screen.raw)


def final_lines(raw: str) -> list[str]:
    """The lines that are left once every spinner is erased."""
    lines, row = [""], 0
    for part in MOVES.split(raw):
        match part:
            case "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            case "\x1b[2K":
                lines[row] = ""
            case _ if part.endswith("A") and part.startswith("\x1b["):
                row = max(0, row - int(part[2:-1] or 1))
            case _ if not MOVES.fullmatch(part):
                lines[row] += part
            case _:  # a carriage return: what follows it erases the line first; the cursor's visibility
                pass
    return lines[:-1] if lines[-1] == "" else lines


def draw(lines: list[str]) -> str:
    """The lines as an SVG that needs nothing but itself."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, legacy_windows=False)
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    svg = console.export_svg(title="toolbus", unique_id="terminal")
    # No fonts from the network: the picture uses those that the reader has.
    return FONT_FACE.sub("", svg).replace(*FONTS)


def drawn_lines(svg: str) -> list[str]:
    """The text in a picture, line by line."""
    rows: dict[float, str] = {}
    for x, y, text in SVG_TEXT.findall(svg):
        before = rows.get(float(y), "").ljust(round(float(x) / CELL))
        rows[float(y)] = before + html.unescape(text).replace("\xa0", " ")
    return [line.rstrip() for line in rows.values() if line.strip()]


def examples(folder: Path) -> Path:
    """A copy of examples/ in that folder."""
    return Path(shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__*")))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PICTURE.write_text(draw(record(examples(Path(made)))), encoding="utf-8")
