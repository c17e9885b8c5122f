"""Run the real `toolbus` executable, as a person would."""

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from tests import warm
from tests.inside.config import accept, candidate
from tests.inside.core import ConfigError
from tests.patience import PATIENCE

TOOLBUS = str(Path(sys.executable).parent / "toolbus")
SCRIPTED = Path(__file__).parent / "servers" / "scripted.py"

Done = subprocess.CompletedProcess[str]


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a command: a home of its own, without the terminal that runs the tests."""
    names = ("LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "SSL_CERT_FILE")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    folders = {"XDG_CACHE_HOME": str(home / ".cache"), "XDG_STATE_HOME": str(home / ".state")}
    return {**kept, "PATH": path, "HOME": str(home), **folders, **more}


def bound_by_permissions() -> list[str]:
    """The start of a command that has to respect the permissions of files, even if root runs it."""
    if os.geteuid() != 0:
        return ["env"]
    command = ["setpriv", "--bounding-set=-dac_override"]
    if shutil.which("setpriv") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("root may write every file, and setpriv cannot take that away here")
    return command


def toolbus(
    *arguments: str,
    folder: Path,
    input: str = "",  # noqa: A002  the name that subprocess has for it
    env: Mapping[str, str] | None = None,
    cold: bool = False,
    prefix: Sequence[str] = (),
) -> Done:
    """Run one command in that folder, to its end; its home is the folder's parent.

    A cold one makes its imports itself; so does one that another program starts, whose command is the prefix.
    """
    seen = environment(folder.parent, **(env or {}))
    if not cold and not prefix:
        return warm.run("toolbus", arguments, folder, seen, input, PATIENCE)
    return subprocess.run(
        [*prefix, TOOLBUS, *arguments],
        cwd=folder,
        env=seen,
        input=input,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def together(commands: Mapping[str, Sequence[str]], folder: Path) -> dict[str, Done]:
    """Run several commands at a time, since each of them mostly waits for imports; by their keys."""
    with ThreadPoolExecutor(3) as pool:
        runs = {key: pool.submit(toolbus, *words, folder=folder) for key, words in commands.items()}
        return {key: run.result() for key, run in runs.items()}


_trusting = Lock()  # the environment is that of all threads


def write_config(folder: Path, servers: Mapping[str, Any], **settings: Any) -> Path:
    """A `toolbus.yaml` with these servers, which the user of that home trusts."""
    file = folder / "toolbus.yaml"
    file.write_text(json.dumps({"servers": servers, **settings}, indent=1))
    with _trusting, pytest.MonkeyPatch.context() as patch, suppress(ConfigError):
        patch.setenv("XDG_STATE_HOME", environment(folder.parent)["XDG_STATE_HOME"])
        accept(candidate(file))  # as `toolbus trust --yes` does; a wrong config cannot be trusted
    return file


def scripted(folder: Path, alias: str, **script: Any) -> dict[str, Any]:
    """An entry for a server that follows a script; see `servers/scripted.py`."""
    file = folder / f"{alias}.script"
    file.write_text(json.dumps(script))
    return {"command": sys.executable, "args": [str(SCRIPTED), str(file)]}


class Fifo:
    """A FIFO between a test and a server: neither waits for the other to open it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._end = os.open(path, os.O_RDWR)

    def __enter__(self) -> "Fifo":
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._end)

    def say(self, line: str) -> None:
        """Tell its reader."""
        os.write(self._end, f"{line}\n".encode())

    def line(self) -> str:
        """The next line that was written to it."""
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._end], [], [], PATIENCE)
            assert ready, f"nothing came over {self.path}"
            line += os.read(self._end, 1)
        return line.decode().strip()


def living_at(home: Path) -> set[int]:
    """The processes that have this home: a command, and all it started, under any parent."""
    found = {pid for pid, its_home in warm.homes().items() if its_home == str(home)}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"HOME={home}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
            except OSError:
                continue  # it ended while we looked
    return found
