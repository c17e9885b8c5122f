"""npx and uvx in a sandbox: the package is installed with the network, and the server runs without it."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inside.connect import NotLaunchable, local_program, package_of
from tests.patience import PATIENCE
from tests.sandbox.place import attack, require_sandbox
from tests.sandbox.registry import PACKAGE, Registry, serving
from toolbus import Toolbus, ToolbusError

require_sandbox()

pytestmark = pytest.mark.anyio

SECRET = "do-not-tell-7f3a"
needs_npx = pytest.mark.skipif(shutil.which("npx") is None, reason="npx is not on the PATH; install node")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
    with serving() as registry:
        for name, value in registry.variables().items():
            monkeypatch.setenv(name, value)
        yield registry


def entry(command: str, *args: str, **more: Any) -> dict[str, Any]:
    return {"servers": {"probe": {"command": command, "args": [*args], "sandbox": True, **more}}}


def installed(home: Path) -> list[Path]:
    return sorted((home / ".local" / "state" / "toolbus" / "sandbox").glob("*"))


async def test_uvx_installs_once_and_its_server_has_no_network(registry: Registry, tmp_path: Path) -> None:
    config = entry("uvx", PACKAGE, required=True)
    async with Toolbus(config) as bus:
        variables = json.loads((await attack(bus, "variables")).removeprefix("got "))
        port = registry.url.rpartition(":")[2]
        assert (await attack(bus, "connect", port)).startswith("failed ConnectionRefusedError")
        [folder] = installed(tmp_path / "home")
        [module] = (folder / "cache").glob("uv/archive-v0/*/lib/python*/site-packages/toolbus_probe.py")
        assert "Read-only file system" in await attack(bus, "write", module)
        assert list(
            module.parent.glob("__pycache__/toolbus_probe.*.pyc")
        )  # or it would compile at every start
        assert (await attack(bus, "listing", folder)) == 'got ["cache"]'
    assert not [name for name in variables if name.startswith("UV_")]
    assert folder.stat().st_mode & 0o777 == 0o700
    asked = list(registry.asked)
    assert asked
    async with Toolbus(config) as bus:
        assert (await attack(bus, "identity")).startswith("got")
    assert registry.asked == asked


@needs_npx
async def test_npx_installs_once_and_shows_its_package_nothing_of_the_server(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text(SECRET)
    monkeypatch.setenv("npm_config_place", str(tmp_path / "data" / "x"))
    more = {"env": {"API_KEY": SECRET}, "redact": False, "required": True}
    config = entry("npx", "-y", PACKAGE, "--flag", **more, sandbox={"read": [str(tmp_path / "data")]})
    async with Toolbus(config) as bus:
        seen = json.loads((await bus.call("probe/look")).text)
        asked = list(registry.asked)
    async with Toolbus(config) as bus:
        again = json.loads((await bus.call("probe/look")).text)
    assert (again["args"], registry.asked) == (["--flag"], asked)
    assert seen["args"] == ["--flag"]
    assert seen["env"]["API_KEY"] == SECRET
    assert seen["written"] == "EROFS"
    assert "npm_config_registry" not in seen["env"]
    assert seen["installing"]["env"]["npm_config_registry"].startswith(registry.url)
    assert "API_KEY" not in seen["installing"]["env"]
    assert seen["installing"]["secret"] is False
    assert len(installed(tmp_path / "home")) == 1
    assert not (tmp_path / "home" / ".npm").exists()


@needs_npx
async def test_a_variable_of_the_config_that_names_a_secret_for_the_installation(
    registry: Registry, tmp_path: Path
) -> None:
    """It is not shown: the installation has the network."""
    (tmp_path / "secret").write_text(SECRET)
    config = entry("npx", PACKAGE, env={"npm_config_place": str(tmp_path / "secret")}, required=True)
    async with Toolbus(config) as bus:
        seen = json.loads((await bus.call("probe/look")).text)
    assert seen["installing"]["env"]["npm_config_place"] == str(tmp_path / "secret")
    assert seen["installing"]["secret"] is False


async def test_two_servers_of_one_package_have_a_folder_each(registry: Registry, tmp_path: Path) -> None:
    one = entry("uvx", PACKAGE)["servers"]["probe"]
    async with Toolbus({"servers": {"one": one, "two": one}}) as bus:
        assert {status.state for status in bus.servers.values()} == {"ready"}
    assert len(installed(tmp_path / "home")) == 2


async def test_a_package_that_is_not_there(registry: Registry) -> None:
    """The error shows what the launcher said."""
    async with Toolbus(entry("uvx", "toolbus-nowhere")) as bus:
        error = bus.servers["probe"].error or ""
    assert "spawn failed: uvx could not install 'toolbus-nowhere' for the sandbox (exit code 1)" in error
    assert "not found in the package registry" in error
    assert error.endswith("check the name of the package, and the connection to its registry")


async def test_a_program_that_the_package_does_not_have(registry: Registry) -> None:
    """The error names both."""
    async with Toolbus(entry("uvx", "--from", PACKAGE, "other")) as bus:
        assert f"the package '{PACKAGE}' has no program 'other'" in (bus.servers["probe"].error or "")


async def test_an_installation_that_takes_too_long_is_ended(registry: Registry) -> None:
    registry.answers.clear()
    async with Toolbus(entry("uvx", PACKAGE, timeouts={"connect": 3})) as bus:
        assert "timed out after 3 s" in (bus.servers["probe"].error or "")
    registry.answers.set()


async def test_an_installation_is_ended_with_the_bus(registry: Registry) -> None:
    registry.answers.clear()
    async with Toolbus(entry("uvx", PACKAGE, lazy=True)) as bus:
        call = asyncio.ensure_future(bus.call("probe/attack", {}))
        async with asyncio.timeout(PATIENCE):
            await asyncio.to_thread(registry.was_asked.wait)
    with pytest.raises(ToolbusError):
        await call


def words(command: str) -> tuple[str, list[str]]:
    first, *rest = command.split()
    return first, rest


@pytest.mark.parametrize(
    ("command", "install", "program", "args"),
    [
        ("npx -y pkg", "npx --yes -y --package=pkg -- node -e 0", None, ""),
        ("npx pkg@1.2 --db x", "npx --yes --package=pkg@1.2 -- node -e 0", None, "--db x"),
        ("npx -y @s/pkg /data", "npx --yes -y --package=@s/pkg -- node -e 0", None, "/data"),
        ("npx -p pkg run it", "npx --yes -p pkg -- node -e 0", "run", "it"),
        ("npx --package=pkg -- run", "npx --yes --package=pkg -- node -e 0", "run", ""),
        ("npm exec -y -- pkg x", "npm exec --yes -y --package=pkg -- node -e 0", None, "x"),
        ("/opt/bin/uvx pkg", "/opt/bin/uvx --from pkg", "pkg", ""),
        ("uvx pkg@1.2 -v", "uvx --from pkg==1.2", "pkg", "-v"),
        ("uvx pkg@latest", "uvx --from pkg", "pkg", ""),
        ("uvx pkg[a]==1.2", "uvx --from pkg[a]==1.2", "pkg", ""),
        ("uvx --from pkg run x", "uvx --from pkg", "run", "x"),
        ("uvx -p 3.12 --with a pkg", "uvx -p 3.12 --with a --from pkg", "pkg", ""),
        ("uv tool run pkg", "uv tool run --from pkg", "pkg", ""),
    ],
)
def test_what_a_launcher_installs_and_runs(
    command: str, install: str, program: str | None, args: str
) -> None:
    launcher, rest = words(command)
    package = package_of(launcher, rest)
    assert package is not None
    assert " ".join(package.install(launcher)).partition(" python -c ")[0] == install
    assert (package.program, " ".join(package.args)) == (program, args)


@pytest.mark.parametrize(
    "command", ["npx -c ls", "npx .", "npx", "uvx ./x", "uvx --from ../x y", "uvx --offline x"]
)
def test_what_a_launcher_cannot_install(command: str) -> None:
    launcher, rest = words(command)
    with pytest.raises(NotLaunchable):
        package_of(launcher, rest)


@pytest.mark.parametrize("command", ["npm run x", "uv run x", "python -m x", "bunx x"])
def test_other_commands_are_not_launchers(command: str) -> None:
    launcher, rest = words(command)
    assert package_of(launcher, rest) is None


def test_npx_takes_a_package_of_the_project_as_outside(tmp_path: Path) -> None:
    modules = tmp_path / "node_modules"
    (modules / ".bin").mkdir(parents=True)
    (modules / "@s" / "pkg").mkdir(parents=True)
    (modules / ".bin" / "pkg").touch()
    (tmp_path / "sub").mkdir()
    package, versioned = package_of("npx", ["@s/pkg"]), package_of("npx", ["@s/pkg@1"])
    assert package is not None
    assert versioned is not None
    assert local_program(package, str(tmp_path / "sub")) == str(modules / ".bin" / "pkg")
    assert local_program(versioned, str(tmp_path)) is None
