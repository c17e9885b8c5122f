"""`toolbus add`, `remove`, `enable`, `disable`: the config is changed as a careful person would."""

import json
import stat
import sys
from pathlib import Path

import pytest
import yaml
from dotenv import dotenv_values

from tests.cli.running import bound_by_permissions, environment, scripted, toolbus

NOTES = ["--", sys.executable, "-m", "toolbus.demo.notes", "--db", "notes.db"]
MINE = """\
# mine
servers:
  a:  # the first
    command: x

  b: https://b.test/mcp
naming: auto  # last
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a home of its own."""
    (tmp_path / "home" / "project").mkdir(parents=True)
    return tmp_path / "home" / "project"


def test_a_server_that_was_added_can_be_used_at_once(folder: Path) -> None:
    done = toolbus("add", "notes", *NOTES, folder=folder)
    listed = toolbus("tools", "notes", "--json", folder=folder)
    off = toolbus("disable", "notes", folder=folder)
    again = toolbus("disable", "notes", folder=folder)
    on = toolbus("enable", "notes", "--json", folder=folder)
    gone = toolbus("remove", "notes", folder=folder)

    assert done.stdout == "added notes to toolbus.yaml; next: toolbus tools notes\n"
    assert json.loads(listed.stdout)["servers"]["notes"]["state"] == "ready"
    assert off.stdout == "disabled notes in toolbus.yaml\n"
    assert again.stdout == "notes is already disabled in toolbus.yaml\n"
    facts = {"file": "toolbus.yaml", "server": "notes", "enabled": True, "changed": True, "trusted": True}
    assert json.loads(on.stdout) == facts
    assert gone.stdout == "removed notes from toolbus.yaml\n"
    assert (folder / "toolbus.yaml").read_text() == "servers: {}\n"


def test_secrets_of_a_new_server_go_to_env_and_the_rest_of_the_file_stays(folder: Path) -> None:
    (folder / "toolbus.yaml").write_text(MINE)
    (folder / ".env").write_text("OTHER=1\n")
    header, env = "Authorization: Bearer s3cret-1", "API_TOKEN=s3cret-2"

    web = toolbus(
        "add", "web", "https://w.test/mcp", "--header", header, "--header", "X-Team=a", folder=folder
    )
    run = toolbus("add", "run", "--json", "--env", env, "--env", "LEVEL=info", "--", "x", "-y", folder=folder)

    assert web.stdout == "added web to toolbus.yaml; next: toolbus trust\n"
    assert "headers.Authorization is a secret; moved it to .env, replaced by ${WEB_TOKEN}" in web.stderr
    facts = json.loads(run.stdout)
    assert facts["secrets"] == [{"key": "env.API_TOKEN", "name": "API_TOKEN"}]
    assert facts["entry"] == {
        "command": "x",
        "args": ["-y"],
        "env": {"API_TOKEN": "${API_TOKEN}", "LEVEL": "info"},
    }
    text = (folder / "toolbus.yaml").read_text()
    assert text.startswith(MINE.removesuffix("naming: auto  # last\n"))
    assert text.endswith("naming: auto  # last\n")
    headers = {"Authorization": "Bearer ${WEB_TOKEN}", "X-Team": "a"}
    assert yaml.safe_load(text)["servers"]["web"] == {"url": "https://w.test/mcp", "headers": headers}
    values = {"OTHER": "1", "WEB_TOKEN": "s3cret-1", "API_TOKEN": "s3cret-2"}
    assert dotenv_values(folder / ".env") == values
    assert stat.S_IMODE((folder / ".env").stat().st_mode) == 0o600
    assert "s3cret" not in text + web.stdout + web.stderr + run.stdout + run.stderr


def test_the_file_of_another_host_is_edited_in_its_own_words(folder: Path) -> None:
    file = folder / ".mcp.json"
    file.write_text('{\n  "mcpServers": {\n    "a": {"command": "x"}\n  }\n}\n')

    toolbus("add", "web", "https://w.test/mcp", folder=folder)
    toolbus("disable", "a", folder=folder)

    assert file.read_text() == (
        '{\n  "mcpServers": {\n    "a": {"command": "x", "disabled": true},\n'
        '    "web": {"type": "http", "url": "https://w.test/mcp"}\n  }\n}\n'
    )


def test_json_with_comments_is_left_alone_and_the_change_is_shown(folder: Path) -> None:
    file = folder / ".mcp.json"
    before = '{\n  "mcpServers": {\n    "a": {"command": "x"} // the first\n  }\n}\n'
    file.write_text(before)
    why = "toolbus: .mcp.json cannot be edited: it is JSON with comments; edit it by hand:"
    snippet = '{"mcpServers": {"web": {"type": "http", "url": "https://w.test/mcp"}}}'

    added = toolbus("add", "web", "https://w.test/mcp", folder=folder)
    first, *shown = added.stderr.splitlines()
    assert (added.returncode, first) == (2, why)
    assert json.loads("".join(shown)) == json.loads(snippet)
    for words, step in [
        (("disable", "a"), """set "disabled": true in the entry 'a'"""),
        (("remove", "a"), "remove the entry 'a'"),
    ]:
        done = toolbus(*words, folder=folder)
        assert (done.returncode, done.stderr) == (2, f"{why} {step}\n")
    assert file.read_text() == before


def test_mode_and_links_of_the_file_stay(folder: Path) -> None:
    kept = folder / "kept.yaml"
    kept.write_text(MINE)
    kept.chmod(0o640)
    (folder / "toolbus.yaml").symlink_to("kept.yaml")

    toolbus("remove", "a", folder=folder)

    assert (folder / "toolbus.yaml").is_symlink()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert kept.read_text() == MINE.replace("  a:  # the first\n    command: x\n\n", "")


def test_an_edit_keeps_the_trust_that_a_file_had_and_gives_none(folder: Path) -> None:
    (folder / "toolbus.yaml").write_text(MINE)

    untrusted = toolbus("add", "c", "https://c.test/mcp", "--json", folder=folder)
    refused = toolbus("tools", folder=folder)
    toolbus("trust", "--yes", folder=folder)
    trusted = toolbus("remove", "a", "--json", folder=folder)
    still = toolbus("trust", folder=folder)

    assert json.loads(untrusted.stdout)["trusted"] is False
    assert (refused.returncode, "is not trusted yet" in refused.stderr) == (2, True)
    assert json.loads(trusted.stdout)["trusted"] is True
    assert still.stdout == "toolbus.yaml is already trusted\n"


def test_a_named_file_is_created_or_edited_and_a_comment_in_an_empty_one_stays(folder: Path) -> None:
    (folder / "toolbus.yaml").write_text("# my servers\n")

    done = toolbus("add", "w", "https://w.test/sse", "--config", "new.toml", folder=folder)
    toolbus("add", "w", "https://w.test/mcp", "--transport", "sse", folder=folder)

    assert done.stdout == "added w to new.toml; next: toolbus tools w --config new.toml\n"
    assert (folder / "new.toml").read_text() == '[servers.w]\nurl = "https://w.test/sse"\n'
    expected = "# my servers\nservers:\n  w:\n    transport: sse\n    url: https://w.test/mcp\n"
    assert (folder / "toolbus.yaml").read_text() == expected


def test_a_server_with_a_sign_in_or_a_token_is_added(folder: Path) -> None:
    signed = toolbus("add", "a", "https://a.test/mcp", "--auth", "OAuth", folder=folder)
    referring = toolbus("add", "b", "https://b.test/mcp", "--auth", "${TOKEN}", folder=folder)
    literal = toolbus("add", "c", "https://c.test/mcp", "--auth", "s3cr3t-token", folder=folder)

    assert signed.stdout == "added a to toolbus.yaml; next: toolbus login a\n"
    assert referring.stdout == "added b to toolbus.yaml; next: toolbus tools b\n"
    assert literal.stderr == "auth.token is a secret; moved it to .env, replaced by ${C_TOKEN}\n"
    servers = yaml.safe_load((folder / "toolbus.yaml").read_text())["servers"]
    auths = {alias: entry["auth"] for alias, entry in servers.items()}
    assert auths == {"a": "oauth", "b": "${TOKEN}", "c": "${C_TOKEN}"}
    for words, message in {
        ("https://d.test/mcp", "--auth", "workload"): "server 'd': auth: ",
        ("--auth", "oauth", "--", "x"): "--auth is for a URL, and 'x' is not one",
    }.items():
        done = toolbus("add", "d", *words, folder=folder)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_what_cannot_be_edited_is_shown_to_be_pasted(folder: Path) -> None:
    text = "servers:\n- alias: a\n  command: x\n"
    (folder / "toolbus.yaml").write_text(text)

    done = toolbus("add", "b", "https://b.test/mcp", folder=folder)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "toolbus: toolbus.yaml cannot be edited: its servers are a list; edit it by hand:\n"
        "servers:\n  b:\n    url: https://b.test/mcp\n"
    )
    assert (folder / "toolbus.yaml").read_text() == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["add", "a", "--", "y"],
            "toolbus.yaml already has a server 'a'; to replace it, first run: toolbus remove a",
        ),
        (["add", "no/name", "--", "y"], "invalid server name 'no/name'; use letters, digits, "),
        (["add", "new", "ftp://x.test"], "expected a URL that starts with http:// or https://"),
        (
            ["add", "new", "x.test/mcp"],
            "'x.test/mcp' is not a command on this machine; a URL starts with http:// or https://",
        ),
        (
            ["add", "new", "https://x.test", "more"],
            "unexpected 'more' after the URL; to add a command, run toolbus add new -- COMMAND",
        ),
        (
            ["add", "new", "no-program", "more"],
            "'no-program' is no program; to add a command, run: toolbus add new -- COMMAND",
        ),
        (["add", "new", "nothere.py"], "'nothere.py': no such file; check the path"),
        (
            ["add", "new", "--", "shop.py", "more"],
            "'shop.py' is no program; to run it, put its Python before it: -- python shop.py",
        ),
        (["add", "new", "https://x.test", "--env", "A=b"], "--env is for a command, not for a URL"),
        (["add", "new", "--header", "A=b", "--", "y"], "--header is for a URL, and 'y' is not one"),
        (["add", "new", "--env", "TOKEN", "--", "y"], "--env takes KEY=VALUE, not 'TOKEN'"),
        (["add", "new", "https://x.test", "--transport", "pigeon"], "unknown transport 'pigeon'"),
        (["remove", "aa"], "no server 'aa' in toolbus.yaml; did you mean 'a'?"),
        (["disable", "other"], "no server 'other' in toolbus.yaml; known servers: a, b"),
        (["remove", "a", "--config", "nope.yaml"], "'nope.yaml': no such file; check the path"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line_and_nothing_changes(
    arguments: list[str], message: str, folder: Path
) -> None:
    (folder / "toolbus.yaml").write_text(MINE)

    done = toolbus(*arguments, folder=folder)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert (folder / "toolbus.yaml").read_text() == MINE
    assert [path.name for path in folder.iterdir()] == ["toolbus.yaml"]


def test_a_server_that_the_config_needs_elsewhere_is_not_removed(folder: Path) -> None:
    text = MINE + "context:\n- {server: a, uri: 'x://y'}\n"
    (folder / "toolbus.yaml").write_text(text)

    done = toolbus("remove", "a", folder=folder)

    assert done.returncode == 2
    assert done.stderr.startswith("toolbus: the change would make toolbus.yaml invalid: context")
    assert (folder / "toolbus.yaml").read_text() == text


def test_a_broken_server_can_be_removed(folder: Path) -> None:
    (folder / "toolbus.yaml").write_text(MINE.replace("command: x", "comand: x"))

    done = toolbus("remove", "a", folder=folder)

    assert done.stdout == "removed a from toolbus.yaml\n"
    assert list(yaml.safe_load((folder / "toolbus.yaml").read_text())["servers"]) == ["b"]


def test_a_folder_that_does_not_exist_is_told_of(folder: Path) -> None:
    made = toolbus("add", "w", "https://w.test", "--config", "missing/toolbus.yaml", folder=folder)

    assert made.returncode == 1
    problem = "cannot be written (No such file or directory); check its folder"
    assert made.stderr == f"toolbus: {problem}: 'missing/toolbus.yaml'\n"


def test_a_file_that_may_not_be_written_stays(folder: Path) -> None:
    (folder / "toolbus.yaml").write_text(MINE)
    (folder / "toolbus.yaml").chmod(0o444)

    done = toolbus("remove", "a", folder=folder, prefix=bound_by_permissions())

    assert (done.returncode, (folder / "toolbus.yaml").read_text()) == (1, MINE)
    assert done.stderr == "toolbus: not writable; change its permissions: 'toolbus.yaml'\n"


def test_names_of_servers_that_are_off_are_completed_for_enable(folder: Path) -> None:
    (folder / "toolbus.yaml").write_text("servers: {one: u, only_off: {url: u, enabled: false}}\n")
    seen = {"_TOOLBUS_COMPLETE": "complete_bash", "COMP_WORDS": "toolbus enable o", "COMP_CWORD": "2"}

    done = toolbus(folder=folder, env={**environment(folder.parent), **seen})

    assert done.stdout.split() == ["one", "only_off"]


def test_a_disabled_server_is_named_as_such_and_how_to_enable_it(folder: Path) -> None:
    own = scripted(folder, "own", tools=[])
    (folder / "toolbus.yaml").write_text(json.dumps({"servers": {"cmd": own, "cmd2": own}}))
    toolbus("disable", "cmd", "--config", "toolbus.yaml", folder=folder)

    named = toolbus("tools", "cmd", "--config", "toolbus.yaml", folder=folder)
    others = toolbus("tools", "--config", "toolbus.yaml", folder=folder)
    toolbus("disable", "cmd2", "--config", "toolbus.yaml", folder=folder)
    none = toolbus("tools", "--config", "toolbus.yaml", folder=folder)

    assert (
        named.stderr
        == "toolbus: toolbus.yaml: server 'cmd': disabled; run 'toolbus enable cmd --config toolbus.yaml'\n"
    )
    assert (others.returncode, others.stderr) == (0, "disabled: cmd\n")
    assert none.stderr == (
        "toolbus: toolbus.yaml: all servers are disabled; run 'toolbus enable cmd --config toolbus.yaml'\n"
    )


def test_what_looks_like_a_host_is_not_added_as_a_command(folder: Path) -> None:
    done = toolbus("add", "web", "localhost:8766/mcp", folder=folder)
    assert (done.returncode, done.stderr) == (
        2,
        "toolbus: 'localhost:8766/mcp' is not a command on this machine; a URL starts with http:// or https://\n",
    )


def test_a_python_file_is_added_as_tools_save_adds_it(folder: Path) -> None:
    (folder / "shop.py").write_text("from mcp.server.mcpserver import MCPServer\nshop = MCPServer('shop')\n")
    saved = toolbus("tools", "shop.py", "--save", "one", folder=folder)
    added = toolbus("add", "two", "shop.py", folder=folder)
    assert (saved.returncode, added.returncode) == (0, 0), saved.stderr + added.stderr
    servers = json.loads(toolbus("config", "--json", folder=folder).stdout)["servers"]
    assert servers["one"] == servers["two"]


def test_init_into_a_folder_that_is_not_there_says_so(folder: Path) -> None:
    done = toolbus("init", "--config", "x/y.yaml", folder=folder)
    assert (done.returncode, done.stderr) == (
        2,
        "toolbus: the folder 'x' does not exist; create it first\n",
    )
