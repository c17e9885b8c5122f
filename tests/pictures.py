"""Draw docs/terminal.svg and docs/recovery.svg: commands recorded in a real terminal, in a copy of examples/.

`make docs` runs it; a test compares the pictures with what the commands print today.
"""

import html
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text

from tests.cli.terminal import terminal

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 92
BEFORE = ["toolbus trust --yes"]
"""Commands that run first and are not in a picture."""
COMMANDS = {
    ROOT / "docs" / "terminal.svg": [
        "toolbus tools",
        'toolbus call notes_add text="buy tea"',
        "toolbus call notes_add txt=tea",
        "toolbus check broken",
    ],
    ROOT / "docs" / "recovery.svg": ["python recovery.py"],
}
"""The pictures, and the commands in each."""
COLORS = {"-> retrying": "\x1b[33m", "-> ready": "\x1b[32m", "kill -9": "\x1b[31m"}
"""Words of a program that prints without colors, and the color of their line."""
ANIMATED = {ROOT / "docs" / "recovery.svg"}
"""Pictures whose lines appear one after the other, unless the reader's system asks for less motion."""
PAUSES = {"kill -9": 1.5, "while no server": 1.0, "-> ready": 2.5}
"""Words of a line, and the seconds before it appears."""
PAUSE, HOLD, ROUNDS = 0.6, 5.0, 5
"""Seconds before any other line, and of the whole picture at the end; how often it is played."""
PROMPT = "\x1b[1;32m$\x1b[0m "

FONT_FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
FONTS = ("Fira Code, monospace", "Menlo, Consolas, 'DejaVu Sans Mono', monospace")
BLACK, RED, GREEN, YELLOW = (36, 41, 47), (207, 34, 46), (17, 99, 41), (154, 103, 0)
BLUE, MAGENTA, CYAN, GRAY = (9, 105, 218), (130, 80, 223), (27, 124, 131), (110, 119, 129)
LIGHT = TerminalTheme((255, 255, 255), BLACK, [BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, GRAY])
"""The colors of GitHub on white."""
FILL = re.compile(r"(\.terminal-r\d+) \{ fill: (#\w+)")
LIGHT_FRAME = ".frame { fill: #ffffff; stroke: #d0d7de }.terminal-title { fill: #24292f }"
CELL = 12.2
"""The width of a character there."""
MOVES = re.compile(r"(\r|\n|\x1b\[2K|\x1b\[\d*A|\x1b\[\?25[lh])")
SVG_TEXT = re.compile(r'<text class="[^"]*-r\d+" x="([^"]*)" y="([^"]*)"[^>]*>([^<]*)</text>')


def record(commands: Sequence[str], folder: Path) -> list[str]:
    """Run the commands in that folder; return the lines that are on the screen at the end, with colors."""
    for command in BEFORE:
        run(command, folder)
    lines: list[str] = []
    for command in commands:
        lines += [PROMPT + command, *run(command, folder)]
    return lines


def run(command: str, folder: Path) -> list[str]:
    """The lines that a command leaves on the screen."""
    name, *words = shlex.split(command)
    program = None if name == "toolbus" else sys.executable
    with terminal(*words, folder=folder, width=WIDTH, program=program) as screen:
        screen.ended()
    return [_colored(line) for line in final_lines(screen.raw)]


def _colored(line: str) -> str:
    color = next((color for words, color in COLORS.items() if words in line), None)
    return line if color is None else f"{color}{line}\x1b[0m"


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
    """The lines as an SVG that needs nothing but itself, light or dark as the reader's page is."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, legacy_windows=False)
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    dark, light = (
        console.export_svg(title="toolbus", unique_id="terminal", clear=False, theme=theme)
        for theme in (SVG_EXPORT_THEME, LIGHT)
    )
    rules = "".join(f"{name} {{ fill: {color} }}" for name, color in FILL.findall(light)) + LIGHT_FRAME
    dark = dark.replace("<rect fill=", '<rect class="frame" fill=', 1)
    dark = dark.replace("</style>", f"@media (prefers-color-scheme: light) {{ {rules} }}\n    </style>", 1)
    # No fonts from the network: the picture uses those that the reader has.
    return FONT_FACE.sub("", dark).replace(*FONTS)


def animated(svg: str) -> str:
    """A picture whose lines appear one after the other; without animations, all of it is there."""
    rows = {float(y): name for name, y in enumerate(dict.fromkeys(y for _, y, _ in SVG_TEXT.findall(svg)))}
    lines, times = drawn_lines(svg), [0.0]
    for line in lines[1:]:
        times.append(times[-1] + next((pause for words, pause in PAUSES.items() if words in line), PAUSE))
    whole = times[-1] + HOLD
    frames = "".join(
        f"@keyframes line{row} {{ 0%, {100 * time / whole:.2f}% {{ opacity: 0 }} "
        f"{100 * time / whole + 0.01:.2f}%, 100% {{ opacity: 1 }} }}\n"
        f'.terminal-matrix [y="{y:g}"] {{ animation: line{row} {whole:g}s {ROUNDS} both }}\n'
        for (y, row), time in zip(rows.items(), times, strict=True)
        if time
    )
    rule = f"@media (prefers-reduced-motion: no-preference) {{\n{frames}    }}\n    </style>"
    return svg.replace("</style>", rule, 1)


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
    for picture, commands in COMMANDS.items():
        with tempfile.TemporaryDirectory() as made:
            drawn = draw(record(commands, examples(Path(made))))
            picture.write_text(animated(drawn) if picture in ANIMATED else drawn, encoding="utf-8")
