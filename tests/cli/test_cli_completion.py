"""What Tab offers: commands, servers, tools and arguments of the last listing; it starts no server."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import scripted, toolbus, write_config

COMMANDS = ["demo", "tools", "call", "chat", "check", "watch", "init", "import", "config"]
SEND: dict[str, Any] = {
    "name": "send",
    "description": "Send a letter.",
    "inputSchema": {"type": "object", "properties": {"to": {}, "text": {}, "copies": {}}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose servers have been listed once."""
    folder = tmp_path_factory.mktemp("home") / "work"
    folder.mkdir()
    post = scripted(folder, "post", tools=[SEND, {"name": "read"}], marker=str(folder / "started"))
    write_config(folder, {"post": post, "attic": {"command": "no-such-program"}})
    assert toolbus("tools", folder=folder).returncode == 0
    (folder / "started").unlink()
    return folder


def offered(line: str, folder: Path, **more: str) -> list[str]:
    """What bash is offered at the end of the line."""
    words = line.split(" ")
    env = {"_TOOLBUS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    run = toolbus(folder=folder, env=env | more)
    assert (run.returncode, run.stderr) == (0, "")
    assert not (folder / "started").exists()
    return run.stdout.split()


def test_commands_and_options_are_offered(folder: Path) -> None:
    assert offered("toolbus ", folder) == COMMANDS
    assert offered("toolbus c", folder) == ["call", "chat", "check", "config"]
    assert offered("toolbus tools --s", folder) == ["--search"]


def test_servers_are_offered_from_the_config(folder: Path) -> None:
    assert offered("toolbus check ", folder) == ["post", "attic"]
    assert offered("toolbus tools po", folder) == ["post"]
    (folder / "other.json").write_text('{"servers": {"else": {"command": "x"}}}')
    assert offered("toolbus --config other.json watch ", folder) == ["else"]
    assert offered("toolbus watch --config other.json ", folder) == ["else"]


def test_tools_and_their_arguments_are_offered_from_the_last_listing(folder: Path) -> None:
    assert offered("toolbus call ", folder) == ["post_read", "post_send"]
    assert offered("toolbus call post_s", folder) == ["post_send"]
    assert offered("toolbus call post_send ", folder) == ["to=", "text=", "copies="]
    assert offered("toolbus call post_send to=me t", folder) == ["text="]
    assert offered("toolbus call unknown ", folder) == []


def test_nothing_is_offered_and_nothing_said_where_nothing_is_known(tmp_path: Path) -> None:
    assert offered("toolbus call ", tmp_path) == []
    assert offered("toolbus tools ", tmp_path) == []
    (tmp_path / "toolbus.yaml").write_text("servers: [")
    assert offered("toolbus check ", tmp_path) == []


def test_a_damaged_listing_is_no_listing(folder: Path, tmp_path: Path) -> None:
    write_config(tmp_path, {"post": {"command": "x"}})
    assert offered("toolbus call ", tmp_path) == []
    cache = tmp_path / "cache"
    assert toolbus("tools", "post", folder=folder, env={"XDG_CACHE_HOME": str(cache)}).returncode == 0
    (folder / "started").unlink()
    (listing,) = (cache / "toolbus" / "listings").iterdir()
    for content in ("{", "[]", "null", '{"post_send": 1}', '{"post_send": {}}'):
        listing.write_text(content)
        assert offered("toolbus call ", folder, XDG_CACHE_HOME=str(cache)) == []
