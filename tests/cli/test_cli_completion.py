"""The offers of Tab: commands, servers, and the last listings; no server is started."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import scripted, toolbus, write_config
from tests.cli.tab import printed
from tests.conftest import sampled
from tests.inside.cli import SAFE

COMMANDS = [
    *("demo", "init", "add", "import", "install", "check"),
    *("tools", "search", "call", "read", "prompt", "skill", "script", "chat", "tape"),
    *("up", "down", "status", "login", "logout", "logs"),
    *("serve", "console", "key", "store"),
    *("trust", "lock", "policy", "audit"),
    *("config", "update", "remove", "enable", "disable"),
    "runs",
]
SEND: dict[str, Any] = {
    "name": "send",
    "description": "Send a letter.",
    "inputSchema": {"type": "object", "properties": {"to": {}, "text": {}, "copies": {}}},
}

OFFERS: dict[str, Any] = {
    "resources": [{"uri": "box://inbox", "name": "inbox", "description": "What came."}],
    "templates": [{"uriTemplate": "box://{user}/{+path}", "name": "path"}],
    "prompts": [{"name": "reply", "arguments": [{"name": "tone", "required": True}, {"name": "to"}]}],
}
SHELLS = ["bash", "zsh", "fish", "powershell", "pwsh"]


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


def offered(line: str, folder: Path, **more: str) -> list[str]:
    """The offers of bash at the end of the line."""
    lines = printed("bash", line, folder, **more).splitlines()
    assert not (folder / "started").exists()
    return lines


def test_commands_and_options_are_offered(folder: Path) -> None:
    assert offered("toolbus ", folder) == COMMANDS
    assert offered("toolbus re", folder) == ["read", "remove"]
    assert offered("toolbus c", folder) == ["check", "call", "chat", "console", "config"]
    assert offered("toolbus tools --f", folder) == ["--full"]
    assert offered("toolbus tools --j", folder) == ["--json"]  # the help leaves it to the root


def test_old_spellings_complete_their_words_but_are_not_offered(folder: Path) -> None:
    assert offered("toolbus di", folder) == ["disable"]
    assert offered("toolbus tools --sea", folder) == []
    assert offered("toolbus resources p", folder) == ["post"]
    assert offered("toolbus diff a", folder) == ["attic"]


def test_the_commands_of_a_group_are_offered_beside_its_own_arguments(folder: Path) -> None:
    assert offered("toolbus lock ", folder) == ["diff", "approve", "post", "attic"]
    assert offered("toolbus lock a", folder) == ["approve", "attic"]
    assert offered("toolbus lock post a", folder) == ["attic"]
    assert offered("toolbus lock diff a", folder) == ["attic"]
    (folder / "third.json").write_text('{"servers": {"third": {"command": "x"}}}')
    assert offered("toolbus --config third.json lock diff ", folder) == ["third"]
    assert offered("toolbus lock approve post/s", folder) == ["post/send"]
    assert offered("toolbus runs w", folder) == ["watch", "worker"]


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


def test_what_a_policy_decides_about_is_offered(folder: Path) -> None:
    assert offered("toolbus policy ", folder) == ["post_read", "post_send"]
    assert offered("toolbus policy post/s", folder) == ["post/send"]
    assert offered("toolbus policy post_send to=me t", folder) == ["text="]
    assert offered("toolbus policy --resource post/", folder) == ["post/box://inbox"]
    assert offered("toolbus policy --prompt post/", folder) == ["post/reply"]
    requests = ["post/elicitation", "post/sampling", "post/roots"]
    assert offered("toolbus policy --request post/", folder) == requests
    assert offered("toolbus policy --forget post", folder) == ["post", "post/read", "post/send"]


def test_nothing_is_offered_and_nothing_said_where_nothing_is_known(tmp_path: Path) -> None:
    assert offered("toolbus call ", tmp_path) == []
    assert offered("toolbus tools ", tmp_path) == []
    (tmp_path / "toolbus.yaml").write_text("servers: [")
    assert offered("toolbus check ", tmp_path) == []


def test_a_damaged_listing_is_no_listing(folder: Path, tmp_path: Path) -> None:
    write_config(tmp_path, {"post": {"command": "x"}})
    assert offered("toolbus call ", tmp_path) == []
    kept = tmp_path / "kept"
    words = ["tools", "post", "--config", "toolbus.yaml"]
    assert toolbus(*words, folder=folder, env={"XDG_STATE_HOME": str(kept)}).returncode == 0
    (folder / "started").unlink()
    (listing,) = (kept / "toolbus" / "listings").iterdir()
    assert listing.stat().st_mode & 0o777 == 0o600
    facts = '"digest": "", "at": 0, "origins": {}, "uris": {}, "prompts": {}'
    own = '{"post": {' + facts + ', "tools": {"post_send": %s}}}'
    for content in (
        "{",
        "[]",
        "null",
        '{"post": 1}',
        '{"post": {}}',
        own % 5,
        own % "{}",
        "[" * 100_000,
        "\0",
    ):
        listing.write_text(content)
        assert offered("toolbus call ", folder, XDG_STATE_HOME=str(kept)) == []


def test_what_can_be_read_and_what_a_template_needs_are_offered(folder: Path) -> None:
    assert offered("toolbus read p", folder) == ["post"]
    # A template has braces, which shells expand.
    assert offered("toolbus read ", folder) == ["post", "attic", "box://inbox"]
    assert offered("toolbus read post ", folder) == ["box://inbox"]
    assert offered("toolbus read post box://i", folder) == ["box://inbox"]
    assert offered("toolbus read attic ", folder) == []
    for begin in ("toolbus read post", "toolbus read"):
        assert offered(f"{begin} box://{{user}}/{{+path}} ", folder) == ["user=", "path="]
        assert offered(f"{begin} 'box://{{user}}/{{+path}}' user=ann p", folder) == ["path="]


def test_prompts_and_their_arguments_are_offered(folder: Path) -> None:
    assert offered("toolbus prompts a", folder) == ["attic"]
    assert offered("toolbus prompt ", folder) == ["post", "attic", "post/reply"]
    assert offered("toolbus prompt re", folder) == ["reply"]
    for name in ("reply", "post/reply"):
        assert offered(f"toolbus prompt {name} ", folder) == ["tone=", "to="]
        assert offered(f"toolbus prompt {name} tone=kind t", folder) == ["to="]
        assert offered(f"toolbus prompt {name} tone=", folder) == []
    assert offered("toolbus prompt unknown ", folder) == []


def test_each_shell_gets_names_in_the_form_that_its_script_reads(folder: Path) -> None:
    names = "toolbus call ", "toolbus call post_send t"
    assert [printed("bash", line, folder) for line in names] == ["post_read\npost_send\n", "to=\ntext=\n"]
    assert [printed("fish", line, folder) for line in names] == ["post_read\npost_send\n", "to=\ntext=\n"]
    assert [printed("zsh", line, folder) for line in names] == [
        "compadd -- 'post_read' 'post_send';\n",
        "compadd -S '' -- 'to=' 'text=';\n",
    ]
    for shell in ("powershell", "pwsh"):
        assert [printed(shell, line, folder) for line in names] == [
            "post_read::: \npost_send::: \n",
            "to=::: \ntext=::: \n",
        ]


def test_only_names_of_safe_characters_pass() -> None:
    """Held here once more, so that nobody adds a character without looking at every shell."""
    for character in (*map(chr, range(128)), "\x85", "\xa0", "\xe9", "\u2028", "\u202e", "\uff1b"):
        is_safe = character.isascii() and (character.isalnum() or character in "_.:/@+%-")
        assert bool(SAFE.fullmatch(f"a{character}b")) is is_safe
        assert bool(SAFE.fullmatch(f"{character}ab")) is (is_safe and character not in ".:/@+%-")
        assert bool(SAFE.fullmatch(f"ab{character}")) is (is_safe or character == "=")


def test_no_name_looks_like_an_option(folder: Path, tmp_path: Path) -> None:
    write_config(tmp_path, {"--json": {"command": "x"}, "-v": {"command": "x"}, "--": {"command": "x"}})
    for line in ("toolbus tools ", "toolbus tools -- ", "toolbus tools -- -"):
        assert offered(line, tmp_path) == []
    assert offered("toolbus tools --j", tmp_path) == ["--json"]


BOMB = "".join(f"a{level + 1}: &a{level + 1} {{<<: [*a{level}, *a{level}]}}\n" for level in range(60))
CONFIGS = {
    "broken": "servers: [",
    "binary": "\x00\x01",
    "no servers": "servers: 5",
    "deep": "[" * 100_000,
    "huge": "servers: {post: {command: x}}\n" + "# long\n" * 200_000,
    "bomb": f"a0: &a0 {{x: 1}}\n{BOMB}servers: {{post: {{command: x}}}}\n",
}


@pytest.mark.parametrize("trouble", sampled(list(CONFIGS), "broken", "binary", "no servers", "bomb"))
def test_a_config_that_cannot_be_read_offers_nothing_in_silence(tmp_path: Path, trouble: str) -> None:
    (tmp_path / "toolbus.yaml").write_text(CONFIGS[trouble])
    assert offered("toolbus tools ", tmp_path) == []


def test_a_config_that_takes_forever_to_read_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never.yaml")
    assert offered("toolbus --config never.yaml tools ", tmp_path) == []


def test_completing_fills_in_nothing_of_the_config(tmp_path: Path) -> None:
    entry = {
        "command": "${cmd:touch started}",
        "env": {"KEY": "${cmd:touch started}", "OTHER": "${file:gone}"},
    }
    write_config(tmp_path, {"post": entry, "off": {"command": "x", "enabled": False}})
    for shell in SHELLS:
        assert "post" in printed(shell, "toolbus tools ", tmp_path)
        assert "off" not in printed(shell, "toolbus tools ", tmp_path)
    assert not (tmp_path / "started").exists()
