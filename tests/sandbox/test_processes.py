"""A sandboxed server is a process like any other: it heals, ends, fails and is killed as one without."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.inside.connect import home_folder
from tests.patience import until, wait_until
from tests.processes import alive, children
from tests.sandbox.place import PROBE, attack, bus_of, command_lines, probe, require_sandbox
from toolbus import CallTimeout, ConnectionLost, Toolbus, ToolbusError
from toolbus.errors import ConnectFailed

require_sandbox()

pytestmark = pytest.mark.anyio

CLIENT = Path(__file__).parents[1] / "hostile" / "client.py"


async def failure_of(entry: dict[str, Any]) -> ConnectFailed:
    with pytest.raises(ToolbusError) as caught:
        async with Toolbus({"servers": {"probe": {**entry, "required": True}}}):
            pass
    error = caught.value
    while not isinstance(error, ConnectFailed):
        assert error.__cause__ is not None, repr(error)
        assert isinstance(error.__cause__, ToolbusError)
        error = error.__cause__
    return error


async def test_a_server_that_kills_itself_is_back_for_the_next_call() -> None:
    async with bus_of() as bus:
        with pytest.raises(ToolbusError):
            await bus.call("probe/kill", {"what": ""})
        assert (await attack(bus, "identity")).startswith("got")
        assert bus.servers["probe"].restarts == 1


async def test_a_server_that_is_killed_from_outside_is_back_for_the_next_call() -> None:
    before = children()
    async with bus_of() as bus:
        for pid in children() - before:
            with suppress(ProcessLookupError):  # they end with the first one
                os.kill(pid, signal.SIGKILL)
        with suppress(ConnectionLost):  # it was sent before the end was noticed
            await attack(bus, "identity")
        assert (await attack(bus, "identity")).startswith("got")


async def test_its_last_words_and_its_exit_code_are_in_the_error() -> None:
    error = await failure_of(probe("complain", "7"))
    assert (error.exit_code, error.stderr) == (7, ("Error: cannot open the database",))
    assert "exit code 7" in error.cause


async def test_a_signal_that_ended_it_is_in_the_error() -> None:
    entry = {"command": "/bin/sh", "args": ["-c", "kill -SEGV $$"], "sandbox": True}
    assert (await failure_of(entry)).cause == "the process ended with signal 11"


async def test_a_command_that_is_not_there_is_reported_as_without_a_sandbox() -> None:
    error = await failure_of({"command": "toolbus-no-such-program", "sandbox": True})
    assert (error.phase, error.cause) == ("spawn", "command 'toolbus-no-such-program' not found")


async def test_a_call_that_times_out_leaves_the_server_usable() -> None:
    async with bus_of() as bus:
        with pytest.raises(CallTimeout):
            await bus.call("probe/hang", timeout=0.2)
        assert (await attack(bus, "identity")).startswith("got")


async def test_a_server_that_has_to_be_asked_to_end_can_end_by_itself(tmp_path: Path) -> None:
    """The processes of bubblewrap also get the request, and would take the server with them."""
    async with bus_of(
        args=[str(PROBE), "farewell", str(tmp_path / "note")], sandbox={"write": [str(tmp_path)]}
    ):
        pass
    assert (tmp_path / "note").read_text() == "goodbye"


async def test_five_servers_start_together() -> None:
    before = children()
    names = [f"s{number}" for number in range(5)]
    async with Toolbus({"servers": {name: probe() for name in names}}) as bus:
        assert {status.state for status in bus.servers.values()} == {"ready"}
        answers = await asyncio.gather(*(attack(bus, "identity", server=name) for name in names))
        assert all(text.startswith("got") for text in answers)
        started = children() - before
    assert len(started) == 3 * len(names)
    await until(lambda: not any(map(alive, started)))


@pytest.mark.parametrize("what", ["start", "frozen"])
def test_nothing_is_left_of_a_program_that_is_killed(tmp_path: Path, what: str) -> None:
    """Below the guard, and without one."""
    out = tmp_path / "out"
    out.mkdir()
    entry = probe("serve", str(tmp_path), sandbox={"write": [str(out)]})
    command = [sys.executable, str(CLIENT), what, json.dumps({"servers": {"probe": entry}})]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        assert _serving(tmp_path)
        client.kill()
    wait_until(lambda: not _serving(tmp_path))


def _serving(folder: Path) -> list[bytes]:
    return [line for line in command_lines() if os.fsencode(folder) in line and b"client.py" not in line]


WITHOUT_GUARD = """
import asyncio, json, sys
from toolbus import Toolbus

async def main():
    sys.frozen = True
    async with Toolbus(json.loads(sys.argv[1])) as bus:
        print((await bus.call("probe/attack", {"what": "key", "target": "x"})).text)

asyncio.run(main())
"""


def test_calls_of_the_system_are_filtered_where_there_is_no_guard() -> None:
    command = [sys.executable, "-c", WITHOUT_GUARD, json.dumps({"servers": {"probe": probe()}})]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "failed PermissionError: [Errno 1] Operation not permitted\n", done


async def test_the_working_directory_is_the_same_if_it_is_shown(tmp_path: Path) -> None:
    async with bus_of(cwd=str(tmp_path), sandbox={"read": [str(tmp_path)]}) as bus:
        assert await attack(bus, "place") == f"got {tmp_path}"
    async with bus_of(cwd=str(tmp_path)) as bus:
        assert await attack(bus, "place") == f"got {home_folder()}"


async def test_a_script_beside_its_data_is_found_without_the_data(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(PROBE.read_text())
    (tmp_path / "data").write_text("private")
    async with bus_of(args=["server.py", "serve"], cwd=str(tmp_path)) as bus:
        assert await attack(bus, "listing", tmp_path) == 'got ["server.py"]'


async def test_paths_are_relative_to_the_config_and_may_hold_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AREA", "notes")
    (tmp_path / "notes").mkdir()
    (tmp_path / "out").mkdir()
    config = tmp_path / "toolbus.yaml"
    entry = probe(required=True, sandbox={"read": ["${AREA}"], "write": ["out"], "env": ["AREA"]})
    config.write_text(json.dumps({"servers": {"probe": entry}}))
    async with Toolbus(config) as bus:
        assert await attack(bus, "listing", tmp_path) == 'got ["notes", "out"]'
        assert (await attack(bus, "write", tmp_path / "notes" / "x")).startswith("failed OSError: [Errno 30]")
        assert await attack(bus, "write", tmp_path / "out" / "x") == "got written"
        assert await attack(bus, "environment", "AREA") == "got notes"
    assert (tmp_path / "out" / "x").exists()


async def test_a_path_through_a_link_is_the_same_inside(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x").write_text("here")
    (tmp_path / "link").symlink_to("real")
    async with bus_of(sandbox={"read": [str(tmp_path / "link")]}) as bus:
        assert await attack(bus, "read", tmp_path / "link" / "x") == "got here"


async def test_a_virtual_environment_runs_inside(tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": ["-c", "import yaml, sys; sys.exit('imported it')"]}
    error = await failure_of({**entry, "sandbox": True})
    assert error.stderr == ("imported it",)
