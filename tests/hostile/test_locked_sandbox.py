"""A change of the config that gives a locked server more than the sandbox that was approved."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import toolbus
from tests.inside.lock import read_lock, write_lock
from tests.lock.place import Place
from tests.sandbox.place import PYTHON, sandbox_problem
from toolbus import Toolbus

pytestmark = pytest.mark.anyio

APPROVED = {"read": ["notes"]}
HELD = "files: launch: its launch line changed"


@pytest.mark.parametrize(
    "sandbox",
    [
        False,
        {"read": ["notes", "."]},
        {"read": ["notes"], "write": ["notes"]},
        {"read": ["notes"], "net": True},
        {"read": ["notes"], "env": ["AWS_SECRET_ACCESS_KEY"]},
        {"read": ["${HOME}/.ssh"]},
    ],
    ids=str,
)
async def test_a_config_that_opens_the_sandbox_of_a_locked_server(tmp_path: Path, sandbox: Any) -> None:
    """The server is not started before somebody has seen the difference."""
    place = Place(tmp_path / "place", entry={"sandbox": APPROVED})
    place.approve()
    place.configure(sandbox=sandbox)
    async with Toolbus(place.config) as bus:
        assert [str(one).partition(" since")[0] for one in bus.held.values()] == [HELD]
    assert place.starts == 0


async def test_a_setting_for_all_servers_that_takes_their_sandbox(tmp_path: Path) -> None:
    """It is treated as a change of each of them."""
    place = Place(tmp_path / "place", settings={"sandbox": True})
    place.approve()
    place.settings = {"sandbox": False}
    place.configure()
    async with Toolbus(place.config) as bus:
        assert [str(one).partition(" since")[0] for one in bus.held.values()] == [HELD]
    assert place.starts == 0


def without_sandbox(place: Place) -> None:
    """Write the lockfile as an older version did, which did not record sandboxes."""
    lock = read_lock(place.lock)
    assert lock is not None
    server = lock.servers["files"]
    launch = {key: value for key, value in server.launch.items() if key != "sandbox"}
    write_lock(replace(lock, servers={"files": replace(server, launch=launch)}))


def test_an_older_lockfile_that_does_not_record_the_sandbox(tmp_path: Path) -> None:
    """Nothing is held; the next `toolbus lock` records it, and then a change is."""
    if problem := sandbox_problem():
        pytest.skip(problem)
    folder = tmp_path / "place"
    place = Place(folder, entry={"command": PYTHON, "sandbox": {"read": ["."], "write": ["."]}})
    place.approve()
    without_sandbox(place)
    config = ("--config", "toolbus.json")
    checked = toolbus("lock", "--check", *config, folder=folder)
    assert (checked.returncode, checked.stdout.splitlines()[-1]) == (
        0,
        '  launch.sandbox: new: {"read": ["."], "write": ["."]}',
    )
    assert "files_read" in toolbus("tools", *config, folder=folder).stdout
    assert toolbus("lock", "--yes", *config, folder=folder).returncode == 0
    place.configure(sandbox=False)
    assert toolbus("lock", "--check", *config, folder=folder).returncode == 1
    assert "its launch line changed" in toolbus("tools", *config, folder=folder).stdout
