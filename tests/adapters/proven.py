"""Slow proofs that run only when their inputs changed since they last passed; proven.json has the record.

python -m tests.adapters.proven test      the tests of the adapters that have an environment of their own
python -m tests.adapters.proven check     their types, and that every extra resolves with the core
python -m tests.adapters.proven all       all of it, changed or not; once it passes, it is recorded
"""

import ast
import hashlib
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tests.adapters.environments import ADAPTERS, OWN, ROOT, check_types, extra_of, resolve, run_tests, wanted

RESOLVE = "resolve"
RECORD = "tests/adapters/proven.json"
ENVIRONMENTS = "tests/adapters/environments.py"
# The packages whose imports are followed, and where they are. The core is not followed: nearly every change
# touches it, and the adapters that share an environment use it in the same ways.
FOLLOWED = {"tests": "tests", "toolbus.adapters": "src/toolbus/adapters"}


def fingerprints(root: Path, own: Mapping[str, list[str]]) -> dict[str, str]:
    """The digest of what each proof depends on; `own` has the packages of each environment."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core, extras = sorted(project["dependencies"]), project["optional-dependencies"]
    every_extra = {extra: sorted(packages) for extra, packages in extras.items()}
    found = {RESOLVE: _digest([core, every_extra, _of(root, ENVIRONMENTS)])}
    for name in own:
        files = {path: _of(root, path) for path in files_of(root, name)}
        found[name] = _digest([core, sorted(extras[extra_of(name)]), sorted(own[name]), files])
    return found


def files_of(root: Path, name: str) -> set[str]:
    """The files whose content matters to an adapter."""
    tests = ["conftest.py", "adapters/conftest.py", "adapters/test_pages.py", f"adapters/test_{name}.py"]
    code = imported(root, [f"src/toolbus/adapters/{name}.py", *(f"tests/{test}" for test in tests)])
    # A page, and what its programs use.
    return code | {f"docs/frameworks/{name}.md", "examples/notes.py", "examples/toolbus.yaml"}


def imported(root: Path, paths: Iterable[str]) -> set[str]:
    """These files, and all that they import from the packages that are followed."""
    found: set[str] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        # Of the environments only the adapter's own packages matter to it; those count by themselves.
        if path not in found and path != ENVIRONMENTS:
            found.add(path)
            names = (name for name, _ in imports(root / path))
            waiting += (file for name in names for file in _files(root, name))
    return found


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Every import of a file, also those inside functions: the whole name, and the module it is from."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from ((each.name, each.name) for each in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from ((f"{module}.{each.name}", module) for each in names)
            case _:
                pass


def _files(root: Path, name: str) -> Iterator[str]:
    """The files that an import of this name runs: the packages on the way, and the module."""
    for package, folder in FOLLOWED.items():
        if f"{name}.".startswith(f"{package}."):
            parts = name.removeprefix(package).split(".")
            for end in range(1, len(parts) + 1):
                place = "/".join([folder, *parts[1:end]])
                yield from (
                    path for path in (f"{place}.py", f"{place}/__init__.py") if (root / path).is_file()
                )


def changed(root: Path, now: Mapping[str, str]) -> set[str]:
    """The proofs whose inputs differ from the record; all of them if it cannot be read."""
    try:
        recorded: dict[str, str] = json.loads((root / RECORD).read_bytes())
    except (OSError, ValueError):
        recorded = {}
    return {name for name in now if recorded.get(name) != now[name]}


def write_record(root: Path, proven: Mapping[str, str]) -> None:
    """Write the record so that the same proofs make the same file."""
    text = json.dumps(proven, indent=2, sort_keys=True) + "\n"
    (root / RECORD).write_text(text, encoding="utf-8")


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _of(root: Path, path: str) -> str:
    return hashlib.sha256((root / path).read_bytes()).hexdigest()


def _all_resolve() -> bool:
    failed = [name for name in ADAPTERS if not resolve(name)]
    return not failed


def _run(proofs: Mapping[str, Callable[[], bool]], needed: set[str]) -> bool:
    """Run the needed proofs, even after one failed; returns whether all passed."""
    failed: list[str] = []
    for name, passes in proofs.items():
        if name not in needed:
            print(f"{name}: unchanged since it last passed ({RECORD}); make test-all runs it", flush=True)
        elif not passes():
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr, flush=True)
    return not failed


def main(arguments: list[str]) -> int:
    """Do what the arguments say; returns the exit code."""
    # Taken before anything runs: what is edited meanwhile was not proven.
    now = fingerprints(ROOT, {name: wanted(name) for name in OWN})
    more = arguments[1:]
    tests = {name: lambda name=name: run_tests(name, *more) for name in OWN}
    types = {name: lambda name=name: check_types(name) for name in OWN}
    checks = types | {RESOLVE: _all_resolve}
    match arguments:
        case ["test", *_]:
            passed = _run(tests, changed(ROOT, now))
        case ["check"]:
            passed = _run(checks, changed(ROOT, now))
        case ["all", *_]:
            passed = _run(tests, set(now)) & _run(checks, set(now))  # not `and`: both are to run
            if passed:
                write_record(ROOT, now)
        case _:
            print("which proofs? test, check or all", file=sys.stderr)
            return 2
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
