"""Without a working and complete sandbox, the server is not started, and the error gives the reason."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.inside.connect import divided, find_bubblewrap
from tests.sandbox.place import PYTHON, probe, require_sandbox
from toolbus import Toolbus
from toolbus.errors import ConnectFailed

require_sandbox()

pytestmark = pytest.mark.anyio

NO_USER_NAMESPACES = """
import asyncio, json, sys
from toolbus import Toolbus

async def main():
    async with Toolbus(json.loads(sys.argv[1])) as bus:
        print(bus.servers["probe"].error)

asyncio.run(main())
"""


async def error_of(entry: dict[str, Any]) -> str:
    async with Toolbus({"servers": {"probe": entry}}) as bus:
        assert bus.servers["probe"].state == "failed"
        return bus.servers["probe"].error or ""


async def test_without_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is not started, and the error says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await error_of(probe("write", str(tmp_path / "ran"))) == (
        "server 'probe': spawn failed: its sandbox needs bubblewrap, which is not installed; "
        "install it, for example with apt install bubblewrap, or set sandbox: false"
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_on_another_system(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    """The server is not started."""
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(ConnectFailed, match="a sandbox needs Linux; run it on Linux, or set sandbox: false"):
        find_bubblewrap("probe")


def test_where_user_namespaces_are_forbidden(tmp_path: Path) -> None:
    """The error says so, and how to allow them."""
    outer = [shutil.which("bwrap") or "", "--unshare-user", "--dev-bind", "/", "/", "--proc", "/proc"]
    config = json.dumps({"servers": {"probe": probe("write", str(tmp_path / "ran"))}})
    version = subprocess.run([outer[0], "--version"], capture_output=True, text=True).stdout.split()[-1]
    if tuple(map(int, version.split("."))) < (0, 8):
        pytest.skip("this bubblewrap cannot forbid them")
    command = [*outer, "--disable-userns", "--", sys.executable, "-c", NO_USER_NAMESPACES, config]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.startswith("server 'probe': spawn failed: its sandbox cannot be made: "), done
    assert "this system does not let it make user namespaces; allow them" in done.stdout
    assert not (tmp_path / "ran").exists()


async def test_a_path_that_config_names_and_that_is_not_there(tmp_path: Path) -> None:
    """The error names it."""
    assert await error_of(probe(sandbox={"write": [str(tmp_path / "out")]})) == (
        f"server 'probe': spawn failed: sandbox.write: '{tmp_path}/out' does not exist; check the path"
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        *((path, "cannot be part of a sandbox") for path in ("/proc", "/proc/1", "/dev")),
        ("${ROOT}", "is the whole system"),
    ],
)
async def test_a_path_that_would_undo_the_sandbox(
    monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    """It is refused."""
    monkeypatch.setenv("ROOT", "/")
    assert reason in await error_of(probe(sandbox={"read": [path]}))


@pytest.mark.parametrize("command", ["docker", "podman"])
async def test_a_container_in_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """It is refused: its service, outside, would start the server."""
    entry = {"command": command, "args": ["run", "x"], "sandbox": True}
    whether_installed_or_not = [await error_of(entry)]
    (tmp_path / command).write_text("#!/bin/sh\n")
    (tmp_path / command).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    whether_installed_or_not.append(await error_of(entry))
    for error in whether_installed_or_not:
        assert f"{command} cannot run in a sandbox" in error
        assert "set sandbox: false; the container isolates it" in error


async def test_a_folder_in_the_arguments_that_is_not_shown(tmp_path: Path) -> None:
    """The error has the line to add."""
    ending = ["-c", "raise SystemExit(1)"]
    error = await error_of({"command": PYTHON, "args": [*ending, str(tmp_path)], "sandbox": True})
    assert f"its sandbox does not show '{tmp_path}'; add sandbox: {{read: [{tmp_path}]}}" in error
    error = await error_of({"command": PYTHON, "args": [*ending, f"--db={tmp_path}/new.db"], "sandbox": True})
    assert f"its sandbox does not show '{tmp_path}'" in error


async def test_a_server_that_misses_the_network() -> None:
    """The error says that it has none."""
    script = "import socket; socket.getaddrinfo('example.com', 80)"
    error = await error_of({"command": PYTHON, "args": ["-c", script], "sandbox": True})
    assert error.endswith("it has no network in its sandbox; add net: true to it")


async def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The error has the line to add."""
    (tmp_path / "db").touch()
    script = "import sys; open(sys.argv[1], 'w')"
    error = await error_of({"command": PYTHON, "args": ["-c", script, str(tmp_path / "db")], "sandbox": True})
    assert f"in its sandbox it cannot write to '{tmp_path}'; add sandbox: {{write: [{tmp_path}]}}" in error


def test_variables_that_would_run_code_in_bubblewrap_itself() -> None:
    """They are set inside only."""
    dangerous = [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "GLIBC_TUNABLES",
        "BASH_ENV",
        "ENV",
        "SHELLOPTS",
    ]
    dangerous += ["BASH_FUNC_echo%%", "PS4", "GCONV_PATH", "a b", "1x"]
    env = {**dict.fromkeys(dangerous, "x"), "TOKEN": "secret", "PATH": "/bin"}
    passed, arguments = divided(env)
    assert passed == {"TOKEN": "secret", "PATH": "/bin"}
    assert arguments == [word for name in dangerous for word in ("--setenv", name, "x")]


async def test_a_library_that_the_config_preloads(tmp_path: Path) -> None:
    """It is not loaded outside of the sandbox."""
    error = await error_of(
        {
            "command": "/bin/sh",
            "args": ["-c", "exit 3"],
            "env": {"LD_PRELOAD": str(tmp_path / "no.so")},
            "sandbox": True,
        }
    )
    assert error.count("cannot be preloaded") == 1  # by the shell inside, not by bubblewrap
