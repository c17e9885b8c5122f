"""Hooks of a config are code: none is imported before somebody agreed to exactly that code."""

import asyncio
import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import environment, toolbus, write_config
from tests.cli.test_cli_trust import USING
from tests.patience import PATIENCE
from tests.stations.places import TRACE, modules, written
from toolbus import CallDenied, ConfigError, Toolbus
from toolbus.config import usable_config


def notes() -> dict[str, Any]:
    """The server of a config; its Python must not be started while the tests are collected."""
    return {"command": warm.python(), "args": ["-m", "toolbus.demo.notes"]}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A cloned repository."""
    folder = tmp_path / "home" / "clone"
    folder.mkdir(parents=True)
    return folder


def hostile(folder: Path, use: str = "evil:hook") -> Path:
    """A config with a hook that leaves a trace when it is imported."""
    modules(folder, evil=TRACE)
    (folder / "call.json").write_text("{}")
    return written(folder, [use], servers={"notes": notes()})


EVERY = {
    **USING,
    "audit": ["audit", "usage"],
    "config": ["config"],
    "diff": ["lock", "diff"],
    "lock": ["lock", "--yes"],
    "origin": ["config", "--origin"],
    "review": ["trust", "--json"],
    "script": ["script", "x.py"],
    "serve": ["serve", "--stdio"],
    "stations": ["config", "--stations"],
    "trust": ["trust"],
    "up": ["up", "--foreground"],
}


@pytest.mark.parametrize("words", EVERY.values(), ids=EVERY)
def test_no_command_imports_a_hook_of_a_config_that_nobody_trusts(words: list[str], clone: Path) -> None:
    """A clone brings a config with a hook; each command is tried in it."""
    hostile(clone)
    run = toolbus(*words, folder=clone)
    assert not (clone / "imported").exists(), run.stdout + run.stderr


def test_a_person_sees_the_code_before_agreeing_to_it(clone: Path) -> None:
    """The hook's line, its options and the digest of its file are in the review; its secrets are not."""
    hostile(clone)
    document = json.loads((clone / "toolbus.yaml").read_text())
    document["hooks"] = [{"use": "evil:hook", "token": "hunter2hunter2", "limit": 3}]
    (clone / "toolbus.yaml").write_text(json.dumps(document))
    shown = toolbus("trust", folder=clone)
    assert 'evil:hook token="***" limit=3' in shown.stdout
    assert "evil.py  sha256:" in shown.stdout
    assert "hunter2" not in shown.stdout + shown.stderr
    [facts] = json.loads(toolbus("trust", "--json", folder=clone).stdout)["hooks"]
    assert facts["options"] == {"token": "***", "limit": 3}
    assert list(facts["files"]) == ["evil.py"]


def test_a_hook_that_is_swapped_after_trust_is_not_imported(clone: Path) -> None:
    """An update of the repository changes only the module, not the config."""
    modules(clone, gate="async def hook(call, following):\n    return await following(call)\n")
    write_config(clone, {"notes": notes()}, hooks=["gate:hook"])
    assert toolbus("call", "notes_add", "text=tea", folder=clone).returncode == 0
    modules(clone, gate=TRACE)
    run = toolbus("call", "notes_add", "text=tea", folder=clone)
    assert run.returncode == 2
    assert "has changed since you trusted it" in run.stderr or "gate.py changed" in run.stderr
    assert not (clone / "imported").exists()


def test_a_file_that_appears_later_cannot_take_the_place_of_an_installed_module(clone: Path) -> None:
    """The repository adds a module with the name of an installed package that a hook uses."""
    write_config(clone, {"notes": notes()}, hooks=["tests.stations.samples:Stamps"])
    modules(clone, tests__stations__samples=TRACE)
    run = toolbus("call", "notes_add", "text=tea", folder=clone)
    assert run.returncode == 2
    assert "tests/stations/samples.py changed" in run.stderr
    assert not (clone / "tests" / "stations" / "imported").exists()


def test_a_linked_module_is_reviewed_as_well(clone: Path, tmp_path: Path) -> None:
    """A link leads to a file outside of the folder, which changes after trust."""
    modules(tmp_path, elsewhere="async def hook(call, following):\n    return await following(call)\n")
    (clone / "gate.py").symlink_to(tmp_path / "elsewhere.py")
    write_config(clone, {"notes": notes()}, hooks=["gate:hook"])
    modules(tmp_path, elsewhere=TRACE)
    run = toolbus("call", "notes_add", "text=tea", folder=clone)
    assert run.returncode == 2
    assert not (tmp_path / "imported").exists()


@pytest.mark.anyio
async def test_what_was_compared_with_the_lock_is_what_runs(clone: Path) -> None:
    """The file is swapped between the check and the import: the bytes that were checked are run."""
    modules(clone, gate="async def hook(call, following):\n    return await following(call)\n")
    file = written(clone, ["gate:hook"], servers={})
    bus = Toolbus(file)  # reads and checks
    modules(clone, gate=TRACE)
    async with bus:
        pass
    assert not (clone / "imported").exists()


def run_in(folder: Path, words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


TRICKS = [
    *("../evil:hook", "/tmp/evil:hook", "./evil:hook", "evil/../evil:hook", "C:\\evil:hook"),
    *("evil.py:hook.x/y", "..evil:hook", "evil:hook()", "evil:__import__('os')", "evil :hook"),
    *("evil\n:hook", "\u0435vil:hook", "evil:", ":x"),
]


@pytest.mark.parametrize("use", TRICKS)
def test_a_name_is_never_a_path_or_an_expression(use: str, clone: Path) -> None:
    """A hook is named by a dotted ASCII name, and by nothing else."""
    modules(clone.parent, evil=TRACE)
    with pytest.raises(ConfigError, match="is neither module:name nor an entry point"):
        usable_config(hostile(clone, use))
    assert not (clone / "imported").exists()


def test_the_folder_of_a_clone_is_not_on_the_path_of_python(clone: Path) -> None:
    """With `python -m toolbus`, the current folder is; compiled code there would not be reviewed."""
    modules(clone, evil=TRACE)
    py_compile.compile(str(clone / "evil.py"), cfile=str(clone / "evil.pyc"))
    (clone / "evil.py").unlink()
    write_config(clone, {"notes": notes()}, hooks=["evil:hook"])
    words = [sys.executable, "-m", "toolbus", "call", "notes_add", "text=tea"]
    run = run_in(clone, words, environment(clone.parent))
    assert run.returncode == 2
    assert "evil is neither installed nor a Python file beside the config" in run.stderr
    assert not (clone / "imported").exists()


def installed(folder: Path, name: str, entry_points: str) -> None:
    """A package as pip installs it: a module that leaves a trace, and its entry points."""
    modules(folder, **{name: TRACE})
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[toolbus.stations]\n{entry_points}\n")


def with_site(folder: Path, clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    seen = environment(clone.parent, PYTHONPATH=str(folder))
    program = os.path.join(os.path.dirname(sys.executable), "toolbus")
    return subprocess.run(
        [program, *words], cwd=clone, env=seen, capture_output=True, text=True, timeout=PATIENCE
    )


def test_an_installed_station_does_not_load_unless_the_config_names_it(clone: Path, tmp_path: Path) -> None:
    """A dependency of something brings a station that nobody asked for."""
    site = tmp_path / "site"
    installed(site, "sneaky", "spy = sneaky:hook")
    write_config(clone, {"notes": notes()})
    assert with_site(site, clone, "call", "notes_add", "text=tea").returncode == 0
    assert not (site / "imported").exists()
    write_config(clone, {"notes": notes()}, hooks=["spy"])
    run = with_site(site, clone, "call", "notes_add", "text=tea")
    assert run.returncode == 0, run.stderr
    assert (site / "imported").exists()


def test_two_packages_cannot_compete_for_the_name_of_a_station(clone: Path, tmp_path: Path) -> None:
    """Another package claims the entry point that a config trusts."""
    site = tmp_path / "site"
    installed(site, "honest", "gate = honest:hook")
    installed(site, "sneaky", "gate = sneaky:hook")
    write_config(clone, {"notes": notes()}, hooks=["gate"])
    run = with_site(site, clone, "call", "notes_add", "text=tea")
    assert run.returncode == 2
    assert "several packages have the entry point 'gate': honest, sneaky" in run.stderr
    assert not (site / "imported").exists()


@pytest.mark.anyio
async def test_a_server_cannot_be_called_before_the_guard_stands(clone: Path) -> None:
    """A call that comes while the bus starts is on a path without the guard, unless it waits."""
    guard = {"use": "tests.stations.samples:Most", "calls": 0}
    bus = Toolbus({"servers": {"notes": notes()}, "hooks": [guard]})
    starting = asyncio.create_task(bus.start())
    await asyncio.sleep(0)
    with pytest.raises(CallDenied):
        await bus.call("notes/add", {"text": "tea"})
    await starting
    await bus.close()


def entries(config: Any) -> list[str]:
    return [entry.use for entry in config.stations]


def test_a_project_cannot_remove_or_replace_your_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project that extends your config tries each way to get rid of your hooks."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = tmp_path / "config" / "toolbus"
    written(own, ["mine:Guard"])
    work = tmp_path / "work"
    modules(work, mine=TRACE)
    for hooks in (
        "hooks: []",
        "hooks: null",
        "hooks: ['mine:Guard']",
        "hooks: [{use: 'mine:Guard', off: true}]",
    ):
        (work / "toolbus.yaml").write_text(f"extends: user\n{hooks}\n")
        config = usable_config(work / "toolbus.yaml")
        assert entries(config)[0] == "mine:Guard"
        assert config.stations[0].folder == own  # its module is never looked for in the project
