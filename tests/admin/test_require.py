"""The requirements of an administrator for a config: a lock, a sandbox, an audit trail."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.admin.conftest import NOBODY, Site
from tests.cli.running import toolbus
from tests.inside.config import Secrets, permitted_config, read_administrator, resolved
from tests.lock.place import Place, names
from tests.servers.everyday import everyday
from toolbus import Toolbus, connect_mcp
from toolbus.config import load_config
from toolbus.errors import ConfigError

pytestmark = pytest.mark.anyio


def refused(place: Place) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Toolbus(place.config)
    assert (caught.value.server, caught.value.key) == (None, "require")
    assert str(caught.value).endswith("or ask the administrator of this machine")
    return caught.value


async def test_a_required_lock(site: Site, tmp_path: Path) -> None:
    site.write("require: [lock]")
    place = Place(tmp_path)
    error = refused(place)
    assert error.file == str(site.file)
    assert error.problem.startswith(
        f"a toolbus.lock is required next to {place.config}; create it: toolbus lock"
    )
    place.approve()
    async with Toolbus(place.config) as bus:
        assert names(bus) == ["read", "stat", "write"]
        with pytest.raises(ConfigError, match="'own' has lock: off"):
            await bus.add_server("own", {**place.server(), "lock": "off"})


@pytest.mark.parametrize("mode", ["off", "warn"])
@pytest.mark.parametrize("where", ["server", "all"])
def test_a_config_that_weakens_a_required_lock(mode: str, where: str, site: Site, tmp_path: Path) -> None:
    """It is refused."""
    site.write("require: [lock]")
    place = Place(tmp_path)
    place.approve()
    if where == "server":
        place.configure(lock=mode)
    else:
        place.settings["lock"] = mode
        place.configure()
    expected = f"server 'files' has lock: {mode}, and block is required; remove it"
    assert refused(place).problem.startswith(expected)


async def test_servers_that_code_names_with_a_required_lock(site: Site, tmp_path: Path) -> None:
    """They are refused: there is no lockfile for them. Objects of the program itself are not."""
    site.write("require: [lock, audit, sandbox]")
    place = Place(tmp_path)
    with pytest.raises(ConfigError, match="is required"):
        Toolbus({"servers": {"files": place.server()}})
    with pytest.raises(ConfigError, match="is required"):
        await connect_mcp(place.server())
    async with Toolbus({"servers": {"own": everyday()}}) as bus:
        with pytest.raises(ConfigError, match="is required"):
            await bus.add_server("files", place.server())
        assert bus.servers["own"].state == "ready"
    assert place.starts == 0


def test_the_command_that_writes_a_required_lock(site: Site, tmp_path: Path) -> None:
    site.write("require: [lock]")
    place = Place(tmp_path / "project")

    def run(*words: str) -> tuple[int, str]:
        done = toolbus(*words, "--config", str(place.config), folder=place.folder, env=site.env)
        return done.returncode, done.stdout + done.stderr

    code, output = run("tools")
    assert (code, output.startswith(f"toolbus: {site.file}: require: a toolbus.lock is required")) == (
        2,
        True,
    )
    assert run("lock", "--yes")[0] == 0
    code, output = run("tools")
    assert (code, "locked  3 tools" in output) == (0, True), output


async def test_a_required_sandbox(site: Site, tmp_path: Path) -> None:
    """A server without one is refused alone."""
    site.write("require: [sandbox]")
    place = Place(tmp_path)
    async with Toolbus({"servers": {"files": place.server(), "own": everyday()}}) as bus:
        assert bus.servers["own"].state == "ready"
        error = bus.failures["files"]
    assert isinstance(error, ConfigError)
    assert (error.file, error.server, error.key) == (str(site.file), "files", "require")
    assert error.problem.startswith(
        "servers have to run in a sandbox; set sandbox: true, or ask the administrator"
    )
    assert place.starts == 0
    servers = {"files": place.server(sandbox=True), "all": place.server()}
    usable = permitted_config(load_config({"servers": servers, "sandbox": True}), read_administrator())
    assert [server.mistake for server in usable.servers.values()] == [None, None]


LIMITS = """
require:
  lock: false
  sandbox:
    net: false
    write: ["~/projects/*", /srv/data]
    read: [/srv/**]
"""


@pytest.mark.parametrize(
    ("sandbox", "key", "problem"),
    [
        ({"net": True}, "net", "its sandbox has the network; remove net: true, or ask"),
        ({"write": ["/srv/other"]}, "write", "its sandbox may not write '/srv/other'; remove it, or ask"),
        ({"write": ["~/projects"]}, "write", "its sandbox may not write"),
        ({"write": ["/srv/data/../x"]}, "write", "its sandbox may not write '/srv/data/../x'"),
        ({"write": ["out"]}, "write", "its sandbox may not write"),
        ({"read": ["/var/lib/${NAME:-x}"]}, "read", "its sandbox may not read '/var/lib/x'"),
        (False, None, "servers have to run in a sandbox"),
    ],
)
async def test_a_sandbox_that_opens_more_than_the_administrator_permits(
    sandbox: Any, key: str | None, problem: str, site: Site, tmp_path: Path
) -> None:
    """The server is refused, and never started."""
    site.write(LIMITS)
    place = Place(tmp_path)
    async with Toolbus({"servers": {"files": place.server(sandbox=sandbox)}}) as bus:
        error = bus.failures["files"]
    assert isinstance(error, ConfigError), error
    assert (error.file, error.key) == (str(site.file), f"require.sandbox.{key}" if key else "require")
    assert error.problem.startswith(problem)
    assert place.starts == 0


async def test_a_sandbox_that_opens_what_the_administrator_permits(site: Site, tmp_path: Path) -> None:
    site.write(LIMITS)
    opened = {"write": ["~/projects/x", "/srv/data/y"], "read": ["/srv/a/b", "~/projects/x/y"]}
    place = Place(tmp_path)
    config = load_config({"servers": {"files": place.server(sandbox=opened)}}).servers["files"]
    config = config.model_copy(update={"administrator": read_administrator()})
    assert len((await resolved(config, Secrets())).writable) == 2


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("{lok: true}", "require.lok: unknown key; did you mean 'lock'?"),
        ("{lock: {}}", "require.lock: expected true or false"),
        ("{sandbox: {nets: false}}", "require.sandbox.nets: unknown key; did you mean 'net'?"),
        ("{sandbox: {net: }}", "require.sandbox.net: expected true or false"),
        ("{sandbox: {nets: }}", "require.sandbox.nets: unknown key; did you mean 'net'?"),
        ("{sandbox: {write: [out]}}", "require.sandbox.write[0]: expected a whole path"),
        ("{sandbox: {write: [/srv/../x]}}", "require.sandbox.write[0]: expected a whole path"),
        ("{sandbox: yes please}", "require.sandbox: expected true or false, or a mapping with net, read"),
    ],
)
def test_a_mistake_in_what_is_required(written: str, problem: str, site: Site) -> None:
    """Nothing is started."""
    site.write(f"require: {written}")
    with pytest.raises(ConfigError, match=re.escape(problem)):
        read_administrator()


def test_a_required_audit_trail(site: Site, tmp_path: Path) -> None:
    site.write("require: [audit]")
    problem = (
        "an audit log is required; add audit: {file: audit.jsonl} to the config, or ask the administrator"
    )
    place = Place(tmp_path)
    assert refused(place).problem.startswith(problem)
    place.settings["audit"] = {"file": "audit.jsonl", "content": "none"}
    place.configure()
    problem = (
        "an audit log of the arguments is required; set content: digest in audit, or ask the administrator"
    )
    assert refused(place).problem.startswith(problem)
    place.settings["audit"] = "audit.jsonl"
    place.configure()
    assert list(Toolbus(place.config).servers) == ["files"]


def test_all_that_is_missing_is_reported_at_once(site: Site, tmp_path: Path) -> None:
    site.write("require: [lock, sandbox, audit]")
    place = Place(tmp_path / "project")
    with pytest.raises(ConfigError) as caught:
        Toolbus(place.config)
    problems = [
        "a toolbus.lock is required",
        "an audit log is required",
        "servers have to run in a sandbox",
    ]
    found = [mistake.problem for mistake in caught.value.mistakes]
    assert [text[: len(problem)] for text, problem in zip(found, problems, strict=True)] == problems
    done = toolbus("check", "--config", str(place.config), folder=place.folder, env=site.env)
    assert done.stdout.splitlines() == ["administrator", f"  rules  {site.file}"]
    assert (done.returncode, "3 errors in the config" in done.stderr) == (2, True)


def test_a_file_that_is_not_used_is_something_to_fix(site: Site, tmp_path: Path) -> None:
    site.write("require: [lock]", owner=NOBODY)
    place = Place(tmp_path / "project")
    done = toolbus("check", "--config", str(place.config), folder=place.folder, env=site.env)
    last = (done.stdout + done.stderr).splitlines()[-1]
    assert (done.returncode, last.endswith("1 ready; 1 file of the administrator to fix")) == (0, True), last
