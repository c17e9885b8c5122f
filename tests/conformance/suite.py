"""The MCP conformance suite, with a bus as the client.

For each scenario the suite starts a server, runs `client.py` against it and writes down what it saw. Which
scenarios there are is asked from the suite, so that a newer one is not run in part.
"""

import json
import os
import re
import shlex
import signal
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tests import warm
from tests.interop.servers import INTEROP

VERSIONS = ("2025-03-26", "2025-11-25", "2026-07-28")
EXTENSION = "extension"
"""Instead of a version, for scenarios that belong to none."""
CLIENT = Path(__file__).with_name("client.py")
SUITE = INTEROP / "conformance" / "node_modules"
PROGRAM = (str(SUITE / ".bin" / "node"), str(SUITE / "@modelcontextprotocol/conformance/dist/index.js"))
CLIENT_PATIENCE = 55.0
PATIENCE = 70.0
"""Seconds for the suite, which gives the client fewer."""
# Of any traffic at all, and says nothing about the scenario.
ON_EVERY_WIRE = "wire-schema-valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the suite found."""

    passed: list[str]
    objections: list[str]
    """Failures, and warnings too: of what a client SHOULD do, which the suite does not let pass either."""
    exit_code: int
    said: str
    """What the client printed, if it failed."""


def suite(*arguments: str, patience: float = PATIENCE) -> tuple[int, str]:
    """Run the suite; its exit code, and all that it printed."""
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            said, _ = process.communicate(timeout=patience)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # with the client, which the suite runs in a shell
            raise
    return process.returncode, said


@cache
def scenarios(side: Literal["client", "server"] = "client") -> list[tuple[str, str]]:
    """Version and name of every scenario for clients, or for servers."""
    code, said = suite("list", f"--{side}")
    found = [
        (version, name)
        for name, versions in re.findall(r"^ *- (\S+) \[(\S+)\]$", said, re.MULTILINE)
        for version in versions.split(",")
        if version in (*VERSIONS, EXTENSION)
    ]
    assert {version for version, _ in found} >= set(VERSIONS), f"no list of scenarios ({code}): {said}"
    return sorted(found)


def judged(version: str, scenario: str, folder: Path, command: str | None = None) -> Verdict:
    """Have the suite run a client, by default the bus, through a scenario."""
    code, said = suite(
        *("client", "--command", command or shlex.join([warm.python(), str(CLIENT)]), "--scenario", scenario),
        *(() if version == EXTENSION else ("--spec-version", version)),
        *("--timeout", f"{CLIENT_PATIENCE * 1000:.0f}", "--output-dir", str(folder)),
    )
    written = list(folder.glob("**/checks.json"))
    assert written, f"the suite wrote no checks ({code}): {said}"
    checks: list[dict[str, Any]] = json.loads(written[0].read_text())
    return Verdict(
        # The exit code alone would do for a client that does nothing: 0.
        passed=[
            check["id"] for check in checks if check["status"] == "SUCCESS" and check["id"] != ON_EVERY_WIRE
        ],
        objections=[_worded(check) for check in checks if check["status"] in ("FAILURE", "WARNING")],
        exit_code=code,
        said=said.partition("Results saved to")[0],  # all checks follow once more
    )


def _worded(check: dict[str, Any]) -> str:
    why = check.get("errorMessage") or json.dumps(check.get("details"))
    return f"{check['status']} {check['id']}: {check['description']}: {why}"
