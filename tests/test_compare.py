"""The table in docs/performance.md has the rows and columns that `python -m bench.compare` measures."""

from bench.compare.__main__ import rows
from bench.compare.peers import PEERS
from tests.pages import ROOT


def table(page: str) -> list[list[str]]:
    """The cells of the table with the clients on a page."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    [start] = [number for number, line in enumerate(lines) if line.startswith("|  | toolbus")]
    end = next(number for number in range(start, len(lines)) if not lines[number].startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]


def test_the_table_has_the_measured_rows_and_columns() -> None:
    measured = table("docs/performance.md")
    assert [title.rpartition(" ")[0] for title in measured[0][1:]] == list(PEERS)
    assert [row[0] for row in measured[2:]] == list(rows(""))
    assert all(len(row) == len(PEERS) + 1 and all(row[1:]) for row in measured)


def test_the_readme_has_some_of_its_rows() -> None:
    shown, measured = table("README.md"), table("docs/performance.md")
    assert len(shown) == 2 + 5
    assert [row for row in measured if row in shown] == shown
