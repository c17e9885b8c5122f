"""The MCP conformance suite, run against a server.

Run it: `python -m tests.conformance.server_suite URL [VERSION ...]`, where "extension" is also a version.
"""

import sys
import tempfile
from pathlib import Path

from tests.conformance.outcomes import UNWELCOME, Outcome, outcomes_in, table
from tests.conformance.suite import EXTENSION, scenarios, suite

MODERN, LEGACY = "2026-07-28", "2025-11-25"
TASKS, SKILLS = "tasks-", "sep-2640-"
SCENARIO_PATIENCE = 60.0


def server_scenarios(version: str, extension: str = TASKS) -> list[str]:
    """The scenarios for servers of a version of the protocol; of the extensions only one."""
    named = [name for its_version, name in scenarios("server") if its_version == version]
    return [name for name in named if version != EXTENSION or name.startswith(extension)]


def judged_server(url: str, version: str, folder: Path, extension: str = TASKS) -> dict[str, Outcome]:
    """Have the suite try a server; the outcome of every scenario of that version."""
    where = ("--url", url, "--output-dir", str(folder), "--timeout", f"{SCENARIO_PATIENCE * 1000:.0f}")
    # The suite has the scenarios of the extensions among the pending ones. One run for all of them: its start
    # takes longer than most scenarios.
    which = ("pending",) if version == EXTENSION else ("all", "--spec-version", version)
    _, said = suite("server", *where, "--suite", *which)
    return outcomes_in(folder, server_scenarios(version, extension), said, (*UNWELCOME, "SKIPPED"))


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
