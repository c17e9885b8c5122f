"""SECURITY.md: every defense names tests that exist, and every file of attacks is named."""

import re
from pathlib import Path

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


def test_every_file_of_attacks_is_named() -> None:
    files = (file.name for file in (ROOT / "tests" / "hostile").glob("test_*.py"))
    assert [name for name in sorted(files) if name != "test_promises.py" and name not in PAGE] == []
