"""Servers that use the kernel to get more out of their sandbox than their config gives them."""

import json
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.place import attack, bus_of, outside, require_sandbox
from toolbus import Toolbus

require_sandbox()

pytestmark = pytest.mark.anyio

ENDING = "process.exit(7)"


async def test_a_server_that_makes_a_file_with_the_setuid_bit(tmp_path: Path) -> None:
    """No system call makes a file that runs with the rights of its owner, who is the user of toolbus."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    ways = json.loads(outside("set_id", ours).removeprefix("got "))
    assert {"chmod", "fchmodat2", "openat", "openat2", "unnamed", "mknod"} <= {*ways, "fchmodat2"}
    async with bus_of(sandbox={"write": [str(theirs)]}) as bus:
        assert await attack(bus, "set_id", theirs) == "got []"
        assert await attack(bus, "write", theirs / "plain") == "got written"
    marked = [file.name for file in theirs.iterdir() if file.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    assert marked == []


@pytest.mark.parametrize("net", [False, True])
async def test_a_server_that_opens_a_socket_to_the_kernel(net: bool) -> None:
    """It gets none, with and without the network."""
    assert outside("netlink", "0") == "got made"
    async with bus_of(sandbox={"net": net}) as bus:
        for protocol in ("0", "4", "15"):
            assert "Errno 97" in await attack(bus, "netlink", protocol)


def started(command: str, *args: str) -> Toolbus:
    entry: dict[str, Any] = {"command": command, "args": list(args), "sandbox": {"net": True}}
    return Toolbus({"servers": {"program": entry}})


async def test_a_program_that_needs_names_and_connections() -> None:
    """The filter takes nothing from programs that look up hosts and connect to them."""
    python = "import socket, sys; sys.exit(7 * bool(socket.getaddrinfo('localhost', 80)))"
    programs = [(sys.executable, "-c", python)]
    if node := shutil.which("node"):
        refused = (
            f"require('net').connect(1, '127.0.0.1').on('error', e => e.code == 'ECONNREFUSED' && {ENDING})"
        )
        programs.append((node, "-e", f"require('dns').lookup('localhost', e => e || {refused})"))
    for command, *args in programs:
        async with started(command, *args) as bus:
            assert "ended with exit code 7" in (bus.servers["program"].error or "")
