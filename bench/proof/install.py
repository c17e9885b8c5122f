"""The environments of the benchmarks, below `.proof/`: each installed once, all pinned."""

import os
import subprocess
import sys
from pathlib import Path

from bench.sides import ROOT

PROOF = ROOT / ".proof"
BFCL = PROOF / "bfcl"
PACKAGES = {
    # Without its dependencies, the SDKs of all providers; one of the backends needs mpmath.
    "bfcl": ["--no-deps", "bfcl-eval==2026.3.23", "mpmath==1.3.0"],
    "agentdojo": ["agentdojo==0.1.35"],
}


class NotInstalled(Exception):
    """A benchmark that is not here; the text says why."""


def installed(name: str) -> Path:
    """The Python of a benchmark's environment; installs it first if it is missing."""
    place = PROOF / name
    ready = place / ".ready"
    wanted = " ".join(PACKAGES[name])
    if not ready.exists() or ready.read_text() != wanted:
        _run("venv", "--clear", "--quiet", "--python", sys.executable, str(place))
        _run("pip", "install", "--quiet", "--compile-bytecode", "--python", str(place), *PACKAGES[name])
        ready.write_text(wanted)
    return place / "bin" / "python"


def packages(name: str) -> Path:
    """The folder with the packages of an environment."""
    [found] = (PROOF / name / "lib").glob("python3*/site-packages")
    return found


def is_installed(name: str) -> bool:
    """Whether an environment is here."""
    return (PROOF / name / ".ready").exists()


def _run(*words: str) -> None:
    command = [sys.executable, "-m", "uv", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment())
    if done.returncode:
        last = done.stderr.strip().splitlines() or ["uv failed"]
        raise NotInstalled(f"uv {words[0]}: {last[-1]}")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
