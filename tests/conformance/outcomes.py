"""The findings of the MCP conformance suite, by scenario.

A scenario passes if the suite reports SUCCESS for at least one of its checks. There must be no failure, no
warning (about a SHOULD), and for a server no skipped check.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNWELCOME = ("FAILURE", "WARNING")
# Of any traffic at all, and says nothing about the scenario.
ON_EVERY_WIRE = "wire-schema-valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The findings of the suite in one scenario."""

    counts: Mapping[str, int]
    """Checks by status, without the one that is made of all traffic if it succeeded."""
    objections: tuple[str, ...]
    objected: frozenset[str]
    """The ids of the checks that were objected to."""
    said: str = ""
    """The output of the client, if it was one."""

    @property
    def passed(self) -> bool:
        """Whether something was checked, and all of it is as it should be."""
        return bool(self.counts.get("SUCCESS")) and not self.objections


def outcomes_in(
    folder: Path, wanted: Iterable[str], said: str, unwelcome: Sequence[str] = UNWELCOME
) -> dict[str, Outcome]:
    """The outcome of every scenario that was to run, of which the suite has written files to the folder."""
    files = {_scenario(file.parent.relative_to(folder)): file for file in folder.glob("**/checks.json")}
    why = f"the suite wrote no checks: {said[-2000:]}"
    missing = Outcome(counts={}, objections=(why,), objected=frozenset({"missing"}))
    return {name: _outcome(files[name], unwelcome) if name in files else missing for name in wanted}


def _scenario(folder: Path) -> str:
    """As in `server-ping-2026-11-16T18-20-07-241Z`, or `auth/dpop-2026-11-16T18-20-07-241Z`."""
    return re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", folder.as_posix(), count=2)


def _outcome(file: Path, unwelcome: Sequence[str]) -> Outcome:
    checks: Sequence[dict[str, Any]] = json.loads(file.read_text())
    own = [check for check in checks if check["id"] != ON_EVERY_WIRE or check["status"] in unwelcome]
    printed = file.with_name("stdout.txt")
    return Outcome(
        counts=Counter(check["status"] for check in own),
        objections=tuple(_worded(check) for check in own if check["status"] in unwelcome),
        objected=frozenset(check["id"] for check in own if check["status"] in unwelcome),
        said=printed.read_text() if printed.exists() else "",
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
