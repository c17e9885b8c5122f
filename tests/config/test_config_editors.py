"""The configs of other hosts are found on every platform, and translated to our words."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.config.test_config_dialects import DIALECTS
from tests.config.test_config_entries import WRONG
from tests.inside.config import EDITORS, ImportedServers, ImportFile, Secret, found_files, imported
from toolbus.config import load_config
from toolbus.errors import ConfigError

NPX = {"command": "npx", "args": ["-y", "pkg"]}


def written(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    dumped = yaml.safe_dump(content, sort_keys=False) if path.suffix == ".yaml" else json.dumps(content)
    path.write_text(content if isinstance(content, str) else dumped, encoding="utf-8")
    return path


def taken_over(folder: Path, content: Any, *, editor: str = "file", name: str = "c.json") -> ImportedServers:
    return imported(ImportFile(editor=editor, path=written(folder / name, content), folder=folder))


EVERYWHERE = {
    "claude-code": ["p/.mcp.json", "h/.claude.json"],
    "cursor": ["p/.cursor/mcp.json", "h/.cursor/mcp.json"],
    "windsurf": ["h/.codeium/windsurf/mcp_config.json"],
    "gemini": ["p/.gemini/settings.json", "h/.gemini/settings.json"],
    "codex": ["p/.codex/config.toml", "h/.codex/config.toml"],
    "opencode": ["p/opencode.json", "p/.opencode/opencode.jsonc", "h/.config/opencode/opencode.json"],
}
ZED = ["p/.zed/settings.json", "h/.config/zed/settings.json"]
VSCODE = ["p/.vscode/mcp.json", "p/.vscode/settings.json"]
MAC, WINDOWS = "h/Library/Application Support", "h/AppData/Roaming"
STORE = "h/AppData/Local/Packages/Claude_x1/LocalCache/Roaming"
PLACES: dict[str, dict[str, list[str]]] = {
    "linux": {
        **EVERYWHERE,
        "claude": ["h/.config/Claude/claude_desktop_config.json"],
        "vscode": [*VSCODE, "h/.config/Code/User/mcp.json", "h/.config/Code/User/settings.json"],
        "goose": ["h/.config/goose/config.yaml"],
        "zed": ZED,
    },
    "darwin": {
        **EVERYWHERE,
        "claude": [f"{MAC}/Claude/claude_desktop_config.json"],
        "vscode": [*VSCODE, f"{MAC}/Code/User/mcp.json", f"{MAC}/Code/User/settings.json"],
        "goose": ["h/.config/goose/config.yaml"],
        "zed": ZED,
    },
    "win32": {
        **EVERYWHERE,
        "claude": [
            f"{WINDOWS}/Claude/claude_desktop_config.json",
            f"{STORE}/Claude/claude_desktop_config.json",
        ],
        "vscode": [*VSCODE, f"{WINDOWS}/Code/User/mcp.json", f"{WINDOWS}/Code/User/settings.json"],
        "goose": [f"{WINDOWS}/Block/goose/config/config.yaml"],
        "zed": ["p/.zed/settings.json", f"{WINDOWS}/Zed/settings.json"],
    },
}


@pytest.mark.parametrize("platform", PLACES)
@pytest.mark.parametrize("editor", EDITORS)
def test_the_files_of_an_editor_are_found_where_the_platform_has_them(
    editor: str, platform: str, tmp_path: Path
) -> None:
    home, folder = tmp_path / "h", tmp_path / "p"
    expected = [written(tmp_path / name, "{}") for name in PLACES[platform][editor]]

    found = found_files(editor, home=home, folder=folder, platform=platform)

    assert [(source.editor, source.path, source.folder) for source in found] == [
        (editor, path, folder) for path in expected
    ]


def test_all_editors_are_looked_at_when_none_is_named_and_a_file_is_found_once(tmp_path: Path) -> None:
    for name in (".cursor/mcp.json", ".mcp.json", ".gemini/settings.json"):
        written(tmp_path / name, "{}")

    found = found_files(None, home=tmp_path, folder=tmp_path, platform="linux")

    assert [(source.editor, source.path.name) for source in found] == [
        ("claude-code", ".mcp.json"),
        ("cursor", "mcp.json"),
        ("gemini", "settings.json"),
    ]


def test_an_unknown_editor_is_told_the_near_miss(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown editor 'curser'; .*; did you mean 'cursor'\?"):
        found_files("curser", home=tmp_path, folder=tmp_path, platform="linux")


FOREIGN: dict[str, Any] = {
    "timeouts": {"connect": 7},
    "tool_allowlist": {"listed": ["read_*"]},
    "mcpServers": {
        "listed": {"command": ["npx", "-y"], "args": ["pkg"], "env": {"LEVEL": "info"}, "cwd": "/srv"},
        "url": "https://x.test/mcp",
        "sse": {"type": "sse", "url": "https://x.test/events", "headers": {"X-Team": "a"}},
        "inferred": {"type": "sse", "serverUrl": "https://x.test/sse"},
        "not sse": {"type": "http", "httpUrl": "https://x.test/sse", "timeout": 30000},
        "flat": {"serverName": "flat", "connection": {"command": "x", "workingDirectory": "~/d"}},
        "tools": {**NPX, "includeTools": ["a"], "excludeTools": ["b"], "envFile": "/e/x.env"},
        "ours": {**NPX, "inherit_env": ["LANG"], "prefix": "", "required": True, "max_concurrency": 2},
        "more": {**NPX, "era": "legacy", "lazy": True, "idle_timeout": 1.5, "timeouts": {"call": 2.5}},
        "verify": {"url": "https://x.test/mcp", "verify": "certs/ca.pem", "auth": "${T}"},
        "references": {
            "command": "${userHome}/x",
            "args": ["${workspaceFolder}", "%APPDATA%\\x", "$${literal}", "${A:-b}"],
            "env": {"TOKEN": "${env:TOKEN}", "KEY": "${input:key}", "SECRET": "%SECRET%"},
        },
    },
}


@pytest.mark.parametrize("dialect", [*(name for name in DIALECTS if isinstance(DIALECTS[name], dict)), None])
def test_what_comes_over_loads_as_the_original_does(dialect: str | None, tmp_path: Path) -> None:
    document = FOREIGN if dialect is None else DIALECTS[dialect]
    result = taken_over(tmp_path, document)

    original = load_config(tmp_path / "c.json")
    assert load_config({"servers": result.servers}).servers == original.servers
    assert list(result.servers) == list(original.servers)
    assert result.secrets == ()


def test_an_entry_says_no_more_than_it_has_to(tmp_path: Path) -> None:
    result = taken_over(tmp_path, FOREIGN)

    assert {
        alias: dict(result.servers[alias]) for alias in ("listed", "url", "sse", "inferred", "not sse")
    } == {
        "listed": {
            "command": "npx",
            "args": ["-y", "pkg"],
            "env": {"LEVEL": "info"},
            "cwd": "/srv",
            "include": ["read_*"],
            "timeouts": {"connect": 7},
        },
        "url": {"url": "https://x.test/mcp", "timeouts": {"connect": 7}},
        "sse": {
            "transport": "sse",
            "url": "https://x.test/events",
            "headers": {"X-Team": "a"},
            "timeouts": {"connect": 7},
        },
        "inferred": {"url": "https://x.test/sse", "timeouts": {"connect": 7}},
        "not sse": {
            "transport": "streamable-http",
            "url": "https://x.test/sse",
            "timeouts": {"connect": 7, "call": 30},
        },
    }
    assert result.servers["verify"]["verify"] == str(tmp_path / "certs/ca.pem")


@pytest.mark.parametrize(("entry", "problem"), [(entry, problem) for entry, _, problem in WRONG])
def test_a_wrong_entry_is_left_out_with_its_reason_and_the_others_come(
    entry: object, problem: str, tmp_path: Path
) -> None:
    result = taken_over(tmp_path, {"servers": {"a": entry, "b": NPX}}, name="c.yaml")

    assert result.servers == {"b": NPX}
    (note,) = result.notes
    assert note.startswith("server 'a' was skipped: ")
    assert note.endswith(problem)
    assert "s3cret" not in note


def test_entries_without_a_name_of_their_own_are_left_out_alone(tmp_path: Path) -> None:
    entries = [{"alias": "a", **NPX}, NPX, {"name": "a", "command": "x"}, {"name": "b", "command": "y"}]
    result = taken_over(tmp_path, {"services": {"mcp": entries}})

    assert result.servers == {"a": NPX, "b": {"command": "y"}}
    assert result.notes == (
        "entry 2 was skipped: it has no name",
        "entry 3 was skipped: 'a' is already the name of another entry",
    )


def test_what_is_left_out_or_changed_is_told(tmp_path: Path) -> None:
    entries = {
        "a": {**NPX, "autoApprove": ["x"], "alwaysAllow": [], "trust": True},
        "off": {"command": "x", "disabled": True, "cwd": "sub"},
        "broken and off": {"comand": "x", "enabled": False},
        "asks": {"command": "x", "args": ["${input:key}", "${workspaceFolderBasename}"]},
        "unwanted": {"command": "x"},
    }
    enabled = ["a", "off", "asks"]
    result = taken_over(tmp_path, {"mcpServers": entries, "naming": "{tool}", "enabled_servers": enabled})

    assert result.servers == {
        "a": NPX,
        "off": {"command": "x", "cwd": "sub", "enabled": False},
        "asks": {"command": "x", "args": ["${input:key}", "${workspaceFolderBasename}"]},
        "unwanted": {"command": "x", "enabled": False},
    }
    assert result.notes == (
        "naming was skipped: it applies to all servers",
        "server 'a': ignored keys without a meaning here: autoApprove, trust",
        "server 'off': cwd is a relative path, now relative to the folder of the new file",
        "server 'off' is disabled there, so it has enabled: false here",
        "server 'broken and off' was skipped: comand: unknown key; did you mean 'command'?",
        "server 'asks': the editor prompts for 'key'; set it in the environment or in a .env",
        "server 'asks': ${workspaceFolderBasename} only exists inside an editor; replace it with its value",
        "server 'unwanted' is disabled there, so it has enabled: false here",
    )


@pytest.mark.parametrize("slashes", ["/", "\\"])
def test_claude_code_has_servers_for_the_user_and_for_the_project(slashes: str, tmp_path: Path) -> None:
    project = {"mcpServers": {"b": {"command": "local"}, "c": NPX}, "disabledMcpServers": ["a"]}
    document = {
        "numStartups": 3,
        "mcpServers": {"a": NPX, "b": {"command": "user"}},
        "projects": {
            str(tmp_path).replace("/", slashes): project,
            "/elsewhere": {"mcpServers": {"d": NPX}},
        },
    }
    result = taken_over(tmp_path, document, editor="claude-code", name=".claude.json")

    assert result.servers == {"a": {**NPX, "enabled": False}, "b": {"command": "local"}, "c": NPX}
    assert result.notes == ("server 'a' is disabled there, so it has enabled: false here",)


def test_gemini_fills_in_names_without_braces_and_has_lists_of_servers(tmp_path: Path) -> None:
    document: dict[str, Any] = {
        "mcp": {"allowed": ["a", "b"], "excluded": ["b"]},
        "extensions": {"disabled": []},
        "mcpServers": {
            "a": {"httpUrl": "https://x.test/mcp", "headers": {"Authorization": "Bearer $TOKEN"}},
            "b": {**NPX, "env": {"KEY": "${KEY:-$5}", "COST": "$5 $$A"}},
            "c": NPX,
        },
    }
    result = taken_over(tmp_path, document, editor="gemini", name="settings.json")

    assert result.servers == {
        "a": {"url": "https://x.test/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        "b": {**NPX, "env": {"KEY": "${KEY:-$5}", "COST": "$5 $$A"}, "enabled": False},
        "c": {**NPX, "enabled": False},
    }
    assert result.secrets == ()
    assert result.notes[0] == "server 'a': $NAME became ${NAME}"


def test_vs_code_may_comment_its_files_and_have_settings_without_servers(tmp_path: Path) -> None:
    text = '{\n  // mine\n  "mcp": {"inputs": [], "servers": {"a": {"command": "x",},}},\n}'
    with_servers = taken_over(tmp_path, text, editor="vscode", name="settings.json")
    without = taken_over(tmp_path, {"editor.fontSize": 12}, editor="vscode", name="settings.json")

    assert (with_servers.servers, without.servers, without.notes) == ({"a": {"command": "x"}}, {}, ())


GOOSE = """
GOOSE_PROVIDER: openai
extensions:
  developer: {type: builtin, name: developer, enabled: true, timeout: 300, bundled: true}
  todo: {type: platform, name: todo, enabled: true}
  github:
    type: stdio
    name: GitHub
    description: ""
    enabled: true
    cmd: npx
    args: [-y, pkg]
    envs: {LEVEL: info}
    env_keys: [GITHUB_TOKEN]
    timeout: 1200
    bundled: null
    available_tools: []
  remote:
    type: streamable_http
    name: remote
    uri: https://x.test/mcp
    envs: {KEY: k-123}
    env_keys: [OTHER]
    headers: {X-Api-Key: $KEY, X-Other: "${OTHER}", X-Left: $LEFT}
    available_tools: [read]
    enabled: false
  old: {type: sse, name: old, uri: "https://x.test/sse", timeout: 300}
  bad: {type: stdio, cmd: x, env_keys: KEY}
  worse: 5
"""


@pytest.mark.parametrize("editor", ["goose", "file"])
def test_goose_extensions_that_are_servers_come_over(editor: str, tmp_path: Path) -> None:
    text = GOOSE if editor == "goose" else GOOSE.replace("  worse: 5\n", "")
    result = taken_over(tmp_path, text, editor=editor, name="config.yaml")

    assert result.servers == {
        "github": {
            "command": "npx",
            "args": ["-y", "pkg"],
            "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LEVEL": "info"},
            "timeouts": {"call": 1200},
        },
        "remote": {
            "url": "https://x.test/mcp",
            "headers": {"X-Api-Key": "${REMOTE_API_KEY}", "X-Other": "${OTHER}", "X-Left": "$LEFT"},
            "include": ["read"],
            "enabled": False,
        },
        "old": {"url": "https://x.test/sse"},
    }
    assert result.secrets == (
        Secret(server="remote", key="headers.X-Api-Key", name="REMOTE_API_KEY", value="k-123"),
    )
    assert result.notes[:5] == (
        "'developer' was skipped: it is built into Goose (builtin), not an MCP server",
        "'todo' was skipped: it is built into Goose (platform), not an MCP server",
        "server 'github': Goose keeps GITHUB_TOKEN in its keyring; set it in the environment or in a .env",
        "server 'remote': Goose keeps OTHER in its keyring; set it in the environment or in a .env",
        "server 'bad' was skipped: env_keys: expected a list of strings",
    )
    load_config({"servers": result.servers})


@pytest.mark.parametrize(
    ("editor", "content"),
    [
        ("cursor", "{"),
        ("file", "{}"),
        ("file", {"mcpServers": 5}),
        ("gemini", {"mcpServers": None}),
        ("file", {"mcpServers": {"alpha": NPX}, "tool_allowlist": {"alpa": ["x"]}}),
        ("file", {"mcpServers": {"alpha": NPX}, "timeouts": {"call": 0}}),
        ("file", {"mcpServers": {}, "servers": {}}),
    ],
)
def test_a_file_that_cannot_be_read_is_a_config_error(editor: str, content: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        taken_over(tmp_path, content, editor=editor)

    assert caught.value.file == str(tmp_path / "c.json")
