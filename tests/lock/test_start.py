"""With a lockfile, a bus has its catalog before any server runs, and starts at once."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import environment, toolbus
from tests.inside.bus import tenant_of
from tests.inside.core import ToolSpec
from tests.lock.place import OFFER, Place, names
from tests.lock.test_mutations import MUTATIONS, mutated
from tests.patience import PATIENCE, until
from tests.policy.people import Person
from tests.processes import children
from toolbus import Toolbus
from toolbus.adapters.openai import tools as openai_tools
from toolbus.errors import (
    BusClosed,
    CallDenied,
    ConnectFailed,
    LockError,
    ServerDown,
    ToolbusError,
    ToolNotFound,
)
from toolbus.events import CatalogChanged, Event, StateChanged, ToolHeld
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio
ALL = ["read", "stat", "write"]
SILENT = {**OFFER, "silent": True}
ARGUMENTS = {"path": "x", "mode": "text"}
CHANGED = mutated(MUTATIONS["description"])


def silent(folder: Path, **entry: Any) -> Place:
    """A place whose server never answers."""
    place = Place(folder, entry={"timeouts": {"connect": 50}, **entry})
    place.approve()
    place.offer(SILENT)
    return place


def test_the_catalog_is_there_before_the_bus_is_started(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    bus = Toolbus(place.config)
    assert (names(bus), bus.held, bus.running, place.starts) == (ALL, {}, False, 0)
    assert bus.catalog["files_read"].input_schema["required"] == ["path", "mode"]
    assert bus.instructions == {"files": "Read before you write."}
    assert [prompt.name for prompt in bus.prompts()] == ["greet"]
    assert [template.uri_template for template in bus.templates()] == ["note://{name}"]
    assert [tool["function"]["name"] for tool in openai_tools(bus)] == [f"files_{name}" for name in ALL]
    assert [tool.name for tool in bus.tools()] == [f"files_{name}" for name in ALL]
    assert {alias: status.state for alias, status in bus.servers.items()} == {"files": "idle"}


async def test_a_start_does_not_wait_for_servers(tmp_path: Path) -> None:
    place = silent(tmp_path)
    async with Toolbus(place.config) as bus:
        assert (names(bus), bus.servers["files"].state) == (ALL, "idle")
        status = await bus.wait_ready(timeout=0.01)
        assert status["files"].state == "connecting"
        assert names(bus) == ALL


async def test_a_start_waits_for_required_servers(tmp_path: Path) -> None:
    other = silent(tmp_path / "other")
    place = Place(tmp_path / "work", entry={"required": True}, more={"slow": other.server()})
    place.approve()
    async with Toolbus(place.config) as bus:
        assert bus.servers["files"].state == "ready"
        assert bus.servers["slow"].state == "connecting"


async def test_a_required_server_that_fails_fails_the_start(tmp_path: Path) -> None:
    place = Place(tmp_path, entry={"required": True, "command": "no-such-program"})
    place.approve()
    bus = Toolbus(place.config)
    with pytest.raises(ConnectFailed, match="no-such-program"):
        await bus.start()
    with pytest.raises(BusClosed):
        await bus.call("files_read")


async def test_a_required_server_whose_launch_is_held_fails_the_start(tmp_path: Path) -> None:
    place = Place(tmp_path, entry={"required": True})
    place.approve()
    place.configure(env={"NODE_OPTIONS": "--require ./evil.js"})
    with pytest.raises(ToolbusError, match="its launch line changed"):
        await Toolbus(place.config).start()
    assert place.starts == 0


async def test_servers_are_started_in_the_background(tmp_path: Path) -> None:
    place, ready = Place(tmp_path), asyncio.Event()
    place.approve()

    def on_event(event: Event) -> None:
        if isinstance(event, StateChanged) and event.state == "ready":
            ready.set()

    async with asyncio.timeout(PATIENCE), Toolbus(place.config, on_event=on_event) as bus:
        await ready.wait()
        assert (bus.servers["files"].state, place.starts) == ("ready", 1)


async def test_a_catalog_that_is_as_it_was_locked_does_not_change(tmp_path: Path) -> None:
    place, changes = Place(tmp_path), list[CatalogChanged]()
    place.approve()
    bus = Toolbus(place.config)
    bus.on_event(lambda event: changes.append(event) if isinstance(event, CatalogChanged) else None)
    async with bus:
        before = bus.catalog
        await bus.wait_ready()
        assert (changes, [*bus.catalog]) == ([], [*before])


async def test_a_call_right_after_the_start_waits_for_its_server(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    async with Toolbus(place.config) as bus:
        assert (await bus.call("files_read", ARGUMENTS)).text == "ran read"
        assert (await bus.tools()[0].execute(**ARGUMENTS)).text == "ran read"
        assert await bus.health() != {}


async def test_a_call_fails_if_its_server_cannot_be_started(tmp_path: Path) -> None:
    place = Place(tmp_path, entry={"command": "no-such-program"})
    place.approve()
    async with Toolbus(place.config) as bus:
        assert names(bus) == ALL
        with pytest.raises(ServerDown, match="no-such-program"):
            await bus.call("files_read", ARGUMENTS)


async def test_a_lazy_server_starts_with_its_first_call(tmp_path: Path) -> None:
    place = Place(tmp_path, entry={"lazy": True})
    place.approve()
    async with Toolbus(place.config) as bus:
        await bus.wait_ready()
        assert (names(bus), place.starts) == (ALL, 0)
        with pytest.raises(ToolNotFound):  # what is not in the lock is not there
            await bus.call("files_other")
        assert place.starts == 0
        assert (await bus.call("files_stat")).text == "ran stat"
        assert place.starts == 1


async def test_a_name_that_is_nearly_right_is_suggested_from_the_lock(tmp_path: Path) -> None:
    place = silent(tmp_path)
    async with Toolbus(place.config) as bus:
        with pytest.raises(ToolNotFound, match="did you mean 'files_read'") as caught:
            await bus.call("files_raed")
        assert caught.value.close_matches[0] == "files_read"
        assert "not connected" not in str(caught.value)


@pytest.mark.parametrize("when", ["at once", "while connecting", "when ready"])
async def test_a_stop_right_after_the_start_leaves_nothing(when: str, tmp_path: Path) -> None:
    place = Place(tmp_path) if when == "when ready" else silent(tmp_path)
    place.approve()
    before, tasks = children(), asyncio.all_tasks()
    bus = Toolbus(place.config)
    await bus.start()
    if when != "at once":
        await bus.wait_ready(timeout=PATIENCE if when == "when ready" else 0.01)
    await bus.stop()
    await until(lambda: asyncio.all_tasks() == tasks and children() == before)
    assert place.starts == (0 if when == "at once" else place.starts)
    with pytest.raises(BusClosed):
        await bus.call("files_read")


async def test_a_call_that_waits_for_its_server_ends_with_the_bus(tmp_path: Path) -> None:
    place = silent(tmp_path)
    async with Toolbus(place.config) as bus:
        waiting = asyncio.create_task(bus.call("files_read", ARGUMENTS))
        await until(lambda: place.starts > 0)
    with pytest.raises(ToolbusError):
        await waiting


async def test_a_call_that_waits_for_the_start_ends_with_the_bus(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    bus = Toolbus(place.config)
    await bus.start()
    waiting = asyncio.create_task(bus.call("files_read", ARGUMENTS))
    await asyncio.sleep(0)
    await bus.stop()
    with pytest.raises(BusClosed):
        await waiting
    assert place.calls == []


async def test_a_bus_may_be_started_in_another_task_and_thread(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    async with Toolbus(place.config) as bus:
        texts: list[str] = []

        def call() -> None:
            texts.append(bus.tools()[0].execute_sync(**ARGUMENTS).text)

        thread = threading.Thread(target=call)
        thread.start()
        await asyncio.to_thread(thread.join)
        assert texts == ["ran read"]


def test_the_synchronous_bus_starts_from_the_lock(tmp_path: Path) -> None:
    place = silent(tmp_path)
    with SyncToolbus(place.config) as bus:
        assert [tool.name for tool in bus.tools()] == [f"files_{name}" for name in ALL]
    place.offer(CHANGED)
    with SyncToolbus(place.config) as bus:
        bus.wait_ready()
        assert list(bus.held) == ["files/read"]
        with pytest.raises(CallDenied):
            bus.call("files_read", ARGUMENTS)
        assert bus.call("files_stat").text == "ran stat"


async def test_a_reload_reads_the_lockfile_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    place.offer(CHANGED)
    async with Toolbus(place.config) as bus:
        await until(lambda: "files/read" in bus.held)
        place.approve(CHANGED)
        await bus.reload(place.config)
        assert (bus.held, names(bus)) == ({}, ALL)
        assert (await bus.call("files_read", ARGUMENTS)).text == "ran read"
        assert place.starts == 1  # the server is still the same


async def test_a_reload_with_a_new_lockfile_begins_to_hold(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.offer(CHANGED)
    async with Toolbus(place.config) as bus:
        assert (names(bus), bus.lock) == (ALL, None)
        place.approve()
        await bus.reload(place.config)
        assert (names(bus), list(bus.held)) == (["stat", "write"], ["files/read"])
        with pytest.raises(CallDenied):
            await bus.call("files_read", ARGUMENTS)
    assert place.calls == []


async def test_a_reload_with_a_broken_lockfile_changes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    async with Toolbus(place.config) as bus:
        await bus.wait_ready()
        place.lock.write_text("{")
        with pytest.raises(LockError):
            await bus.reload(place.config)
        assert names(bus) == ALL
        assert (await bus.call("files_read", ARGUMENTS)).text == "ran read"


async def test_a_reload_that_fails_keeps_the_old_lock(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    place.offer(CHANGED)
    async with Toolbus(place.config) as bus:
        await until(lambda: "files/read" in bus.held)
        place.approve(CHANGED)
        place.more["bad"] = {"command": "no-such-program", "required": True}
        place.configure()
        place.approve(CHANGED)
        with pytest.raises(ToolbusError, match="no-such-program"):
            await bus.reload(place.config)
        assert (list(bus.held), names(bus)) == (["files/read"], ["stat", "write"])


async def test_a_launch_line_that_changes_with_a_reload_ends_its_server(tmp_path: Path) -> None:
    place, held = Place(tmp_path), list[ToolHeld]()
    place.approve()
    async with Toolbus(place.config) as bus:
        bus.on_event(lambda event: held.append(event) if isinstance(event, ToolHeld) else None)
        await bus.wait_ready()
        place.configure(env={"X": "1"})
        await bus.reload(place.config)
        assert (names(bus), list(bus.held), bus.servers["files"].state) == ([], ["files: launch"], "failed")
        assert [one.kind for one in held] == ["launch"]
    assert place.starts == 1


async def test_servers_that_are_added_are_held_unless_their_lock_is_off(tmp_path: Path) -> None:
    place, extra = Place(tmp_path / "work"), Place(tmp_path / "extra")
    place.approve()
    async with Toolbus(place.config) as bus:
        await bus.add_server("extra", extra.server())
        assert (list(bus.held), bus.servers["extra"].state, extra.starts) == (["extra: launch"], "failed", 0)
        await bus.remove_server("extra")
        assert (bus.held, names(bus)) == ({}, ALL)
        await bus.add_server("extra", extra.server(lock="off"))
        assert (bus.held, names(bus)) == ({}, ALL + ALL)
        assert (await bus.call("extra_stat")).text == "ran stat"
        assert (await bus.call("files_stat")).text == "ran stat"
        await bus.remove_server("files")
        assert (bus.held, names(bus)) == ({}, ALL)


PRINT = """
import sys
from toolbus import Toolbus
bus = Toolbus("toolbus.json")
print(*bus.catalog.names)
print(*sorted(name for name in sys.modules if name.partition(".")[0] in ("mcp", "mcp_types", "httpx2")))
"""


def test_a_program_that_prints_the_catalog_does_not_import_the_sdk(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    done = subprocess.run(
        [sys.executable, "-c", PRINT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stdout.splitlines() == ["files_read files_stat files_write", ""]
    assert place.starts == 0


TOOLS = """
import sys
from toolbus.cli.app import exit_code
assert exit_code(["--config", "toolbus.json", "tools"]) == 0
print(*sorted(name for name in sys.modules if name.partition(".")[0] in ("mcp", "mcp_types", "httpx2")))
"""


def test_toolbus_tools_does_not_import_the_sdk(tmp_path: Path) -> None:
    place = Place(tmp_path / "work")
    place.approve()
    done = subprocess.run(
        [sys.executable, "-c", TOOLS],
        cwd=place.folder,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stdout.splitlines()[-1] == ""
    assert done.stdout.startswith("files  locked  3 tools\n")
    assert (done.stderr, place.starts) == (
        "from toolbus.lock; to contact the servers first: toolbus tools --wait 10s --config toolbus.json\n",
        0,
    )


def test_completion_and_suggestions_come_from_the_lock(tmp_path: Path) -> None:
    place = silent(tmp_path / "work")
    place.approve()

    def offered(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()))}
        return toolbus(
            folder=place.folder, env={"_TOOLBUS_COMPLETE": "complete_bash", **words}
        ).stdout.split()

    config = "toolbus --config toolbus.json"
    assert offered(f"{config} call ") == [f"files_{name}" for name in ALL]
    assert offered(f"{config} lock approve files/r") == ["files/read"]
    assert offered(f"{config} call files_read ") == ["path=", "mode=", "lines="]
    assert offered(f"{config} prompt ") == ["files", "files/greet"]
    done = toolbus("--config", "toolbus.json", "call", "files_raed", folder=place.folder)
    assert "did you mean 'files_read'" in done.stderr
    assert "(not in toolbus.lock; 'toolbus lock diff --config toolbus.json' shows what is new)" in done.stderr
    assert (done.returncode, place.starts) == (1, 0)


def test_the_cache_of_listings_gives_way_to_the_lock(tmp_path: Path) -> None:
    place = Place(tmp_path / "work")
    toolbus("--config", "toolbus.json", "tools", folder=place.folder)
    [cache] = (tmp_path / ".state").rglob("listings/*.json")
    before = cache.read_bytes()
    assert json.loads(before)["files"]["tools"].keys() == {f"files_{name}" for name in ALL}
    place.approve({**OFFER, "tools": OFFER["tools"][:1]})
    done = toolbus("--config", "toolbus.json", "call", "files_stta", folder=place.folder)
    assert "files_stat" not in done.stderr
    assert cache.read_bytes() == before


async def test_a_lock_a_policy_and_an_answer_outlast_a_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They refer to the origin: with names as before and as now, the same tools are approved and allowed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    own = [
        {"name": name, "inputSchema": {"type": "object"}} for name in ("files-read", "filesStat", "files.rm")
    ]
    rules = [{"tools": "files/files.rm", "do": "deny"}, {"tools": "files/files-read", "do": "ask"}]
    person = Person("always")
    found: dict[str, list[str]] = {}
    for naming in ("{server}_{tool}", "auto"):
        place = Place(tmp_path, settings={"policy": rules, "naming": naming})
        place.offer({"tools": own})
        if not place.lock.exists():
            place.approve({"tools": own})
        async with Toolbus(place.config, interactions=person.interactions) as bus:
            await bus.wait_ready()
            found[naming] = [spec.name for spec in bus.catalog]
            for spec in bus.catalog:
                assert (await bus.call(spec.name, {})).text == f"ran {spec.origin.tool}"
            with pytest.raises(CallDenied, match=r"policy\[0\] denies it"):
                await bus.call("files/files.rm", {})
            assert bus.held == {}
    assert found == {
        "{server}_{tool}": ["files_files-read", "files_filesStat"],
        "auto": ["files-read", "filesStat"],
    }
    assert len(person.asked) == 1


def test_a_catalog_that_takes_long_to_build_can_be_assumed_without_a_loop(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()

    def slow(tools: list[ToolSpec]) -> list[ToolSpec]:
        time.sleep(0.03)
        return tools

    bus = Toolbus(place.config, shapers=[slow])
    tenant_of(bus).assume({})
    assert names(bus) == ALL
