"""Hooks of several layers, and of a config that changes while it is in use."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.stations import samples
from tests.stations.places import guard, in_memory, modules, texts_in, texts_of, written
from toolbus import CallDenied, ConfigError, Toolbus
from toolbus.config import BusConfig, usable_config
from toolbus.events import CallStarted

pytestmark = pytest.mark.anyio
HERE = "tests.stations.samples"


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own config."""
    samples.SEEN.clear()
    folder = tmp_path / "config" / "toolbus"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return folder


def stamp(mark: str) -> Mapping[str, Any]:
    return {"use": f"{HERE}:Stamps", "mark": mark}


def config(*hooks: Any) -> dict[str, Any]:
    return {"servers": in_memory(), "hooks": list(hooks)}


async def marks(bus: Toolbus) -> list[str]:
    return (await texts_of(bus))[1:]


async def test_a_reload_changes_the_hooks_and_closes_those_that_went() -> None:
    servers = in_memory()
    async with Toolbus({"servers": servers, "hooks": [stamp("a"), stamp("b")]}) as bus:
        assert await marks(bus) == ["b", "a"]
        await bus.reload({"servers": servers, "hooks": [stamp("c"), stamp("b")]})
        assert await marks(bus) == ["b", "c"]
        await bus.reload({"servers": servers})
        assert await marks(bus) == []
    assert samples.SEEN == ["closed a", "closed c", "closed b"]


async def test_a_hook_that_stays_keeps_its_state() -> None:
    servers, most = in_memory(), {"use": f"{HERE}:Most", "calls": 2}
    async with Toolbus({"servers": servers, "hooks": [most]}) as bus:
        await bus.call("own/echo", {"text": "1"})
        await bus.reload({"servers": servers, "hooks": [stamp("x"), most]})
        await bus.call("own/echo", {"text": "2"})
        with pytest.raises(CallDenied):
            await bus.call("own/echo", {"text": "3"})


async def test_a_reload_with_a_wrong_hook_changes_nothing() -> None:
    servers = in_memory()
    async with Toolbus({"servers": servers, "hooks": [stamp("a")]}) as bus:
        with pytest.raises(ConfigError, match="has no 'Nobody'"):
            await bus.reload({"servers": servers, "hooks": [stamp("new"), f"{HERE}:Nobody"]})
        assert await marks(bus) == ["a"]
    assert samples.SEEN == ["closed new", "closed a"]


async def test_a_call_on_its_way_ends_before_its_hook_is_closed() -> None:
    servers = in_memory()
    async with Toolbus({"servers": servers, "hooks": [stamp("a")]}) as bus:
        begun = asyncio.Event()
        bus.on_event(lambda event: begun.set() if isinstance(event, CallStarted) else None)
        other = asyncio.create_task(bus.call("own/meet", {"mine": "x", "other": "y"}))
        await begun.wait()
        await bus.reload({"servers": servers})
        assert samples.SEEN == []
        await bus.call("own/meet", {"mine": "y", "other": "x"})
        assert texts_in(await other) == ["x met y", "a"]
    assert samples.SEEN == ["closed a"]


async def test_a_changed_file_is_a_changed_hook(tmp_path: Path) -> None:
    file = written(tmp_path / "work", [{"use": "gate:Guard", "refused": ["echo"]}])
    modules(file.parent, gate=guard("not today"))
    async with Toolbus(file) as bus:
        await bus.add_server("own", in_memory()["own"])
        with pytest.raises(CallDenied, match="not today"):
            await bus.call("own/echo", {"text": "x"})
        modules(file.parent, gate=guard("not tomorrow"))
        await bus.reload(file)
        await bus.add_server("own", in_memory()["own"])
        with pytest.raises(CallDenied, match="not tomorrow"):
            await bus.call("own/echo", {"text": "x"})


def uses(config: BusConfig) -> list[str]:
    return [entry.use for entry in config.stations]


def test_a_project_adds_hooks_to_yours_and_removes_none(own: Path, tmp_path: Path) -> None:
    written(own, ["mine:Guard"])
    work = tmp_path / "work"
    for hooks in (["theirs:Hook"], [], None):
        file = written(work, [], extends="user")
        document = json.loads(file.read_text()) | {"hooks": hooks}
        file.write_text(json.dumps(document))
        assert uses(usable_config(file)) == ["mine:Guard", *(hooks or [])]


def test_the_local_file_adds_hooks_and_null_removes_those_of_the_config(tmp_path: Path) -> None:
    file = written(tmp_path, ["team:Guard"])
    local = tmp_path / "toolbus.local.yaml"
    local.write_text(json.dumps({"hooks": [{"use": "log:Log", "path": "x"}]}))
    found = usable_config(file)
    assert [(entry.use, entry.file, entry.key) for entry in found.hooks] == [
        ("team:Guard", str(file), "hooks[0]"),
        ("log:Log", str(local), "hooks[0]"),
    ]
    local.write_text("hooks: null\n")
    assert uses(usable_config(file)) == []


def test_every_entry_knows_its_line(tmp_path: Path) -> None:
    file = tmp_path / "toolbus.yaml"
    file.write_text("servers: {}\nhooks:\n  - a:B\n  - use: c:D\n    x: 1\n")
    assert [entry.line for entry in usable_config(file).hooks] == [3, 4]
    file.write_text("servers: {}\nhooks:\n  - a:B\n  - use: c/D\n")
    with pytest.raises(ConfigError, match=r"toolbus\.yaml:4: hooks\[1\]\.use: is neither"):
        usable_config(file)
