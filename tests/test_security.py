"""SECURITY.md: every defense names tests that exist, and `make hostile` runs every one of them.

docs/safety.md: every default names tests that exist.
"""

import re
from pathlib import Path

from tests.hostile.table import docstrings, promises

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_defense_names_tests_that_exist() -> None:
    rows = [
        line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| a hostile")
    ]
    named = [re.findall(r"`(tests/[\w/]+\.py)`", row) for row in rows]
    assert rows
    assert all(named)
    assert [file for files in named for file in files if not (ROOT / file).is_file()] == []


def test_every_default_names_a_setting_and_tests_that_exist() -> None:
    page = (ROOT / "docs" / "safety.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "| proof |" not in line]
    named = [re.findall(r"`(tests/[\w/]+\.py)`", row) for row in rows]
    assert len(rows) > 30
    assert all(named)
    assert [row for row in rows if row.count(" | ") != 2] == []
    assert [file for files in named for file in files if not (ROOT / file).is_file()] == []


def test_every_file_of_attacks_is_named() -> None:
    files = (file.name for file in (ROOT / "tests" / "hostile").glob("test_*.py"))
    assert [name for name in sorted(files) if name != "test_promises.py" and name not in PAGE] == []


def test_make_hostile_runs_every_attack_of_the_page_with_its_promise() -> None:
    run = promises()
    assert set(run) == set(re.findall(r"tests/[\w/]+\.py", PAGE))
    assert [file for file, promise in run.items() if not promise] == []
    assert [file for file in run if not any(name.startswith("test_") for name in docstrings(file))] == []
    assert "\n\tpython -m tests.hostile.table" in (ROOT / "Makefile").read_text(encoding="utf-8")
