"""The place of the sandbox tests: whether a sandbox works here, and a server that tries to get out."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.processes import alive
from toolbus import Toolbus, View

PROBE = Path(__file__).with_name("probe.py")
PYTHON = os.path.join(sys.base_prefix, "bin", "python3")


@cache
def sandbox_problem() -> str | None:
    """The reason why there can be no sandbox here."""
    if (bubblewrap := shutil.which("bwrap")) is None:
        return "bubblewrap is not installed; run apt install bubblewrap"
    tried = [
        bubblewrap,
        "--unshare-all",
        "--unshare-user",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "/bin/true",
    ]
    done = subprocess.run(tried, capture_output=True, text=True)
    return f"bubblewrap cannot make a sandbox here: {done.stderr.strip()}" if done.returncode else None


def require_sandbox() -> None:
    """Skip the module where there can be no sandbox."""
    if problem := sandbox_problem():
        pytest.skip(problem, allow_module_level=True)


def probe(*args: str, **entry: Any) -> dict[str, Any]:
    """A server entry: the probe in a sandbox, unless the entry has another one."""
    return {"command": PYTHON, "args": [str(PROBE), *(args or ("serve",))], "sandbox": True, **entry}


def bus_of(**entry: Any) -> Toolbus:
    """A bus of the probe alone, which has to come up."""
    return Toolbus({"servers": {"probe": probe(required=True, **entry)}})


async def attack(bus: View, what: str, target: str | Path = "", server: str = "probe") -> str:
    """The loot of the probe, or the reason why it failed."""
    return (await bus.call(f"{server}/attack", {"what": what, "target": str(target)})).text


def outside(what: str, target: str | Path = "", env: dict[str, str] | None = None) -> str:
    """The same without a sandbox."""
    command = [PYTHON, str(PROBE), what, str(target)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    return done.stdout.strip()


def command_lines() -> list[bytes]:
    """The command lines of all processes of the machine."""
    found: list[bytes] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if alive(int(entry.name)):
                found.append((entry / "cmdline").read_bytes())
    return found
