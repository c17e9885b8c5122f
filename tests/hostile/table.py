"""`make hostile`: run every attack, and print a table: attack, promise, held."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent
ATTACKS = (
    FOLDER,
    FOLDER.parent / "auth" / "test_refusals.py",
    FOLDER.parent / "sandbox" / "test_probe.py",
    FOLDER.parent / "sandbox" / "test_refusals.py",
)


@dataclass
class Attack:
    """One test: its name is the attack, the first line of its docstring the promise."""

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
        self.found: dict[str, Attack] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            about = str(getattr(getattr(item, "function", None), "__doc__", None) or "")
            self.found.setdefault(_key(item.nodeid), Attack(about.strip().partition("\n")[0]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        attack = self.found[_key(report.nodeid)]
        case = report.nodeid.partition("[")[2].removesuffix("]") or report.when or ""
        if report.failed:
            attack.broken.append(case)
        elif report.skipped:
            attack.skipped = report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected to fail"
        elif report.when == "call":
            attack.cases += 1
            print(".", end="", file=sys.stderr, flush=True)  # it takes minutes


def _key(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def main() -> int:
    """Run the attacks; the exit code is that of the tests."""
    attacks = Attacks()
    options = ["-p", "no:langsmith_plugin", "-p", "no:terminalreporter", "-n", "0"]
    code = pytest.main([*options, *map(str, ATTACKS), *sys.argv[1:]], plugins=[attacks])
    table = Table("attack", "promise", "held", title="Attacks of hostile servers")
    for key, attack in attacks.found.items():
        table.add_row(
            key.rpartition("::")[2].removeprefix("test_").replace("_", " "), attack.promise, attack.held
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    held = sum(not attack.broken and not attack.skipped for attack in attacks.found.values())
    print(f"{held} of {len(attacks.found)} held, {sum(a.cases for a in attacks.found.values())} cases")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
