"""Refusals of an administrator, everywhere that servers are started, and before they are."""

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.admin.conftest import Site
from tests.cli.running import toolbus
from tests.lock.place import OFFERING, Place, names
from tests.patience import PATIENCE
from tests.servers.everyday import everyday
from toolbus import Toolbus, connect_mcp
from toolbus.agent import Agent
from toolbus.errors import ConfigError, ServerDown, ToolNotFound
from toolbus.extension import McpBridgeExtension
from toolbus.sync import SyncToolbus
from toolbus.testing import ScriptedModel

pytestmark = pytest.mark.anyio
ASK = "ask the administrator of this machine"
OTHERS = "allow: {argv: ['other **'], urls: ['https://*.example.com/*']}"
BROKEN = "allow: {argv: bash}"


def allowed(more: str = "") -> str:
    """A policy that allows the servers of a `Place`, and `more`."""
    return f"allow: {{argv: [[{warm.python()!r}, {OFFERING!r}, '**']]{more}}}"


def config(place: Place, **more: Any) -> dict[str, Any]:
    return {"servers": {"files": place.server(), **more}}


async def test_a_refused_server_is_refused_alone(site: Site, tmp_path: Path) -> None:
    site.write(allowed())
    place, marker = Place(tmp_path), tmp_path / "started"
    shell = {"command": "/bin/sh", "args": ["-c", f"touch {marker}"]}
    async with Toolbus(config(place, shell=shell, web="https://example.org/mcp", own=everyday())) as bus:
        assert {alias: status.state for alias, status in bus.servers.items()} == {
            "files": "ready",
            "shell": "failed",
            "web": "failed",
            "own": "ready",
        }
        error = bus.failures["shell"]
        with pytest.raises(ToolNotFound):
            await bus.call("shell/run")
    assert isinstance(error, ConfigError)
    assert (error.file, error.server, error.key) == (str(site.file), "shell", "allow.argv")
    assert error.problem == f"\"/bin/sh -c 'touch {marker}'\" is not listed; {ASK}"
    assert not marker.exists()


async def test_a_url_is_refused_before_anything_is_sent(site: Site) -> None:
    site.write(OTHERS)
    async with Toolbus({"servers": {"web": "http://a.example.com@127.0.0.1:1/mcp?key=hidden"}}) as bus:
        error = bus.failures["web"]
    assert isinstance(error, ConfigError)
    assert (error.key, "hidden" in str(error)) == ("allow.urls", False)


def starting_bus(place: Place) -> Callable[[], Awaitable[object]]:
    async def start() -> None:
        async with Toolbus({"servers": {"files": place.server(required=True)}}):
            pass

    return start


def connecting(place: Place) -> Callable[[], Awaitable[object]]:
    async def start() -> None:
        async with connect_mcp(place.server(), alias="files"):
            pass

    return start


def adding(place: Place) -> Callable[[], Awaitable[object]]:
    async def start() -> None:
        async with Toolbus({"servers": {"own": everyday()}}) as bus:
            await bus.add_server("files", place.server(required=True))

    return start


def reloading(place: Place) -> Callable[[], Awaitable[object]]:
    async def start() -> None:
        async with Toolbus({"servers": {"own": everyday()}}) as bus:
            await bus.reload({"servers": {"files": place.server(required=True)}})

    return start


def extending(place: Place) -> Callable[[], Awaitable[object]]:
    async def start() -> None:
        extension = McpBridgeExtension({"config": {"servers": {"files": place.server(required=True)}}})
        await extension.initialize()
        await extension.start()

    return start


def synchronous(place: Place) -> Callable[[], Awaitable[object]]:
    async def start() -> None:
        from asyncio import to_thread

        def work() -> None:
            with SyncToolbus({"servers": {"files": place.server(required=True)}}):
                pass

        await to_thread(work)

    return start


def asking_agent(place: Place) -> Callable[[], Awaitable[object]]:
    async def start() -> None:
        servers = {"servers": {"files": place.server(required=True)}}
        async with Agent(ScriptedModel(["Hello."]), mcp_servers=servers) as agent:
            await agent.send("Hello.").final

    return start


WAYS = [starting_bus, connecting, adding, reloading, extending, synchronous, asking_agent]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_refused_server_on_every_way_to_start_it(
    way: Callable[[Place], Callable[[], Awaitable[object]]], site: Site, tmp_path: Path
) -> None:
    """It is not started, and the error names the file, the list and the next step."""
    place = Place(tmp_path)
    site.write(OTHERS)
    with pytest.raises(ConfigError) as caught:
        await way(place)()
    assert (caught.value.file, caught.value.server, caught.value.key) == (
        str(site.file),
        "files",
        "allow.argv",
    )
    assert str(caught.value).endswith(ASK)
    site.write(allowed())
    await way(place)()
    assert place.starts == 1


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_broken_file_on_every_way_to_start_a_server(
    way: Callable[[Place], Callable[[], Awaitable[object]]], site: Site, tmp_path: Path
) -> None:
    """Nothing is started."""
    place = Place(tmp_path)
    site.write(BROKEN)
    with pytest.raises(ConfigError) as caught:
        await way(place)()
    assert (caught.value.file, caught.value.server, caught.value.key) == (str(site.file), None, "allow.argv")
    assert place.starts == 0


async def test_a_file_that_is_written_while_a_bus_runs_counts_from_its_next_change(
    site: Site, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    async with Toolbus(config(place)) as bus:
        site.write(OTHERS)
        await bus.add_server("own", everyday())
        assert bus.servers["files"].state == "failed"
        with pytest.raises((ToolNotFound, ServerDown)):
            await bus.call("files/read", {"path": "x", "mode": "text"})
        site.write(allowed())
        await bus.reload(config(place))
        assert bus.servers["files"].state == "ready"
        site.write(BROKEN)
        with pytest.raises(ConfigError, match="expected a list of patterns"):
            await bus.reload(config(place))
        assert bus.servers["files"].state == "ready"
    assert place.starts == 2


@pytest.mark.parametrize("place_of_it", ["environment", "env_file"])
async def test_a_refused_command_behind_a_reference(
    place_of_it: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused once the value is known, and never started; the message does not show the value."""
    site.write(allowed())
    place = Place(tmp_path)
    marker = tmp_path / "started"
    if place_of_it == "environment":
        monkeypatch.setenv("SCRIPT", f"touch {marker}")
        entry = {"command": "/bin/sh", "args": ["-c", "${SCRIPT}"]}
    else:
        (tmp_path / ".env.server").write_text(f"PYTHONPATH={tmp_path}\n")
        entry = place.server(env_file=str(tmp_path / ".env.server"))
    async with Toolbus({"servers": {"x": entry}}) as bus:
        error = bus.failures["x"]
    assert isinstance(error, ConfigError)
    assert (error.file, error.key, "touch" in str(error)) == (str(site.file), "allow.argv", False)
    assert (marker.exists(), place.starts) == (False, 0)


async def test_an_allowed_command_behind_a_reference_and_the_file_changes(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs, and is stopped by a change of the bus once it is not allowed any more."""
    place = Place(tmp_path)
    monkeypatch.setenv("SCRIPT", OFFERING)
    entry = place.server(args=["${SCRIPT}", str(tmp_path / "offer.json")])
    site.write(allowed())
    async with Toolbus({"servers": {"files": entry}}) as bus:
        assert names(bus) == ["read", "stat", "write"]
        await bus.reload({"servers": {"files": entry}})
        assert place.starts == 1
        site.write(OTHERS)
        await bus.reload({"servers": {"files": entry}})
        assert bus.servers["files"].state == "failed"
    assert place.starts == 1


async def test_a_url_behind_a_reference(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused once the value is known."""
    site.write(OTHERS)
    monkeypatch.setenv("HOST", "evil.com/x")
    async with Toolbus({"servers": {"web": "https://${HOST}.example.com/"}}) as bus:
        error = bus.failures["web"]
    assert isinstance(error, ConfigError)
    assert (error.key, "evil" in str(error)) == ("allow.urls", False)


@pytest.mark.parametrize("key", ["env", "headers"])
async def test_a_command_in_a_reference(key: str, site: Site, tmp_path: Path) -> None:
    """It is not run unless it is allowed, like any other command."""
    place, marker = Place(tmp_path), tmp_path / "marker"
    touch = f"${{cmd:/usr/bin/env touch {marker}}}"
    entry = (
        place.server(env={"TOKEN": touch})
        if key == "env"
        else {"url": "https://a.example.com/", "headers": {"X-Key": touch}}
    )
    site.write(allowed())
    async with Toolbus({"servers": {"x": entry}}) as bus:
        error = bus.failures["x"]
    assert isinstance(error, ConfigError)
    assert (error.key, marker.exists()) == ("allow.argv", False)
    extension = McpBridgeExtension({"config": {"servers": {"x": entry}}})
    await extension.initialize()
    assert (list(extension.skipped), marker.exists()) == (["x"], False)


async def test_a_server_that_is_known_from_the_lockfile(site: Site, tmp_path: Path) -> None:
    """A refused one is not in the catalog."""
    place = Place(tmp_path)
    place.approve()
    site.write(allowed())
    assert names(Toolbus(place.config)) == ["read", "stat", "write"]
    site.write(OTHERS)
    async with Toolbus(place.config) as bus:
        await bus.wait_ready(["files"], timeout=PATIENCE)
        assert (names(bus), bus.servers["files"].state) == ([], "failed")
    assert place.starts == 0


async def test_rules_that_code_sets_on_a_server(site: Site, tmp_path: Path) -> None:
    """They are replaced by the rules of the machine."""
    from toolbus.config import load_config
    from toolbus.config.launch.administrator import Administrator

    place = Place(tmp_path)
    site.write(OTHERS)
    loaded = load_config(place.config)
    servers = {"files": loaded.servers["files"].model_copy(update={"administrator": Administrator()})}
    async with Toolbus(loaded.model_copy(update={"servers": servers})) as bus:
        assert bus.servers["files"].state == "failed"
    assert place.starts == 0


def test_the_commands_of_the_terminal(site: Site, tmp_path: Path) -> None:
    place = Place(tmp_path / "project")
    site.write(OTHERS)

    def run(*words: str) -> tuple[int, str]:
        done = toolbus(*words, "--config", str(place.config), folder=place.folder, env=site.env)
        return done.returncode, done.stdout + done.stderr

    line = f"{site.file}: server 'files': allow.argv: "
    for words in (["tools"], ["call", "files/read"], ["read"], ["prompt"], ["lock", "--yes"]):
        code, output = run(*words)
        assert (code, line in output, ASK in output) == (1, True, True), (words, output)
    code, output = run("check")
    assert (code, "refused  files" in output) == (1, True), output
    assert f"not permitted by allow.argv in {site.file}: " in output
    code, output = run("check", "--json")
    assert json.loads(output)["administrator"] == {
        "files": [str(site.file)],
        "ignored": [],
        "refused": ["files"],
    }
    site.write(BROKEN)
    for words in (["tools"], ["call", "files/read"], ["check"], ["lock", "--yes"]):
        code, output = run(*words)
        assert (code, output.count("\n")) == (2, 1), output
        assert output.startswith(f"toolbus: {site.file}: allow.argv: expected a list of patterns"), output
    assert place.starts == 0


@pytest.mark.parametrize(
    ("line", "args", "files"),
    [
        ("{python} tool.py", ["tool.py"], ["tool.py"]),
        ("{python} -m tool.main **", ["-m", "tool.main"], ["tool.py"]),
        ("{python} --run=x/*", ["--run=x/tool.py"], ["x/tool.py"]),
    ],
)
@pytest.mark.parametrize("cwd", [None, ".", "below"])
async def test_a_file_of_the_project_with_the_name_of_an_allowed_program(
    line: str,
    args: list[str],
    files: list[str],
    cwd: str | None,
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not started."""
    python = sys.executable
    site.write(f"allow: {{argv: [{line.format(python=python)!r}]}}")
    folder = tmp_path / "project"
    place = folder if cwd is None else folder / cwd
    for file in files:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text("open('started', 'w')")
    entry = {"command": python, "args": args, **({} if cwd is None else {"cwd": cwd})}
    (folder / "toolbus.yaml").write_text(json.dumps({"servers": {"files": entry}}))
    monkeypatch.chdir(folder)
    async with Toolbus(folder / "toolbus.yaml") as bus:
        error = bus.failures["files"]
    assert isinstance(error, ConfigError), error
    assert (error.key, error.file) == ("allow.cwd", str(site.file))
    assert not any((where / "started").exists() for where in (folder, place))


async def test_a_working_folder_of_its_own(site: Site, tmp_path: Path) -> None:
    """It has to be listed where command lines are."""
    place, elsewhere = Place(tmp_path / "project"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    for policy, state in (
        (allowed(), "failed"),
        (allowed(f", cwd: [{tmp_path}/other]"), "failed"),
        (allowed(f", cwd: [{tmp_path}/*]"), "ready"),
        (f"deny: {{cwd: [{tmp_path}]}}", "failed"),
    ):
        site.write(policy)
        async with Toolbus({"servers": {"files": place.server(cwd=str(elsewhere))}}) as bus:
            assert bus.servers["files"].state == state, policy
    assert place.starts == 1
