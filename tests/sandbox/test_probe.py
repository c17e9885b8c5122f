"""A server that tries to get out of its sandbox: attacks that work outside fail inside."""

import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import wait_until
from tests.processes import alive
from tests.sandbox.place import PROBE, attack, bus_of, command_lines, outside, probe, require_sandbox
from tests.sandbox.probe import ADD_KEY, KEYCTL
from toolbus import Toolbus

require_sandbox()

pytestmark = pytest.mark.anyio

SECRET = "do-not-tell-7f3a"
VARIABLE = "TOOLBUS_TEST_SECRET"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of ours with a key in it."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text(SECRET)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
    return home


@pytest.fixture
def listeners() -> Iterator[list[str]]:
    """A port and an abstract socket of this machine."""
    name = f"toolbus-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        yield [str(port.getsockname()[1]), f"@{name}"]


async def test_a_server_that_reads_the_home_folder(home: Path, tmp_path: Path) -> None:
    """It is empty inside, and so is the folder of the config."""
    (tmp_path / "notes").write_text(SECRET)
    targets = [home / ".ssh" / "id", tmp_path / "notes", Path("/etc/shadow")]
    assert outside("read", targets[0]) == f"got {SECRET}"
    async with bus_of() as bus:
        for target in targets:
            assert (await attack(bus, "read", target)).startswith("failed FileNotFoundError")
        assert await attack(bus, "listing", home) == "got []"


async def test_a_server_that_writes(home: Path, tmp_path: Path) -> None:
    """Nothing outside changes: not the home folder, the system, the config, or another server's package."""
    cache = home / ".local" / "state" / "toolbus" / "sandbox" / "other" / "cache"
    cache.mkdir(parents=True)
    targets = [home / "planted", tmp_path / "planted", cache / "planted"]
    if os.getuid() == 0:
        targets += [Path("/usr/lib/planted"), Path("/etc/planted")]
    for target in targets[:3]:
        assert outside("write", target) == "got written"
        target.unlink()
    async with bus_of() as bus:
        tried = [await attack(bus, "write", target) for target in targets]
    assert [target for target in targets if target.exists()] == []
    assert tried[:2] == ["got written"] * 2  # to a home and a /tmp that are gone with it
    assert all(text.startswith("failed") for text in tried[2:])


async def test_a_server_that_opens_a_socket(home: Path, listeners: list[str]) -> None:
    """It has no network: not this machine's either."""
    for where in listeners:
        assert outside("connect", where) == "got connected"
    async with bus_of() as bus:
        for where in listeners:
            assert (await attack(bus, "connect", where)).startswith("failed ConnectionRefusedError")
    async with bus_of(sandbox={"net": True}) as bus:
        for where in listeners:
            assert await attack(bus, "connect", where) == "got connected"


@pytest.mark.parametrize("inherited", ["safe", "all", "none"])
async def test_a_server_that_reads_our_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch, inherited: str
) -> None:
    """It has its own variables only, even if it inherits all."""
    monkeypatch.setenv(VARIABLE, SECRET)
    assert outside("environment", VARIABLE) == f"got {SECRET}"
    async with bus_of(inherit_env=inherited, env={"OWN": "1"}) as bus:
        assert (await attack(bus, "environment", VARIABLE)).startswith("failed LookupError")
        variables = json.loads((await attack(bus, "variables")).removeprefix("got "))
    kept = {name for name in variables if name.startswith(("LANG", "LC_"))} | {"TZ", "PATH", "PWD"}
    assert variables.keys() - kept == {"HOME", "USER", "LOGNAME", "OWN"}
    assert ("PATH" in variables) == (inherited != "none")


async def test_a_server_that_leaves_a_process_behind(home: Path, tmp_path: Path) -> None:
    """It ends with the server, however it left it."""
    out = tmp_path / "out"
    out.mkdir()
    left = int(outside("daemon", tmp_path / "beat").removeprefix("got "))
    assert alive(left)
    os.kill(left, signal.SIGKILL)
    async with bus_of(sandbox={"write": [str(out)]}) as bus:
        assert (await attack(bus, "daemon", out / "beat")).startswith("got ")
        first = (out / "beat").read_text()
        wait_until(lambda: (out / "beat").read_text() != first)  # it writes, while the server is there
    (out / "beat").unlink()
    assert not list(out.iterdir())


async def test_a_server_that_reads_the_keyring_of_the_kernel(home: Path) -> None:
    """It cannot use one: keyrings are inherited, whatever the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(KEYCTL, 1, None) < 0 or libc.syscall(ADD_KEY, b"user", b"toolbus", b"x", 1, -3) < 0:
        pytest.skip("this kernel has no keyrings")
    assert outside("key", "toolbus").startswith("got key")
    async with bus_of() as bus:
        assert (
            await attack(bus, "key", "toolbus") == "failed PermissionError: [Errno 1] Operation not permitted"
        )


@pytest.mark.parametrize("what", ["namespace", "virtual_socket"])
async def test_a_server_that_uses_what_namespaces_do_not_separate(home: Path, what: str) -> None:
    """The kernel refuses the call."""
    async with bus_of() as bus:
        assert (await attack(bus, what)).startswith(("failed PermissionError", "failed OSError: [Errno 97]"))


@pytest.mark.skipif(os.getuid() != 0, reason="for root, who may write them outside")
@pytest.mark.parametrize("path", ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches"])
async def test_a_server_that_changes_the_kernel_as_root(home: Path, path: str) -> None:
    """Settings of the kernel are read-only inside."""
    assert outside("kernel_setting", path) == "got open"
    async with bus_of() as bus:
        assert "Read-only file system" in await attack(bus, "kernel_setting", path)


async def test_a_server_that_we_start_as_root(home: Path, tmp_path: Path) -> None:
    """It is another user inside, without capabilities, and cannot write what it can only read."""
    file = tmp_path / "files" / "shown"
    file.parent.mkdir()
    file.write_text("shown")
    async with bus_of(sandbox={"read": [str(file.parent)]}) as bus:
        who = json.loads((await attack(bus, "identity")).removeprefix("got "))
        assert await attack(bus, "read", file) == "got shown"
        assert "Read-only file system" in await attack(bus, "write", file)
    assert who == {"uid": 1000, "capabilities": "0000000000000000", "home": str(home)}


async def test_two_servers_do_not_see_each_other(home: Path, tmp_path: Path) -> None:
    """Neither its processes nor its files in /tmp."""
    config = {"servers": {name: probe(required=True, env={"OF": name}) for name in ("one", "two")}}
    async with Toolbus(config) as bus:
        await attack(bus, "write", "/tmp/note", "one")
        assert (await attack(bus, "read", "/tmp/note", "two")).startswith("failed FileNotFoundError")
        processes = json.loads((await attack(bus, "listing", "/proc", "two")).removeprefix("got "))
        assert len([name for name in processes if name.isdigit()]) == 2  # bubblewrap, and itself


async def test_a_server_that_looks_for_what_we_left_open(home: Path) -> None:
    """It has its three streams, and nothing else of ours."""
    async with bus_of() as bus:
        found = json.loads((await attack(bus, "listing", "/proc/self/fd")).removeprefix("got "))
    assert found == ["0", "1", "2", "3"]  # the last one is the listing itself


async def test_a_secret_in_the_command_line_of_the_sandbox(home: Path) -> None:
    """There is none: every user of the machine can read it."""
    async with bus_of(env={"TOKEN": SECRET}, redact=False) as bus:
        assert await attack(bus, "environment", "TOKEN") == f"got {SECRET}"
        lines = command_lines()
    assert any(os.fsencode(PROBE) in line and b"bwrap" in line for line in lines)
    assert not any(SECRET.encode() in line for line in lines)


async def test_a_link_that_a_server_plants_for_its_next_start(home: Path, tmp_path: Path) -> None:
    """It is not followed: the server is refused."""
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    sandbox = {"write": [str(work)], "read": [str(work / "sub")]}
    async with bus_of(sandbox=sandbox) as bus:
        assert await attack(bus, "listing", work / "sub") == "got []"
    (work / "sub").rmdir()
    (work / "sub").symlink_to(home / ".ssh")
    async with Toolbus({"servers": {"probe": probe(sandbox=sandbox)}}) as bus:
        assert bus.servers["probe"].state == "failed"
        assert "leads out of" in (bus.servers["probe"].error or "")


async def test_an_interpreter_that_a_server_plants_for_its_next_start(home: Path, tmp_path: Path) -> None:
    """Its target is not shown: a server could name any file."""
    work = tmp_path / "work"
    (work / "bin").mkdir(parents=True)
    (work / "bin" / "python3").symlink_to(home / ".ssh" / "id")
    (home / ".ssh" / "id").chmod(0o755)
    (work / "pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\n")
    entry: dict[str, Any] = {
        "command": str(work / "bin" / "python3"),
        "args": [],
        "sandbox": {"write": [str(work)]},
    }
    async with Toolbus({"servers": {"a": entry}}) as bus:
        assert "No such file or directory" in (bus.servers["a"].error or "")
