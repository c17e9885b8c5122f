"""MCP bundles: their manifest becomes a config entry, and their files are unpacked once the user agrees."""

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.inside.config import bundle_choice, chosen, entry, inputs, missing, server_json, with_bundle
from tests.patience import PATIENCE
from tests.registry.replay import bundled, digest, package, published
from toolbus import ConfigError, Toolbus

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).parents[1] / "servers" / "plain.py"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))


def line(server: Any, files: Any = None, **values: tuple[str, ...]) -> list[str]:
    """The command line of a bundle, with `@` for its folder."""
    choice = bundle_choice(bundled(server, files))
    config = entry(choice, values, alias="b").config
    assert choice.bundle is not None
    return [word.replace(str(choice.bundle.folder), "@") for word in (config["command"], *config["args"])]


CONFIG = {"command": "node", "args": ["${__dirname}/a.js", "server/x.json", "${user_config.dirs}"]}
DIRS = {"dirs": {"type": "directory", "multiple": True}}
TYPES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "node": (
        {"type": "node", "entry_point": "a.js", "mcp_config": CONFIG},
        ["node", "@/a.js", "@/server/x.json"],
    ),
    "python": ({"type": "python", "entry_point": "server/main.py"}, ["python3", "@/server/main.py"]),
    "binary": (
        {"type": "binary", "entry_point": "bin/x", "mcp_config": {"command": "bin/x", "args": ["-v"]}},
        ["@/bin/x", "-v"],
    ),
    "uv": ({"type": "uv", "entry_point": "src/s.py"}, ["uv", "run", "--directory", "@", "src/s.py"]),
}  # fmt: skip


@pytest.mark.parametrize("case", TYPES)
@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3", "0.4"])
def test_every_type_and_version_of_a_manifest_has_a_command_line(case: str, version: str) -> None:
    server, expected = TYPES[case]

    found = line(
        {"manifest_version": version, "server": server, "user_config": DIRS}, {"server/x.json": "{}"}
    )

    assert found == expected


def test_the_settings_of_a_bundle_are_inputs_whose_values_go_into_its_command_and_environment() -> None:
    settings = {
        "key": {"type": "string", "title": "Key", "sensitive": True, "required": True},
        "dirs": {"type": "directory", "multiple": True, "default": ["${HOME}/a", "${HOME}/b"]},
        "depth": {"type": "number", "default": 3},
        "unset": {"type": "string"},
    }
    env = {"KEY": "${user_config.key}", "DEPTH": "${user_config.depth}", "UNSET": "${user_config.unset}"}
    config = {"command": "node", "args": ["x", "${user_config.dirs}"], "env": env}
    server = {"type": "node", "entry_point": "a.js", "mcp_config": config}
    choice = bundle_choice(bundled({"server": server, "user_config": settings}))
    home = os.environ["HOME"]

    found = entry(choice, {"key": ("s3cret",)}, alias="b")
    chosen_folders = entry(choice, {"key": ("s",), "dirs": ("/x", "/y")}, alias="b")

    assert found.config["args"] == ["x", f"{home}/a", f"{home}/b"]
    assert found.config["env"] == {"KEY": "${B_KEY}", "DEPTH": "3"}
    assert [one.value for one in found.secrets] == ["s3cret"]
    assert chosen_folders.config["args"] == ["x", "/x", "/y"]
    assert [one.label for one in missing(choice, {})] == ["key"]
    assert {one.label for one in inputs(choice)} == set(settings)


def test_the_settings_of_this_system_replace_the_others() -> None:
    override = {sys.platform: {"command": "bun", "env": {"A": "2"}}, "other": {"command": "no"}}
    config = {"command": "node", "args": ["x"], "env": {"A": "1"}, "platform_overrides": override}
    choice = bundle_choice(bundled({"server": {"type": "node", "mcp_config": config}}))

    found = entry(choice, {}, alias="b").config

    assert (found["command"], found["args"], found["env"]) == ("bun", ["x"], {"A": "2"})


async def test_an_unpacked_bundle_starts_and_only_its_user_can_read_it() -> None:
    config = {"command": sys.executable, "args": ["${__dirname}/server.py"]}
    server = {"type": "python", "entry_point": "server.py", "mcp_config": config}
    content = bundled({"server": server}, {"server.py": SERVER.read_bytes()})
    described = package("mcpb", "https://example.com/n.mcpb", "", fileSha256=digest(content).upper())
    choice = with_bundle(chosen(server_json(published(packages=[described]))), content)
    assert choice.bundle is not None
    folder = choice.bundle.folder

    assert not folder.exists(), "nothing is written before the user agrees"
    choice.bundle.unpack()
    choice.bundle.unpack()
    async with Toolbus({"servers": {"b": dict(entry(choice, {}, alias="b").config)}}) as bus:
        await bus.wait_ready(timeout=PATIENCE)
        assert bus.servers["b"].state == "ready"

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "no draft is left"


REFUSED = {
    "another system": ({"compatibility": {"platforms": ["amiga"]}}, "it is for amiga, not for "),
    "a newer manifest": ({"manifest_version": "0.5"}, "version '0.5'; toolbus knows 0.1 to 0.4"),
    "an unknown type": ({"server": {"type": "ruby"}}, "server.type"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bundle_that_cannot_be_used_says_why(case: str) -> None:
    manifest, problem = REFUSED[case]
    usual = {"server": {"type": "node", "entry_point": "a.js"}}

    with pytest.raises(ConfigError) as refused:
        bundle_choice(bundled({**usual, **manifest}), file="x.mcpb")

    assert problem in str(refused.value)
    assert str(refused.value).startswith("x.mcpb: ")
