"""`make hostile`: run every attack that SECURITY.md names, and print a table: attack, promise, held."""

import ast
import re
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "SECURITY.md"
_FILE = re.compile(r"`(tests/[\w/]+\.py)`")


def promises() -> dict[str, str]:
    """The files of attacks that SECURITY.md names, each with what the page promises first beside it."""
    found: dict[str, str] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        # Elsewhere than in a table, the sentence is the promise.
        promise = cells[2] if line.startswith("| ") else line.partition(" (`")[0].strip()
        for file in _FILE.findall(line):
            found.setdefault(file, promise)
    return found


@dataclass
class Attack:
    """One test: its name is the attack."""

    promise: str
    cases: int = 0
    broken: list[str] = field(default_factory=list[str])
    skipped: str | None = None

    @property
    def held(self) -> str:
        """The last column."""
        if self.broken:
            return f"[red]NO[/]: {', '.join(self.broken)}"
        return f"[yellow]skipped[/]: {self.skipped}" if self.skipped else f"[green]yes[/] ({self.cases})"


class Attacks:
    """A plugin that collects the outcome of every test."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Attack] = {}
        self._promises = promises()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, _, name = report.nodeid.partition("[")[0].partition("::")
        attack = self.found.get((file, name))
        if attack is None:
            promise = docstrings(file).get(name) or self._promises.get(file, "")
            attack = self.found[file, name] = Attack(promise)
        case = report.nodeid.partition("[")[2].removesuffix("]") or report.when or ""
        if report.failed:
            attack.broken.append(case)
        elif report.skipped:
            attack.skipped = report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected to fail"
        elif report.when == "call":
            attack.cases += 1
            print(".", end="", file=sys.stderr, flush=True)  # it takes minutes


@cache
def docstrings(file: str) -> dict[str, str]:
    """The first lines of the docstrings of the tests in a file: what each of them promises."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    tests = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {test.name: (ast.get_docstring(test) or "").partition("\n")[0] for test in tests}


def main() -> int:
    """Run the attacks; returns the exit code of the tests."""
    attacks = Attacks()
    options = ["-p", "no:langsmith_plugin", "-p", "no:terminalreporter", "-n", "4", "--dist", "loadfile"]
    files = [str(ROOT / file) for file in promises()]
    code = pytest.main([*options, *files, *sys.argv[1:]], plugins=[attacks])
    table = Table("attack", "promise", "held", title="Attacks of hostile servers and clients")
    for (_, name), attack in sorted(attacks.found.items()):
        table.add_row(name.removeprefix("test_").replace("_", " "), attack.promise, attack.held)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    held = sum(not attack.broken and not attack.skipped for attack in attacks.found.values())
    print(f"{held} of {len(attacks.found)} held, {sum(a.cases for a in attacks.found.values())} cases")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
