"""Servers whose processes do not want to end, and programs that are killed at a bad moment."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import plain, sampled
from tests.hostile.daemon import DAEMONS
from tests.patience import PATIENCE, wait_until
from tests.processes import alive
from toolbus import Toolbus

HERE = Path(__file__).parent


def processes_of(folder: Path) -> set[int]:
    """The living processes with this folder in their command line, other than a client."""
    found: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in line and b"client.py" not in line and alive(int(entry.name)):
            found.add(int(entry.name))
    return found


def processes_in(folder: Path) -> set[int]:
    """The living processes in this working folder."""
    found: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder and alive(int(entry.name)):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def guards_of(pid: int) -> set[int]:
    """The living processes that guard the servers of a process."""
    mark = f"guard.main({pid})".encode()
    lines = ((entry, entry / "cmdline") for entry in Path("/proc").glob("[0-9]*"))
    return {int(entry.name) for entry, line in lines if alive(int(entry.name)) and mark in _read(line)}


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def leaving(how: str, folder: Path, *behaviours: str) -> dict[str, Any]:
    """A server entry: it leaves a daemon behind."""
    return {"command": sys.executable, "args": [str(HERE / "daemon.py"), how, str(folder), *behaviours]}


def client(what: str, entry: dict[str, Any]) -> "subprocess.Popen[str]":
    config = json.dumps({"servers": {"a": entry}})
    words = [sys.executable, str(HERE / "client.py"), what, config]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def printed_until_ready(program: "subprocess.Popen[str]") -> list[str]:
    assert program.stdout is not None
    lines = iter(program.stdout.readline, "")
    return list(iter(lambda: next(lines).strip(), "ready"))


@pytest.mark.anyio
@pytest.mark.parametrize("how", DAEMONS)
async def test_a_daemon_that_outlives_its_server(how: str, tmp_path: Path) -> None:
    """Stopping the bus ends it."""
    async with Toolbus({"servers": {"a": leaving(how, tmp_path)}}) as bus:
        assert (await bus.call("a_echo", {"text": "x"})).text == "x"
        wait_until(lambda: len(processes_of(tmp_path)) >= 2)  # one look may miss a process that moves on
    wait_until(lambda: not processes_of(tmp_path))


@pytest.mark.anyio
async def test_a_daemon_of_another_server(tmp_path: Path) -> None:
    """Stopping one server leaves the daemon of another alone."""
    folders = {alias: tmp_path / alias for alias in ("a", "b")}
    for folder in folders.values():
        folder.mkdir()
    entries = {alias: leaving("waits", folder) for alias, folder in folders.items()}
    async with Toolbus({"servers": entries}) as bus:
        await bus.remove_server("a")
        wait_until(lambda: not processes_of(folders["a"]))
        assert len(processes_of(folders["b"])) == 2


@pytest.mark.parametrize("how", sampled(list(DAEMONS), "clears its traces"))
def test_a_daemon_when_we_are_killed(how: str, tmp_path: Path) -> None:
    """It ends soon after us."""
    program = client("start", leaving(how, tmp_path, "stay"))
    printed_until_ready(program)
    program.kill()
    program.communicate()
    wait_until(lambda: not processes_of(tmp_path) | guards_of(program.pid))


MOMENTS = ["the guard", "its keeper", "the server", "its daemon"]


@pytest.mark.parametrize("moment", sampled(MOMENTS, "its keeper", "its daemon"))
def test_a_kill_while_the_first_server_starts(moment: str, tmp_path: Path) -> None:
    """Nothing is left, whenever it comes."""
    program = client("start", leaving("waits", tmp_path, "stay"))
    is_there = {
        "the guard": lambda: len(guards_of(program.pid)) >= 1,
        "its keeper": lambda: len(guards_of(program.pid)) >= 2,
        "the server": lambda: len(processes_of(tmp_path)) >= 1,
        "its daemon": lambda: (tmp_path / "daemon").exists(),
    }
    wait_until(is_there[moment])
    program.kill()
    program.communicate()
    wait_until(lambda: not processes_of(tmp_path) | guards_of(program.pid))


PROGRAMS = [(what, started) for what in ("frozen", "broken") for started in ("the server", "its child")]


@pytest.mark.parametrize(
    "way", sampled(PROGRAMS, ("frozen", "the server"), ("broken", "its child")), ids="-".join
)
def test_a_kill_while_a_program_without_an_interpreter_starts_its_first_server(
    way: tuple[str, str], tmp_path: Path
) -> None:
    """Nothing is left, whenever it comes."""
    what, count = way[0], 1 if way[1] == "the server" else 2
    program = client(what, plain("stay", "leave_child", cwd=str(tmp_path)))
    wait_until(lambda: len(processes_in(tmp_path)) >= count)
    program.kill()
    program.communicate()
    wait_until(lambda: not processes_in(tmp_path))


@pytest.mark.parametrize("what", sampled(["fork", "frozen fork"], "frozen fork"))
def test_a_fork_that_outlives_us(what: str, tmp_path: Path) -> None:
    """Servers end with the process that started them, not with its forks."""
    entry = leaving("waits", tmp_path, "stay") if what == "fork" else plain("stay", cwd=str(tmp_path))
    program = client(what, entry)
    (fork,) = map(int, printed_until_ready(program))
    try:
        servers = processes_of(tmp_path) | processes_in(tmp_path)
        assert servers
        program.kill()
        program.wait()
        wait_until(lambda: not any(map(alive, servers)))
        assert alive(fork)
    finally:
        os.kill(fork, signal.SIGKILL)
        program.communicate()


@pytest.mark.anyio
async def test_a_server_that_kills_its_keeper(tmp_path: Path) -> None:
    """Its processes end, and the server is restarted."""
    async with Toolbus({"servers": {"a": leaving("ignores signals", tmp_path)}}) as bus:
        before = processes_of(tmp_path)
        (server,) = (pid for pid in before if str(pid) != (tmp_path / "daemon").read_text())
        os.kill(parent_of(server), signal.SIGKILL)
        wait_until(lambda: not any(map(alive, before)))
        (tmp_path / "daemon").unlink()
        assert (await bus.call("a_echo", {"text": "x"}, reconnect_timeout=PATIENCE)).text == "x"
        assert bus.servers["a"].restarts == 1
