"""Differences from the lockfile in SARIF 2.1.0, which code scanners of forges read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from toolbus.cli.output.differences import plain_change
from toolbus.cli.output.screen import short_path, visible
from toolbus.core import version
from toolbus.core.values.records import JSON
from toolbus.lock.changes import LockDifference

_RULES = {
    "added": "Something is not in the lockfile.",
    "changed": "Something differs from the lockfile.",
    "removed": "Something in the lockfile is not offered any more.",
    "failed": "A server could not be compared with the lockfile.",
}


def sarif_report(path: Path, differences: Sequence[LockDifference], failed: Mapping[str, str]) -> JSON:
    """The report of one run."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rules = [{"id": f"lock/{name}", "shortDescription": {"text": text}} for name, text in _RULES.items()]
    driver = {
        "name": "toolbus",
        "version": version(),
        "rules": rules,
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": list(_results(path, lines, differences, failed))}],
    }


def _results(
    path: Path, lines: Sequence[str], differences: Sequence[LockDifference], failed: Mapping[str, str]
) -> Iterator[JSON]:
    for one in differences:
        details = "; ".join(plain_change(change) for change in one.changes)
        text = f"{one.label} is {'new' if one.status == 'added' else one.status}"
        line = _line(lines, one.server, one.name)
        yield _result(f"lock/{one.status}", visible(f"{text}: {details}" if details else text), path, line)
    for alias, reason in failed.items():
        yield _result(
            "lock/failed", visible(f"{alias} could not be compared: {reason}"), path, _line(lines, alias, "")
        )


def _result(rule: str, text: str, path: Path, line: int) -> JSON:
    where = {"artifactLocation": {"uri": _uri(path)}, "region": {"startLine": line}}
    return {
        "ruleId": rule,
        "level": "error",
        "message": {"text": text},
        "locations": [{"physicalLocation": where}],
    }


def _uri(path: Path) -> str:
    """Relative to the current folder, which scanners take for the root of the repository."""
    relative = Path(short_path(path))
    return path.absolute().as_uri() if relative.is_absolute() else quote(relative.as_posix())


def _line(lines: Sequence[str], server: str, name: str) -> int:
    """The line of a block in the lockfile; that of its server, or 1, if it is not there."""
    opening = [
        f"    {json.dumps(server, ensure_ascii=False)}: {{",
        f"        {json.dumps(name, ensure_ascii=False)}: {{",
    ]
    try:
        found = lines.index(opening[0])
    except ValueError:
        return 1
    for number in range(found + 1, len(lines)):
        if lines[number] == opening[1]:
            return number + 1
        if lines[number].startswith("    }"):
            break
    return found + 1
