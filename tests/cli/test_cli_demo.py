"""`toolbus demo`: it shows everything promised, a second run in the same folder works, no process remains."""

import json
import re
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, environment, living_at, toolbus
from tests.patience import PATIENCE

MODERN, LEGACY = ("modern", "2026-07-28"), ("legacy", "2025-11-25")


@dataclass(frozen=True)
class Demo:
    """The demo, shown twice in one folder: for people, then for programs."""

    folder: Path
    text: Done
    again: Done
    left: set[int]

    @property
    def report(self) -> dict[str, Any]:
        return json.loads(self.again.stdout)

    def call(self, name: str) -> list[dict[str, Any]]:
        return [call for call in self.report["calls"] if call["name"] == name]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo") / "work"
    folder.mkdir()
    text = toolbus("demo", "--out", "made", folder=folder)
    again = toolbus("demo", "--out", "made", "--json", folder=folder)
    return Demo(folder / "made", text, again, living_at(folder.parent))


def test_both_runs_succeed_without_a_word_on_stderr_and_leave_nothing(demo: Demo) -> None:
    assert (demo.text.returncode, demo.text.stderr) == (0, "")
    assert (demo.again.returncode, demo.again.stderr) == (0, "")


def test_five_servers_over_both_transports_in_both_eras_and_one_is_broken(demo: Demo) -> None:
    servers = demo.report["servers"]
    shown = {alias: (each["state"], (each["era"], each["protocol"])) for alias, each in servers.items()}
    assert shown == {
        "notes": ("ready", LEGACY),
        "files": ("ready", MODERN),
        "worker": ("ready", MODERN),
        "pictures": ("ready", LEGACY),
        "broken": ("failed", (None, None)),
    }
    for line in ("notes  ready  2025-11-25 (legacy)  4 tools", "worker  ready  2026-07-28 (modern)  2 tools"):
        assert line in demo.text.stdout.splitlines()


def test_without_a_folder_to_keep_it_in_nothing_of_the_demo_remains(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "work", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    done = toolbus("demo", folder=folder, env={"TMPDIR": str(temporary)})
    assert done.returncode == 0
    assert "their files were removed (keep them with --out DIR)" in done.stdout
    assert list(temporary.iterdir()) == list(folder.iterdir()) == []


def test_the_picture_is_a_png(demo: Demo) -> None:
    (call,) = demo.call("pictures_plot")
    (image,) = [block for block in call["content"] if block["type"] == "image"]
    files = sorted(demo.folder.glob("*.png"))
    assert [file.name for file in files] == ["pictures_plot-2.png", "pictures_plot.png"]
    assert Path(image["path"]).name == "pictures_plot-2.png"
    for file in files:
        data = file.read_bytes()
        assert data[:16] == b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
        assert struct.unpack(">II", data[16:24]) == (480, 240)
        assert data[-8:-4] == b"IEND"


def test_a_slow_tool_tells_its_progress(demo: Demo) -> None:
    (call,) = demo.call("worker_count_words")
    assert call["progress"] == 21
    assert call["is_error"] is False
    assert re.search(r"progress reported 21 times in \d+\.\d s", demo.text.stdout)


def test_a_tool_appears_while_the_bus_is_in_use(demo: Demo) -> None:
    assert "catalog: +notes_archive" in demo.report["events"]
    assert "  catalog: +notes_archive" in demo.text.stdout.splitlines()
    (call,) = demo.call("notes_archive")
    assert call["is_error"] is False


BACK = ("worker: retrying -> ready", "worker: failed -> ready")


def test_a_killed_server_comes_back_by_itself(demo: Demo) -> None:
    events = demo.report["events"]
    # On a slow machine it is `failed` in between.
    back = [place for place, event in enumerate(events) if event in BACK]
    assert events.index("worker: ready -> retrying") < back[-1]
    healed, by_zero = demo.call("worker_divide")
    assert (healed["is_error"], healed["text"]) == (False, "7")
    assert by_zero["is_error"] is True
    assert "  worker: back after 1 restart" in demo.text.stdout.splitlines()


def test_mistakes_say_what_was_meant(demo: Demo) -> None:
    (misspelt,) = demo.call("notes_serch")
    assert "did you mean 'notes_search'" in misspelt["error"]
    assert "did you mean 'notes_search'" in demo.text.stdout


def test_an_agent_calls_two_tools_and_answers_and_it_says_that_a_script_plays_the_model(demo: Demo) -> None:
    shown = demo.text.stdout.partition("\nAn agent on the same servers")[2].splitlines()[:5]
    assert shown == [
        "; a script stands in for the model",
        "you: What do I have to buy, and how does rain.txt begin?",
        '  notes_search(words="buy", limit=1)',
        '  files_read(path="rain.txt")',
        "agent: Your note says 'buy tea'. The file begins 'The rain'.",
    ]
    last = demo.report["calls"][-2:]
    assert [(call["name"], call["is_error"]) for call in last] == [
        ("notes_search", False),
        ("files_read", False),
    ]


def test_without_pydantic_ai_the_agent_is_left_out_and_it_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "sys.modules['pydantic_ai'] = None\n"
        "from toolbus.cli.commands.use.demo import run_agent\n"
        "from toolbus.cli.options import SharedOptions\n"
        "from toolbus.cli.output.screen import Screen\n"
        "assert asyncio.run(run_agent(Screen(SharedOptions()), None)) == []\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert run.stdout == '  skipped: it needs pydantic-ai; pip install "toolbus[agent]"\n'


def test_what_the_first_run_kept_is_there_in_the_second(demo: Demo) -> None:
    (kept,) = demo.call("notes_add")
    assert kept["text"] == "kept as note 2"
    assert (demo.folder / "files" / "rain.txt").read_text().startswith("The rain")


def test_no_process_of_it_remains(demo: Demo) -> None:
    assert demo.left == set()
