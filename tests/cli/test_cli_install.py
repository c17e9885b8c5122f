"""`toolbus install`: an editor gets the entry that starts the gateway, and loses nothing else."""

import json
import shlex
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import TOOLBUS, toolbus, write_config
from tests.cli.terminal import terminal
from tests.inside.config import EDITORS, Location, host_config, read_document, without_comments
from toolbus.config import ServerConfig, load_server

ZED = """\
// Zed settings
//
// For information on how to configure Zed, see the Zed documentation
{
  "ui_font_size": 16, // large, please
  "theme": {
    "mode": "system",
  },
}
"""
CODEX = """\
model = "gpt-5.1"

# the only one so far
[mcp_servers.docs]
command = "npx"
args = ["-y", "docs"]
"""
GOOSE = """\
GOOSE_PROVIDER: openai  # mine
extensions:
  developer:
    enabled: true
    type: builtin
GOOSE_MODEL: gpt-5.1
"""
CURSOR = '{\n    "mcpServers": {\n        "hub": {"command": "npx", "env": {"TOKEN": "s3cret"}}\n    }\n}\n'
VSCODE = '{\n\t"servers": {},\n\t"inputs": []\n}\n'
FILES = {
    "claude": (".config/Claude/claude_desktop_config.json", '{"globalShortcut": "Alt+Space"}'),
    "claude-code": (".claude.json", '{\n  "numStartups": 3,\n  "projects": {"/p": {"mcpServers": {}}}\n}'),
    "cursor": (".cursor/mcp.json", CURSOR),
    "vscode": (".config/Code/User/mcp.json", VSCODE),
    "windsurf": (".codeium/windsurf/mcp_config.json", ""),
    "gemini": (".gemini/settings.json", '{\n  "theme": "Default"\n}\n'),
    "goose": (".config/goose/config.yaml", GOOSE),
    "codex": (".codex/config.toml", CODEX),
    "zed": (".config/zed/settings.json", ZED),
    "opencode": (".config/opencode/opencode.json", '{"$schema": "https://opencode.ai/config.json"}'),
}
"""The file of each editor on Linux, as its user may have it."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a config that its user trusts, in a home of its own."""
    folder = tmp_path / "home" / "project"
    folder.mkdir(parents=True)
    write_config(folder, {"notes": {"command": "python"}})
    return folder


def with_file(project: Path, editor: str) -> Path:
    """The editor's file, in the home of the project."""
    name, text = FILES[editor]
    file = project.parent / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def content(file: Path) -> Any:
    text = file.read_text()
    if file.suffix == ".toml":
        return tomllib.loads(text)
    return yaml.safe_load(text) if file.suffix == ".yaml" else json.loads(without_comments(text) or "{}")


def read_as_import_does(file: Path, editor: str) -> ServerConfig:
    """The entry as `toolbus import` reads that file."""
    location = Location(file=str(file))
    found = host_config(read_document(file), host=editor, folder=file.parent, location=location)
    return load_server(found.entries["toolbus"], alias="gateway")


def served(project: Path) -> list[str]:
    return [TOOLBUS, "serve", "--stdio", "--config", str(project / "toolbus.yaml")]


def test_every_editor_that_can_be_imported_can_be_installed() -> None:
    assert list(FILES) == list(EDITORS)


@pytest.mark.parametrize("editor", FILES)
def test_an_editor_gets_the_entry_and_loses_it_again(editor: str, project: Path) -> None:
    file = with_file(project, editor)
    before = content(file)

    added = toolbus("install", editor, "--yes", folder=project)
    again = toolbus("install", editor, "--yes", folder=project)
    written = file.read_text()
    entry = read_as_import_does(file, editor)
    imported = toolbus("import", editor, "--json", folder=project)
    removed = toolbus("install", editor, "--remove", "--yes", folder=project)
    gone = toolbus("install", editor, "--remove", "--yes", folder=project)

    shown = f"~/{FILES[editor][0]}"
    assert added.stdout == f"added toolbus to {shown}; restart {EDITORS[editor].title} to use it\n", (
        added.stderr
    )
    assert again.stdout == f"toolbus is already in {shown}\n"
    command, *args = served(project)
    assert (entry.command, list(entry.args)) == (command, args)
    assert "server 'toolbus' was skipped: it is toolbus" in json.loads(imported.stdout)["notes"]
    assert all(line in written for line in FILES[editor][1].splitlines() if "# " in line or "// " in line)
    assert removed.stdout == f"removed toolbus from {shown}\n"
    assert gone.stdout == f"toolbus is not in {shown}\n"
    after = {key: value for key, value in content(file).items() if value or key in before}
    assert after == before


@pytest.mark.parametrize("editor", FILES)
def test_an_editor_connects_to_a_running_gateway_with_a_key_from_a_variable(
    editor: str, project: Path
) -> None:
    file = with_file(project, editor)
    url = "https://tools.example.com/mcp"

    words = ["--url", url, "--key", "${GATEWAY_KEY}", "--name", "gateway"]
    done = toolbus("install", editor, "--yes", *words, folder=project)
    imported = toolbus("import", editor, "--json", folder=project)

    if editor == "claude":
        why = "the config of Claude Desktop has no place for a URL; leave out --url, and it starts toolbus"
        assert (done.returncode, done.stderr) == (2, f"toolbus: {why}\n")
    elif editor == "zed":
        why = "Zed reads no variables in headers; pass the key itself: --key -"
        assert (done.returncode, done.stderr) == (2, f"toolbus: {why}\n")
    else:
        assert done.stdout.startswith(f"added gateway to ~/{FILES[editor][0]}; ")
        backup, key = done.stderr.splitlines()
        assert "to undo this, run: toolbus install" in backup
        assert key == f"set GATEWAY_KEY to the key where {EDITORS[editor].title} starts"
        entry = json.loads(imported.stdout)["servers"]["gateway"]
        assert entry["url"] == url
        assert "GATEWAY_KEY" in json.dumps(entry)
        assert "GATEWAY_KEY" in file.read_text()


def test_a_key_from_stdin_is_written_for_the_owner_only_and_never_shown(project: Path) -> None:
    file = with_file(project, "zed")
    words = ["install", "zed", "--url", "http://127.0.0.1:7400/mcp", "--key", "-"]

    shown = toolbus(*words, folder=project, input="tb_s3cret\n")
    done = toolbus(*words, "--yes", "--json", folder=project, input="tb_s3cret\n")

    assert shown.returncode == 2
    assert "Bearer ***" in shown.stdout
    assert json.loads(done.stdout)["entry"]["headers"] == {"Authorization": "Bearer ***"}
    assert "s3cret" not in shown.stdout + shown.stderr + done.stdout + done.stderr
    headers = {"Authorization": "Bearer tb_s3cret"}
    assert content(file)["context_servers"]["toolbus"]["headers"] == headers
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_terminal_nothing_is_written_unless_asked_for(project: Path) -> None:
    file = with_file(project, "cursor")

    shown = toolbus("install", "cursor", folder=project)
    facts = toolbus("install", "cursor", "--json", folder=project)
    printed = toolbus("install", "cursor", "--print", folder=project)

    command, *args = served(project)
    entry = {"command": command, "args": args}
    assert (shown.returncode, facts.returncode, printed.returncode) == (2, 2, 0)
    assert json.loads(shown.stdout) == json.loads(printed.stdout) == {"mcpServers": {"toolbus": entry}}
    why = "~/.cursor/mcp.json was not changed; to change it without being asked, pass --yes\n"
    assert shown.stderr == why
    assert printed.stderr == "for Cursor, in ~/.cursor/mcp.json:\n"
    assert json.loads(facts.stdout) == {
        "editor": "cursor",
        "file": str(file),
        "name": "toolbus",
        "done": "nothing",
        "entry": entry,
    }
    assert file.read_text() == CURSOR


def test_a_person_is_asked_on_a_terminal(project: Path) -> None:
    file = with_file(project, "codex")

    with terminal("install", "codex", folder=project) as screen:
        seen = screen.until("Add this to ~/.codex/config.toml? [y/N]: ")
        screen.press("n\n")
        assert screen.ended() == 1
    assert "[mcp_servers.toolbus]" in seen
    assert file.read_text() == CODEX
    with terminal("install", "codex", folder=project) as screen:
        screen.until("[y/N]: ")
        screen.press("y\n")
        assert screen.ended() == 0

    command, *args = served(project)
    added = f"\n[mcp_servers.toolbus]\ncommand = {json.dumps(command)}\nargs = {json.dumps(args)}\n"
    assert file.read_text() == CODEX + added


def test_an_entry_of_somebody_else_is_not_replaced_or_removed(project: Path) -> None:
    file = project.parent / ".cursor" / "mcp.json"
    file.parent.mkdir()
    other = '{"mcpServers": {"toolbus": {"command": "npx", "args": ["toolbus-ui"], "env": {"T": "s3cret"}}}}'
    file.write_text(other)

    added = toolbus("install", "cursor", "--yes", folder=project)
    removed = toolbus("install", "cursor", "--remove", "--yes", folder=project)
    listed = toolbus("install", folder=project)
    with terminal("install", "cursor", folder=project) as screen:
        seen = screen.until("Replace it with this? [y/N]: ")
        screen.press("\x04")
        assert screen.ended() == 1

    there = "~/.cursor/mcp.json has another entry 'toolbus', which starts npx"
    advice = "pass another --name, or leave out --yes to be asked"
    assert (added.returncode, added.stderr) == (2, f"toolbus: {there}; {advice}\n")
    assert (removed.returncode, removed.stderr.count("\n")) == (2, 1)
    assert removed.stderr.endswith("is not for toolbus, which starts npx; remove it by hand\n")
    assert listed.stdout == "cursor  ~/.cursor/mcp.json  other: starts npx\n"
    assert "~/.cursor/mcp.json has an entry 'toolbus', which starts npx" in seen
    assert file.read_text() == other
    named = toolbus("install", "cursor", "--yes", "--name", "all_tools", folder=project)
    assert named.returncode == 0
    assert list(content(file)["mcpServers"]) == ["toolbus", "all_tools"]


def test_an_own_entry_is_replaced_when_the_config_is_another(project: Path) -> None:
    file = with_file(project, "zed")
    toolbus("install", "zed", "--yes", folder=project)

    other = project / "other.yaml"
    other.write_text("servers: {}\n")
    done = toolbus("install", "zed", "--yes", "--view", "few", "--config", "other.yaml", folder=project)

    assert done.stdout == "replaced toolbus in ~/.config/zed/settings.json; restart Zed to use it\n"
    args = ["serve", "--stdio", "--config", str(other), "--view", "few"]
    assert content(file)["context_servers"]["toolbus"] == {"command": TOOLBUS, "args": args}
    assert [line for line in ZED.splitlines() if "//" in line] == [
        line for line in file.read_text().splitlines() if "//" in line
    ]


def test_the_editors_on_this_machine_are_listed(project: Path) -> None:
    with_file(project, "cursor")
    with_file(project, "codex").write_text("model = \n")
    (project.parent / ".gemini").mkdir()
    toolbus("install", "cursor", "--yes", folder=project)

    listed = toolbus("install", folder=project)
    facts = toolbus("install", "--json", folder=project)
    other = toolbus("install", "--name", "hub", folder=project)

    assert listed.stdout.splitlines() == [
        "cursor  ~/.cursor/mcp.json       installed: serves ~/project/toolbus.yaml",
        "gemini  ~/.gemini/settings.json  absent",
        "codex   ~/.codex/config.toml     unreadable: line 1: not valid TOML: Invalid value",
    ]
    states = {one["editor"]: one["state"] for one in json.loads(facts.stdout)["editors"]}
    assert states == {"cursor": "installed", "gemini": "absent", "codex": "unreadable"}
    assert other.stdout.splitlines()[0] == "cursor  ~/.cursor/mcp.json       other: starts npx"


def test_a_machine_without_editors_is_told_which_are_known(project: Path) -> None:
    listed = toolbus("install", folder=project)
    added = toolbus("install", "cursor", "--yes", folder=project)

    assert (listed.returncode, listed.stdout) == (0, "")
    assert listed.stderr.startswith("no editor found on this machine; toolbus knows claude, ")
    assert added.returncode == 0
    assert list(content(project.parent / ".cursor/mcp.json")["mcpServers"]) == ["toolbus"]


def test_a_config_that_is_not_trusted_is_not_installed(project: Path) -> None:
    (project / "toolbus.yaml").write_text("servers: {evil: {command: evil}}\n")

    done = toolbus("install", "cursor", "--yes", folder=project)

    assert done.returncode == 2
    assert "toolbus trust" in done.stderr
    assert not (project.parent / ".cursor").exists()


def test_a_file_that_cannot_be_edited_is_left_alone_and_the_entry_is_shown(project: Path) -> None:
    file = with_file(project, "zed")
    text = '{"context_servers": []}'
    file.write_text(text)

    done = toolbus("install", "zed", "--yes", folder=project)

    assert done.returncode == 2
    first, *shown = done.stderr.splitlines()
    problem = "its context_servers is not a mapping; edit it by hand:"
    assert first == f"toolbus: ~/.config/zed/settings.json cannot be edited: {problem}"
    assert "toolbus" in json.loads("\n".join(shown))["context_servers"]
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("install emacs", "unknown editor 'emacs'; known: claude, claude-code, "),
        ("install cusor", "did you mean 'cursor'?"),
        ("install --yes", "--yes needs an editor; name one of claude, "),
        ("install cursor --name 'a b'", "invalid name 'a b'; use letters, digits, '_' and '-'"),
        ("install cursor --key x", "--key is for a running gateway; add --url"),
        ("install cursor --remove --print", "--remove and --print cannot be combined; keep one"),
        (
            "install cursor --url example.com",
            "'example.com' is not a URL; it starts with http:// or https://",
        ),
        ("install cursor --url http://x/mcp --view a", "name the view in the URL: .../mcp/VIEW"),
        ("install cursor --url http://x/mcp --key -", "no key on stdin; pipe it in, or run it on a terminal"),
        ("install cursor --yes --config no.yaml", "no.yaml: no such file; check the path"),
    ],
)
def test_a_mistake_is_one_line(line: str, message: str, project: Path) -> None:
    done = toolbus(*shlex.split(line), folder=project)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
