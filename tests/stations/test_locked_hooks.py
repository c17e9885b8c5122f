"""The lock covers the hooks of a config: any difference holds them all, and the bus refuses calls."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import Done, toolbus, write_config
from tests.lock.place import OFFERING, Place
from tests.stations.places import TRACE, guard, modules
from toolbus import CallDenied, Toolbus

pytestmark = pytest.mark.anyio
GATE = {"use": "gate:Guard", "refused": ["nothing"]}


class Project:
    """A trusted project with a server and a lockfile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.place = Place(folder)

    def write(self, *hooks: Any, **settings: Any) -> None:
        write_config(self.folder, {"files": self.place.server()}, hooks=list(hooks), **settings)

    def run(self, *words: str) -> Done:
        return toolbus(*words, folder=self.folder)

    def locked(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "toolbus.lock").read_text())["hooks"]["stations"]

    async def refusal(self) -> str | None:
        """The reason why a call is refused."""
        async with Toolbus(self.folder / "toolbus.yaml") as bus:
            try:
                await bus.call("files/read", {"path": "x"})
            except CallDenied as error:
                return error.reason
        return None


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / ".state"))
    found = Project(tmp_path / "home" / "work")
    modules(found.folder, gate=guard(), trace=TRACE)
    found.write(GATE)
    assert found.run("lock", "--yes").returncode == 0
    return found


async def test_what_is_locked_is_the_code_and_the_options(project: Project) -> None:
    [entry] = project.locked()
    assert (entry["use"], entry["options"]) == ("gate:Guard", {"refused": ["nothing"]})
    assert list(entry["files"]) == ["gate.py"]
    assert await project.refusal() is None


@pytest.mark.parametrize(
    ("hooks", "reason"),
    [
        ([{**GATE, "refused": []}], "gate:Guard: option refused changed"),
        ([], "gate:Guard was removed"),
        ([GATE, "trace:hook"], "trace:hook is new"),
        (["trace:hook"], "gate:Guard was removed; trace:hook is new"),
    ],
)
async def test_any_change_refuses_every_call_and_imports_nothing(
    hooks: list[Any], reason: str, project: Project
) -> None:
    project.write(*hooks)
    refused = f"the hooks differ from toolbus.lock ({reason}); review them: toolbus lock"
    assert await project.refusal() == refused
    assert not (project.folder / "imported").exists()
    assert project.run("lock", "--check").returncode == 1
    assert project.run("lock", "--yes").returncode == 0
    assert await project.refusal() is None


async def test_a_changed_file_refuses_every_call_until_it_is_approved(project: Project) -> None:
    modules(project.folder, gate=guard("swapped"))
    assert "gate:Guard: file gate.py changed" in str(await project.refusal())
    project.write(GATE)  # the user trusts it again
    shown = project.run("lock", "diff").stdout
    assert "toolbus: hook gate:Guard  changed" in shown
    assert "file gate.py" in shown
    project.write({**GATE, "refused": ["read"]})
    project.run("lock", "--yes")
    assert await project.refusal() == "swapped"


async def test_the_modes_of_the_lock_apply(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    project.write("trace:hook", lock="warn")
    assert await project.refusal() is None
    assert "the hooks differ from toolbus.lock" in caplog.text
    project.write("trace:hook", lock="off")
    assert await project.refusal() is None


async def test_a_running_bus_goes_on_once_they_are_approved(project: Project) -> None:
    project.write({**GATE, "refused": ["never"]})
    file = project.folder / "toolbus.yaml"
    async with Toolbus(file) as bus:
        with pytest.raises(CallDenied, match="the hooks differ"):
            await bus.call("files/read", {"path": "x"})
        assert project.run("lock", "--yes").returncode == 0
        await bus.reload(file)
        await bus.call("files/read", {"path": "x"})
        project.write()
        await bus.reload(file)
        with pytest.raises(CallDenied, match="gate:Guard was removed"):
            await bus.call("files/read", {"path": "x"})


async def test_approving_a_server_leaves_the_hooks_as_they_were(project: Project) -> None:
    project.write("trace:hook")
    assert project.run("lock", "approve", "files").returncode == 0
    assert [entry["use"] for entry in project.locked()] == ["gate:Guard"]
    assert project.run("lock", "--yes", "files").returncode == 0
    assert [entry["use"] for entry in project.locked()] == ["gate:Guard"]


async def test_a_lockfile_edited_by_hand_is_refused(project: Project) -> None:
    file = project.folder / "toolbus.lock"
    file.write_text(file.read_text().replace("gate:Guard", "trace:hook"))
    run = project.run("call", "files_read", "path=x")
    assert run.returncode == 2
    assert "its hooks do not match their digest" in run.stderr


async def test_machines_with_other_servers_agree_about_the_hooks(project: Project) -> None:
    """The entries contain no path of this machine."""
    assert str(project.folder) not in json.dumps(project.locked())
    assert warm.python() not in json.dumps(project.locked())
    assert OFFERING not in json.dumps(project.locked())


async def test_check_and_the_list_of_stations_say_that_they_are_on_hold(project: Project) -> None:
    modules(project.folder, gate=guard("swapped"))
    project.write(GATE)
    checked, listed = project.run("check"), project.run("config", "--stations")
    for run in (checked, listed):
        assert run.returncode == 1
        assert "the hooks differ from toolbus.lock (gate:Guard: file gate.py changed)" in run.stdout
    assert json.loads(project.run("check", "--json").stdout)["hooks"]["mode"] == "block"
