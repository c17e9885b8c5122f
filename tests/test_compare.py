"""The table in README has the rows and columns that `python -m bench.compare` measures."""

from pathlib import Path

from bench.compare.__main__ import rows
from bench.compare.peers import PEERS

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_table_in_the_readme_has_the_measured_rows_and_columns() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert [title.rpartition(" ")[0] for title in table[0][1:]] == list(PEERS)
    assert [row[0] for row in table[2:]] == list(rows(""))
    assert all(len(row) == len(PEERS) + 1 and all(row[1:]) for row in table)
