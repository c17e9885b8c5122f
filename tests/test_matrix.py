"""The matrix of Python versions, dependency versions and extras: what it chooses, reads and reports."""

import json
from pathlib import Path

import pytest

from tests import matrix
from tests.matrix import Cell, CellResult

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_good"/>
<testcase classname="tests.a" name="test_bad"><failure message="no"/></testcase>
<testcase classname="tests.b" name="test_left_out"><skipped message="needs uvx"/></testcase>
</testsuite></testsuites>"""


def test_every_suite_of_a_cell_exists() -> None:
    suites = [suite for suites in matrix.SUITES.values() for suite in suites]
    assert [suite for suite in suites if not (matrix.ROOT / suite).exists()] == []


def test_a_python_that_nobody_has_is_named_with_the_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "PYTHONS", ("3.99",))
    assert matrix.main(["--install", "base", "--deps", "lowest"]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:8] == ["3.99", "lowest", "base", "-", "-", "-", "-", "not"]
    assert "not run: no Python 3.99 here, and uv cannot download it: " in row
    assert matrix.main(["--install", "base", "--deps", "lowest", "--json"]) == 0
    [cell] = json.loads(capsys.readouterr().out)["cells"]
    assert cell["cell"] == {"python": "3.99", "deps": "lowest", "install": "base"}
    assert cell["verdict"].startswith("not run: no Python 3.99 here")


def test_a_report_of_pytest_becomes_a_row(tmp_path: Path) -> None:
    file = tmp_path / "tests.xml"
    file.write_text(REPORT)
    cell = Cell(python="3.11", deps="highest", install="all")
    result = CellResult(cell=cell, is_failed=True, packages=42)
    matrix.read_report(file, result)
    row, failed = matrix.lines(result)
    assert row.split() == ["3.11", "highest", "all", "42", "1", "1", "1", "FAILED"]
    assert failed.strip() == "tests.a.test_bad"
    assert [*matrix.summary([result])][-2:] == ["skipped once: needs uvx", "0 passed, 1 FAILED, 0 not run"]


def test_all_extras_are_those_that_fit_together() -> None:
    chosen = matrix.extras_of("all")
    assert {"agent", "durable", "langchain", "search"} <= set(chosen)
    assert not {"dev", "crewai", "google-adk", "llama-index"} & set(chosen)
    assert matrix.extras_of("base") == []
