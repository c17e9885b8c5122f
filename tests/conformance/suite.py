"""The MCP conformance suite: a program that examines clients and servers.

Which scenarios there are is asked from the suite, so that a newer one is not run in part.
"""

import os
import re
import signal
import subprocess
from functools import cache
from typing import Literal

from tests.interop.servers import INTEROP, NODE
from tests.patience import PATIENCE

VERSIONS = ("2025-03-26", "2025-11-25", "2026-07-28")
EXTENSION = "extension"
"""Instead of a version, for scenarios that belong to none."""
SUITE = INTEROP / "conformance" / "node_modules"
PROGRAM = (NODE, str(SUITE / "@modelcontextprotocol/conformance/dist/index.js"))


def suite(*arguments: str, **env: str) -> tuple[int, str]:
    """Run the suite; its exit code, and all that it printed."""
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            said, _ = process.communicate(timeout=PATIENCE)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # with the clients, which the suite runs in a shell
            raise
    return process.returncode, said


@cache
def scenarios(side: Literal["client", "server"]) -> list[tuple[str, str]]:
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
