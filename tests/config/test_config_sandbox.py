"""The `sandbox` of a server and of a bus: what it may be, whom it is for, and what other hosts mean by it."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.config.conftest import misfits
from tests.inside.config import FILE, ImportFile, Sandbox, Secrets, imported, resolved
from toolbus.config import ServerConfig, load_config, load_server
from toolbus.errors import ConfigError

PROGRAM = {"command": "x"}


def sandboxes(document: dict[str, Any]) -> dict[str, Sandbox | None]:
    return {alias: server.sandbox for alias, server in load_config(document).servers.items()}


def test_the_sandbox_of_the_bus_is_the_default_of_programs_and_replaced_by_their_own() -> None:
    servers = {
        "plain": PROGRAM,
        "open": {**PROGRAM, "sandbox": False},
        "own": {**PROGRAM, "sandbox": {"write": ["out"], "net": True}},
        "object": ServerConfig(alias="object", transport="stdio", command="x"),
        "remote": "https://example.com/mcp",
    }
    assert sandboxes({"servers": servers, "sandbox": {"read": ["."]}}) == {
        "plain": Sandbox(read=(".",)),
        "open": None,
        "own": Sandbox(write=("out",), net=True),
        "object": Sandbox(read=(".",)),
        "remote": None,
    }


def test_a_server_that_is_added_later_gets_the_sandbox_of_the_bus() -> None:
    bus = load_config({"servers": {"a": PROGRAM}, "sandbox": True})
    assert load_server(PROGRAM, alias="b", bus=bus).sandbox == Sandbox()
    added = ServerConfig(alias="c", transport="stdio", command="x")
    assert load_server(added, bus=bus).sandbox == Sandbox()


@pytest.mark.parametrize(
    ("value", "key", "problem"),
    [
        ("yes", "sandbox", "expected true, false, or a mapping with read, write, net and env"),
        ({"reed": []}, "sandbox.reed", "unknown key; did you mean 'read'?"),
        ({"read": "."}, "sandbox.read", "expected a list of strings"),
        ({"net": "no"}, "sandbox.net", "expected true or false"),
        ({"write": ["/"]}, "sandbox.write[0]", "is the whole system; name the folders that the server needs"),
        ({"read": [""]}, "sandbox.read[0]", "expected a path"),
        ({"env": ["A=1"]}, "sandbox.env[0]", "expected the name of a variable; set values in env"),
    ],
)
def test_a_mistake_in_a_sandbox_is_located(value: Any, key: str, problem: str) -> None:
    for document in (
        {"servers": {"a": {**PROGRAM, "sandbox": value}}},
        {"servers": {"a": PROGRAM}, "sandbox": value},
    ):
        with pytest.raises(ConfigError) as caught:
            load_config(document)
        assert (caught.value.key, caught.value.problem) == (key, problem)


STEP = "name the folders that the server needs"
HOME = os.path.expanduser("~")


@pytest.mark.parametrize(
    ("key", "path", "problem"),
    [
        ("read", "~", "is your whole home folder"),
        ("write", "~/x/..", "is your whole home folder"),
        ("write", os.path.dirname(HOME), "is the whole system|contains whole home folders"),
        ("read", "/home", "contains whole home folders"),
        ("read", "//", "is the whole system"),
        *(("write", path, "is a whole folder of the system") for path in ("/etc", "/usr/", "/var/lib/..")),
        *(("write", path, "is a whole folder of the system") for path in ("/bin", "/lib", "/dev", "/run")),
    ],
)
def test_a_sandbox_that_holds_nothing_back(key: str, path: str, problem: str, tmp_path: Path) -> None:
    """It is refused, even if a link, a reference or a relative path leads there."""
    with pytest.raises(ConfigError, match=f"sandbox.{key}.0.: ({problem}); {STEP}"):
        load_config({"servers": {"a": {**PROGRAM, "sandbox": {key: [path]}}}})
    whole = os.path.expanduser(path)
    (tmp_path / "link").symlink_to(whole)
    for hidden in ("link", os.path.relpath(whole, tmp_path), "${FOLDER}"):
        sandbox = Sandbox(read=(hidden,)) if key == "read" else Sandbox(write=(hidden,))
        config = ServerConfig(alias="a", transport="stdio", command="x", sandbox=sandbox)
        with pytest.raises(ConfigError, match=f"sandbox.{key}.0.: ({problem}); {STEP}"):
            asyncio.run(resolved(config, Secrets(get_secret=lambda _: whole, folder=tmp_path)))


@pytest.mark.parametrize(
    ("key", "path"), [("write", "~/projects"), ("write", "/var/lib/x"), ("read", "/etc")]
)
def test_a_folder_that_a_server_may_need(key: str, path: str) -> None:
    assert sandboxes({"servers": {"a": {**PROGRAM, "sandbox": {key: [path]}}}})["a"] is not None


def test_a_server_with_a_url_cannot_have_one_of_its_own() -> None:
    with pytest.raises(ConfigError, match="sandbox: is for servers with a command"):
        load_config({"servers": {"a": {"url": "https://example.com/mcp", "sandbox": True}}})


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"a": {**PROGRAM, "sandbox": {"allow": ["/"]}}}},
        {"mcpServers": {"a": PROGRAM}, "sandbox": "docker"},
        {"inputs": [], "servers": {"a": {**PROGRAM, "sandboxEnabled": True}}},
        {"inputs": [], "servers": {"a": PROGRAM}, "sandbox": {"filesystem": {}}},
    ],
)
def test_another_hosts_sandbox_is_a_warning(document: dict[str, Any]) -> None:
    [server] = load_config(document).servers.values()
    assert server.sandbox is None
    [warning] = server.warnings
    assert "is ignored: it is another host's key, so the server is not in a sandbox" in warning


def test_another_hosts_sandbox_is_a_note_when_it_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"servers": {"a": {"command": "x", "sandbox": {"x": 1}}}, "sandbox": {"y": 2}}')
    found = imported(ImportFile(editor=FILE, path=path, folder=tmp_path))
    assert found.servers == {"a": {"command": "x"}}
    assert found.notes == (
        "sandbox was skipped: add sandbox: true, and the files that servers need",
        "server 'a': its sandbox was not imported; add sandbox: true, and the files it needs",
    )


@pytest.mark.parametrize("value", [True, False, None, {}, {"read": ["."], "net": True, "env": ["A"]}])
def test_the_schema_for_editors_takes_what_we_take(value: Any) -> None:
    document = {"servers": {"a": {**PROGRAM, "sandbox": value}}, "sandbox": value}
    load_config(document)
    assert misfits(document) == []
    assert misfits({**document, "sandbox": {"reed": ["."]}}) != []
