"""The MCP conformance suite, run against a server.

The numbers count scenarios: one passes if the suite reports SUCCESS for at least one of its checks, and
nothing else but INFO. A warning (about what a server SHOULD do) or a skipped check fails it.

Run it: `python -m tests.conformance.server_suite URL [VERSION ...]`, where "extension" is a version, too.
"""

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.suite import EXTENSION, ON_EVERY_WIRE, scenarios, suite

MODERN, LEGACY = "2026-07-28", "2025-11-25"
TASKS = "tasks-"
PATIENCE = 600.0
"""Seconds for all scenarios of a version, which run one after the other."""
SCENARIO_PATIENCE = 60.0
UNWELCOME = ("FAILURE", "WARNING", "SKIPPED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the suite found in one scenario."""

    counts: Mapping[str, int]
    """Checks by status, without the one that is made of all traffic if it succeeded."""
    objections: tuple[str, ...]
    objected: frozenset[str]
    """The ids of the checks that were objected to."""

    @property
    def passed(self) -> bool:
        """Whether something was checked, and all of it is as it should be."""
        return bool(self.counts.get("SUCCESS")) and not self.objections


def server_scenarios(version: str) -> list[str]:
    """The scenarios for servers of a version of the protocol; of the extensions only the tasks."""
    named = [name for its_version, name in scenarios("server") if its_version == version]
    return [name for name in named if version != EXTENSION or name.startswith(TASKS)]


def judged_server(url: str, version: str, folder: Path) -> dict[str, Outcome]:
    """Have the suite try a server; the outcome of every scenario of that version."""
    wanted = server_scenarios(version)
    where = ("--url", url, "--output-dir", str(folder), "--timeout", f"{SCENARIO_PATIENCE * 1000:.0f}")
    if version == EXTENSION:
        said = "".join(suite("server", *where, "--scenario", name, patience=PATIENCE)[1] for name in wanted)
    else:
        said = suite("server", *where, "--suite", "all", "--spec-version", version, patience=PATIENCE)[1]
    found = {_scenario(file): _outcome(json.loads(file.read_text())) for file in folder.glob("*/checks.json")}
    why = f"the suite wrote no checks: {said[-2000:]}"
    missing = Outcome(counts={}, objections=(why,), objected=frozenset({"missing"}))
    return {name: found.get(name, missing) for name in wanted}


def _scenario(file: Path) -> str:
    """As in `server-ping-2026-11-16T18-20-07-241Z`."""
    return re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name, count=2)


def _outcome(checks: Sequence[dict[str, Any]]) -> Outcome:
    own = [check for check in checks if check["id"] != ON_EVERY_WIRE or check["status"] in UNWELCOME]
    return Outcome(
        counts=Counter(check["status"] for check in own),
        objections=tuple(_worded(check) for check in own if check["status"] in UNWELCOME),
        objected=frozenset(check["id"] for check in own if check["status"] in UNWELCOME),
    )


def _worded(check: Mapping[str, Any]) -> str:
    why = check.get("errorMessage") or json.dumps(check.get("details"))
    return f"{check['status']} {check['id']}: {why}"


def total(outcomes: Mapping[str, Outcome]) -> str:
    """As in "40 of 40 scenarios, 151 checks"."""
    passed = sum(outcome.passed for outcome in outcomes.values())
    checks = sum(outcome.counts.get("SUCCESS", 0) for outcome in outcomes.values())
    return f"{passed} of {len(outcomes)} scenarios, {checks} checks"


def table(outcomes: Mapping[str, Outcome]) -> str:
    """A line for every scenario, with what the suite objects to below it."""
    lines: list[str] = []
    for name, outcome in outcomes.items():
        counts = ", ".join(f"{count} {status}" for status, count in sorted(outcome.counts.items()))
        lines.append(f"{'passed' if outcome.passed else 'FAILED'}  {name:<50} {counts}")
        lines += [f"        {objection}" for objection in outcome.objections]
    return "\n".join([*lines, total(outcomes)])


def main(url: str, *versions: str) -> int:
    """Print a table for each version; 1 if something did not pass."""
    failed = False
    for version in versions or (MODERN, LEGACY):
        with tempfile.TemporaryDirectory() as folder:
            outcomes = judged_server(url, version, Path(folder))
        print(f"{version}\n{table(outcomes)}\n")
        failed |= not all(outcome.passed for outcome in outcomes.values())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
