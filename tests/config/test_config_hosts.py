"""Hosts that have words of their own, and what only one of them does, come over as they are meant."""

from pathlib import Path
from typing import Any

import pytest

from tests.config.test_config_editors import NPX, taken_over, written
from tests.inside.config import found_files, imported
from toolbus.config import load_config

CODEX = """
model = "gpt-5"
[mcp_servers.docs]
command = "npx"
args = ["-y", "pkg"]
env_vars = ["LANG", {name = "REGION", source = "local"}]
startup_timeout_sec = 20
tool_timeout_sec = 90.5
enabled_tools = ["read"]
disabled_tools = ["write"]
supports_parallel_tool_calls = true
[mcp_servers.docs.env]
LEVEL = "info"
[mcp_servers.docs.tools.read]
approval_mode = "approve"
[mcp_servers.remote]
url = "https://x.test/mcp"
bearer_token_env_var = "REMOTE_TOKEN"
http_headers = {X-Team = "a"}
env_http_headers = {X-Key = "REMOTE_KEY"}
enabled = false
[mcp_servers.signed]
url = "https://y.test/mcp"
scopes = ["read"]
oauth_resource = "https://y.test"
startup_timeout_ms = 1500
[mcp_servers.signed.oauth]
client_id = "c"
callback_url = "http://127.0.0.1:9/callback"
[mcp_servers.none]
command = "x"
enabled_tools = []
"""


@pytest.mark.parametrize("editor", ["codex", "file"])
def test_codex_servers_come_over(editor: str, tmp_path: Path) -> None:
    result = taken_over(tmp_path, CODEX, editor=editor, name="config.toml")

    assert result.servers == {
        "docs": {
            "command": "npx",
            "args": ["-y", "pkg"],
            "env": {"LEVEL": "info"},
            "inherit_env": ["LANG", "REGION"],
            "include": ["read"],
            "exclude": ["write"],
            "timeouts": {"connect": 20, "call": 90.5},
        },
        "remote": {
            "url": "https://x.test/mcp",
            "headers": {"X-Team": "a", "X-Key": "${REMOTE_KEY}"},
            "auth": {"type": "bearer", "token": "${REMOTE_TOKEN}"},
            "enabled": False,
        },
        "signed": {
            "url": "https://y.test/mcp",
            "auth": {
                "type": "oauth",
                "client_id": "c",
                "callback": "http://127.0.0.1:9/callback",
                "scopes": ["read"],
                "resource": "https://y.test",
            },
            "timeouts": {"connect": 1.5},
        },
    }
    assert result.notes == (
        "server 'none' was skipped: enabled_tools: is empty, which allows no tools; list at least one",
        "server 'remote' is disabled there, so it has enabled: false here",
        "server 'signed': sign in: toolbus login signed",
    )
    load_config({"servers": result.servers})


def test_a_list_of_tools_beside_the_servers_is_honored_whatever_the_words_of_the_servers(
    tmp_path: Path,
) -> None:
    text = '[tool_allowlist]\na = ["read"]\n[mcp_servers.a]\ncommand = "x"\nenabled_tools = ["write"]\n'
    result = taken_over(tmp_path, text, name="config.toml")

    assert result.servers == {}
    assert result.notes == ("server 'a' was skipped: enabled_tools: unknown key; did you mean 'enabled'?",)


ZED = """
// Zed settings
{
  "theme": "One",
  "context_servers": {
    "new": {"source": "custom", "command": "npx", "args": ["-y", "pkg"], "env": {}, "timeout": 1200},
    "old": {"command": {"path": "/bin/x", "args": ["run"], "env": {"LEVEL": "info"}}, "settings": {}},
    "web": {"url": "https://x.test/mcp", "headers": {"X-Team": "a"}, "enabled": false},
    "ext": {"source": "extension", "settings": {"k": 1}}, // only Zed knows it
  },
}
"""


@pytest.mark.parametrize("editor", ["zed", "file"])
def test_zed_servers_come_over_from_a_commented_file(editor: str, tmp_path: Path) -> None:
    result = taken_over(tmp_path, ZED, editor=editor, name="settings.json")

    assert result.servers == {
        "new": {**NPX, "timeouts": {"call": 1200}},
        "old": {"command": "/bin/x", "args": ["run"], "env": {"LEVEL": "info"}},
        "web": {"url": "https://x.test/mcp", "headers": {"X-Team": "a"}, "enabled": False},
    }
    assert "server 'ext' was skipped: it is a Zed extension; only Zed knows its command" in result.notes


OPENCODE: dict[str, Any] = {
    "local": {"type": "local", "command": ["npx", "-y", "pkg"], "environment": {"REGION": "{env:REGION}"}},
    "remote": {
        "type": "remote",
        "url": "https://x.test/mcp",
        "headers": {"Authorization": "Bearer {file:~/token}", "X-Key": "{file:key.txt}"},
        "oauth": False,
        "timeout": 500,
    },
    "signed": {
        "type": "remote",
        "url": "https://y.test/mcp",
        "oauth": {"clientId": "c", "clientSecret": "{env:SECRET}", "scope": "a b", "callbackPort": 9},
    },
}


@pytest.mark.parametrize("editor", ["opencode", "file"])
@pytest.mark.parametrize("version", [1, 2])
def test_opencode_servers_come_over_from_both_versions(editor: str, version: int, tmp_path: Path) -> None:
    off = {"enabled": False} if version == 1 else {"disabled": True}
    servers = {**OPENCODE, "off": {"type": "local", "command": ["x"], **off}}
    document = {"mcp": servers if version == 1 else {"servers": servers}}
    result = taken_over(tmp_path, document, editor=editor, name="opencode.jsonc")

    assert result.servers == {
        "local": {**NPX, "env": {"REGION": "${REGION}"}},
        "remote": {
            "url": "https://x.test/mcp",
            "headers": {
                "Authorization": f"Bearer ${{file:{Path.home()}/token}}",
                "X-Key": f"${{file:{tmp_path}/key.txt}}",
            },
            "timeouts": {"call": 0.5},
        },
        "signed": {
            "url": "https://y.test/mcp",
            "auth": {
                "type": "oauth",
                "client_id": "c",
                "client_secret": "${SECRET}",
                "scopes": ["a", "b"],
                "callback": "http://127.0.0.1:9/mcp/oauth/callback",
            },
        },
        "off": {"command": "x", "enabled": False},
    }
    assert "server 'signed': sign in: toolbus login signed" in result.notes


def test_servers_of_a_project_that_claude_code_was_told_to_refuse_come_over_switched_off(
    tmp_path: Path,
) -> None:
    home, folder = tmp_path / "home", tmp_path / "project"
    written(folder / ".mcp.json", {"mcpServers": dict.fromkeys("abcde", NPX)})
    written(
        folder / ".claude/settings.json", {"enabledMcpjsonServers": ["a"], "disabledMcpjsonServers": ["b"]}
    )
    written(folder / ".claude/settings.local.json", {"disabledMcpjsonServers": ["c"]})
    project = {"disabledMcpServers": ["d"], "disabledMcpjsonServers": []}
    written(home / ".claude.json", {"projects": {str(folder): project}})

    found = found_files("claude-code", home=home, folder=folder, platform="linux")

    servers = imported(found[0]).servers
    assert {alias for alias in servers if servers[alias].get("enabled") is False} == {"b", "c", "d"}


def test_inputs_of_vs_code_keep_their_defaults(tmp_path: Path) -> None:
    inputs = [
        {"id": "region", "type": "pickString", "options": ["eu", "us"], "default": "eu"},
        {"id": "key", "type": "promptString", "password": True, "default": "s3cret"},
        {"id": "odd", "type": "promptString", "default": "a}b"},
    ]
    env = {"REGION": "${input:region}", "KEY": "${input:key}", "ODD": "${input:odd}"}
    result = taken_over(tmp_path, {"inputs": inputs, "servers": {"a": {**NPX, "env": env}}}, editor="vscode")

    assert result.servers["a"]["env"] == {**env, "REGION": "${input:region:-eu}"}
    set_it = "set it in the environment or in a .env"
    assert result.notes == (
        f"server 'a': the editor prompts for 'region'; {set_it}, or its default is used",
        f"server 'a': the editor prompts for 'key'; {set_it}",
        f"server 'a': the editor prompts for 'odd'; {set_it}",
    )
