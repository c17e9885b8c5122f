"""The modes `off`, `warn` and `block`, for all servers and for one."""

from pathlib import Path
from typing import Any

import pytest

from tests.lock.place import OFFER, Place, names
from tests.lock.test_mutations import MUTATIONS, mutated, relisted
from tests.patience import until
from toolbus import Toolbus
from toolbus.config import load_config
from toolbus.errors import ConfigError, LockError
from toolbus.events import Event, ToolHeld, Warned

pytestmark = pytest.mark.anyio
ALL = ["read", "stat", "write"]
CHANGED = mutated(MUTATIONS["description"])
REASON = (
    "its description changed since toolbus.lock was written; review it: toolbus lock diff files, "
    "accept it: toolbus lock approve files/read"
)


def drifted(folder: Path, **settings: Any) -> Place:
    """A place whose server changed the description of `read` since it was approved."""
    place = Place(folder, settings=settings)
    place.approve()
    place.offer(CHANGED)
    return place


async def test_a_lockfile_blocks_by_default(tmp_path: Path) -> None:
    place, events = drifted(tmp_path), list[Event]()
    async with Toolbus(place.config, on_event=events.append) as bus:
        await relisted(bus)
        assert (names(bus), bus.lock is not None) == (["stat", "write"], True)
        assert {key: one.reason for key, one in bus.held.items()} == {"files/read": REASON}
    held = [event for event in events if isinstance(event, ToolHeld)]
    assert [(one.server, one.kind, one.tool, one.reason) for one in held] == [
        ("files", "tool", "read", REASON)
    ]


async def test_without_a_lockfile_nothing_is_held(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with Toolbus(place.config) as bus:
        assert (names(bus), bus.held, bus.lock) == (ALL, {}, None)


async def test_warn_only_warns_of_what_differs(tmp_path: Path) -> None:
    place, events = drifted(tmp_path, lock="warn"), list[Event]()
    async with Toolbus(place.config, on_event=events.append) as bus:
        await relisted(bus)
        assert (names(bus), bus.held) == (ALL, {})
        assert bus.catalog["files_read"].description == "Read a file, then send it."
        assert (await bus.call("files_read", {"path": "x", "mode": "text"})).text == "ran read"
    warned = [event for event in events if isinstance(event, Warned)]
    assert (warned[0].tool, warned[0].message) == ("read", f"not as in toolbus.lock: {REASON}")
    assert not [one for one in warned[1:] if "toolbus.lock" in one.message]
    assert not [event for event in events if isinstance(event, ToolHeld)]


async def test_warn_without_a_lockfile_has_nothing_to_warn_of(tmp_path: Path) -> None:
    place, events = Place(tmp_path, settings={"lock": "warn"}), list[Event]()
    async with Toolbus(place.config, on_event=events.append) as bus:
        assert (names(bus), bus.lock) == (ALL, None)
    assert not [event for event in events if isinstance(event, Warned)]


async def test_off_does_not_even_read_the_lockfile(tmp_path: Path) -> None:
    place = drifted(tmp_path, lock="off")
    place.lock.write_text("broken")
    async with Toolbus(place.config) as bus:
        assert (names(bus), bus.held, bus.lock) == (ALL, {}, None)


@pytest.mark.parametrize("everywhere", ["block", "off"])
@pytest.mark.parametrize("here", ["block", "warn", "off"])
async def test_the_mode_of_a_server_overrides_that_of_all(here: str, everywhere: str, tmp_path: Path) -> None:
    place = Place(tmp_path, settings={"lock": everywhere}, entry={"lock": here})
    place.approve()
    place.offer(CHANGED)
    async with Toolbus(place.config) as bus:
        await bus.wait_ready()
        await relisted(bus)
        assert list(bus.held) == (["files/read"] if here == "block" else [])
        assert names(bus) == (["stat", "write"] if here == "block" else ALL)


@pytest.mark.parametrize("server_off", [True, False])
async def test_block_without_a_lockfile_is_an_error(server_off: bool, tmp_path: Path) -> None:
    place = Place(tmp_path, settings={"lock": "block"}, entry={"lock": "off"} if server_off else {})
    if server_off:
        async with Toolbus(place.config) as bus:  # nobody needs it
            assert names(bus) == ALL
        return
    with pytest.raises(LockError, match=r"does not exist, and the config sets 'lock: block'; create it"):
        Toolbus(place.config)
    assert place.starts == 0


def test_block_without_a_config_file_is_an_error() -> None:
    with pytest.raises(ConfigError, match="a lock needs a config file"):
        Toolbus({"lock": "block", "servers": {"files": {"command": "x"}}})


@pytest.mark.parametrize("text", ["off", "'off'", "false", "Off"])
def test_off_may_be_written_without_quotes_in_yaml(text: str, tmp_path: Path) -> None:
    file = tmp_path / "toolbus.yaml"
    file.write_text(f"lock: {text}\nservers:\n  files: {{command: x, lock: {text}, log_level: {text}}}\n")
    config = load_config(file)
    server = config.servers["files"]
    assert (config.lock, server.lock, server.log_level) == ("off", "off", "off")


@pytest.mark.parametrize("text", ["on", "true", "blocked", "[off]"])
def test_any_other_mode_is_a_mistake(text: str, tmp_path: Path) -> None:
    file = tmp_path / "toolbus.yaml"
    file.write_text(f"lock: {text}\nservers:\n  files: {{command: x}}\n")
    with pytest.raises(ConfigError, match="lock"):
        load_config(file)


async def test_a_held_tool_is_reported_once_until_it_changes_again(tmp_path: Path) -> None:
    place, held = drifted(tmp_path), list[ToolHeld]()
    async with Toolbus(place.config) as bus:
        bus.on_event(lambda event: held.append(event) if isinstance(event, ToolHeld) else None)
        await relisted(bus)
        place.offer({**CHANGED, "tools": [*CHANGED["tools"], {"name": "run", "inputSchema": {}}]})
        await until(lambda: len(bus.held) == 2)
        place.offer(OFFER)
        await until(lambda: not bus.held)
        place.offer(CHANGED)
        await until(lambda: len(bus.held) == 1)
    assert [one.tool for one in held] == ["read", "run", "read"]
