"""What Tab offers: commands, servers, what was listed last; only for values a server is started."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import scripted, toolbus, write_config

COMMANDS = [
    "demo",
    "trust",
    "tools",
    "call",
    "resume",
    "resources",
    "read",
    "prompts",
    "prompt",
    "chat",
    "check",
    "watch",
    "init",
    "import",
    "config",
]
SEND: dict[str, Any] = {
    "name": "send",
    "description": "Send a letter.",
    "inputSchema": {"type": "object", "properties": {"to": {}, "text": {}, "copies": {}}},
}

OFFERS: dict[str, Any] = {
    "resources": [{"uri": "box://inbox", "name": "inbox", "description": "What came."}],
    "templates": [{"uriTemplate": "box://{user}/{+path}", "name": "path"}],
    "prompts": [
        {"name": "reply", "arguments": [{"name": "tone", "required": True}, {"name": "to"}, {"name": "none"}]}
    ],
    "completions": {
        "tone": ["kind", "keen", "a b"],
        "user": ["ann", "bo"],
        "path": {"ann": ["in/1", "in/2"], "bo": ["out/3"]},
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose servers have been listed once."""
    folder = tmp_path_factory.mktemp("home") / "work"
    folder.mkdir()
    marker = str(folder / "started")
    post = scripted(folder, "post", tools=[SEND, {"name": "read"}], marker=marker, **OFFERS)
    write_config(folder, {"post": post, "attic": {"command": "no-such-program"}})
    assert toolbus("tools", folder=folder).returncode == 0
    (folder / "started").unlink()
    return folder


def offered(line: str, folder: Path, *, starts: bool = False, **more: str) -> list[str]:
    """What bash is offered at the end of the line; no server is started for it, or one."""
    words = line.split(" ")
    env = {"_TOOLBUS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    run = toolbus(folder=folder, env=env | more)
    assert (run.returncode, run.stderr) == (0, "")
    assert (folder / "started").exists() is starts
    (folder / "started").unlink(missing_ok=True)
    return run.stdout.splitlines()


def test_commands_and_options_are_offered(folder: Path) -> None:
    assert offered("toolbus ", folder) == COMMANDS
    assert offered("toolbus re", folder) == ["resume", "resources", "read"]
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


def test_what_can_be_read_and_what_a_template_needs_are_offered(folder: Path) -> None:
    template = r"box://\{user\}/\{+path\}"
    assert offered("toolbus resources p", folder) == ["post"]
    assert offered("toolbus read ", folder) == ["post", "attic", "box://inbox", template]
    assert offered("toolbus read post ", folder) == ["box://inbox", template]
    assert offered("toolbus read post box://i", folder) == ["box://inbox"]
    assert offered("toolbus read attic ", folder) == []
    for begin in ("toolbus read post", "toolbus read"):
        assert offered(f"{begin} box://{{user}}/{{+path}} ", folder) == ["user=", "path="]
        assert offered(f"{begin} 'box://{{user}}/{{+path}}' user=ann p", folder) == ["path="]


def test_prompts_and_their_arguments_are_offered(folder: Path) -> None:
    assert offered("toolbus prompts a", folder) == ["attic"]
    assert offered("toolbus prompt ", folder) == ["post/reply"]
    assert offered("toolbus prompt re", folder) == ["reply"]
    for name in ("reply", "post/reply"):
        assert offered(f"toolbus prompt {name} ", folder) == ["tone=", "to=", "none="]
        assert offered(f"toolbus prompt {name} tone=kind t", folder) == ["to="]
    assert offered("toolbus prompt unknown tone=", folder) == []


def test_the_values_of_an_argument_come_from_the_server_itself(folder: Path) -> None:
    assert offered("toolbus prompt post/reply tone=", folder, starts=True) == [
        "tone=kind",
        "tone=keen",
        r"tone=a\ b",
    ]
    assert offered("toolbus prompt post/reply tone=ki", folder, starts=True) == ["tone=kind"]
    assert offered("toolbus prompt reply none=", folder, starts=True) == []
    template = "'box://{user}/{+path}'"
    assert offered(f"toolbus read post {template} user=", folder, starts=True) == ["user=ann", "user=bo"]
    for user, paths in (("ann", ["path=in/1", "path=in/2"]), ("bo", ["path=out/3"])):
        assert offered(f"toolbus read {template} user={user} path=", folder, starts=True) == paths


@pytest.mark.parametrize("trouble", ["silent", "gone", "removed"])
def test_a_server_that_does_not_answer_offers_nothing_in_time(tmp_path: Path, trouble: str) -> None:
    cache = str(tmp_path / "cache")
    write_config(tmp_path, {"post": scripted(tmp_path, "post", **OFFERS)})
    assert toolbus("prompts", folder=tmp_path, env={"XDG_CACHE_HOME": cache}).returncode == 0
    servers: dict[str, Any] = {
        "silent": {"post": scripted(tmp_path, "post", waits=True, **OFFERS)},
        "gone": {"post": {"command": "no-such-program"}},
        "removed": {},
    }[trouble]
    write_config(tmp_path, servers)
    assert offered("toolbus prompt post/reply tone=", tmp_path, XDG_CACHE_HOME=cache) == []
