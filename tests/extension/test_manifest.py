"""A manifest is read as written; mistakes in it are reported with file, server and key."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.extension.hosts import Context, desk, manifest
from tests.inside.extension import bridge_config
from toolbus import ConfigError
from toolbus.config import ContextSource
from toolbus.extension import McpBridgeExtension, load_manifest

pytestmark = pytest.mark.anyio

FULL = """
id: mcp
name: MCP Bridge
version: "1.0.0"
description: >
  Connects to MCP servers and exposes their tools to the agent.
entrypoint: main:McpBridgeExtension
depends_on: []
config:
  servers:
    - alias: web_search
      transport: streamable-http
      url: http://localhost:8000/mcp
    - alias: filesystem
      transport: stdio
      command: npx
      args: ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/allowed/dir"]
    - alias: github
      transport: sse
      url: https://api.example.com/mcp
      headers:
        Authorization: "Bearer ${GITHUB_TOKEN}"
  context:
    - {server: filesystem, uri: "file:///notes.md"}
setup_instructions: |
  Add MCP servers to config.servers.
enabled: true
"""


async def test_a_full_manifest_is_read_as_written(tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text(FULL)

    found = load_manifest(tmp_path)
    wanted = bridge_config(found)

    assert (found.id, found.version, found.entrypoint) == ("mcp", "1.0.0", "main:McpBridgeExtension")
    assert (found.enabled, found.depends_on, found.path) == (True, (), tmp_path / "manifest.yaml")
    assert [(s.alias, s.transport) for s in wanted.servers.values()] == [
        ("web_search", "streamable-http"),
        ("filesystem", "stdio"),
        ("github", "sse"),
    ]
    assert (wanted.naming, wanted.folder) == ("mcp_{server}_{tool}", tmp_path)
    assert wanted.context == (ContextSource(server="filesystem", uri="file:///notes.md"),)


async def test_an_empty_list_of_servers_is_fine_and_a_naming_of_its_own_is_kept() -> None:
    wanted = bridge_config(load_manifest({"config": {"servers": [], "naming": "{server}__{tool}"}}))
    assert (wanted.servers, wanted.naming) == ({}, "{server}__{tool}")


FILES = {"alias": "files", "transport": "stdio", "command": "npx"}
WRONG: dict[str, tuple[dict[str, Any], tuple[str | None, str | None, str]]] = {
    "an unknown transport": (
        {"config": {"servers": [{**FILES, "transport": "carrier-pigeon"}]}},
        ("files", "transport", "unknown transport 'carrier-pigeon'"),
    ),
    "two of one alias": (
        {"config": {"servers": [FILES, FILES]}},
        (None, "config.servers", "two servers have the alias 'files'"),
    ),
    "no alias": (
        {"config": {"servers": [{"transport": "stdio", "command": "npx"}]}},
        (None, "config.servers[0]", "a server needs an alias"),
    ),
    "a transport without what it needs": (
        {"config": {"servers": [{"alias": "files", "transport": "sse", "command": "npx"}]}},
        ("files", "transport", "transport 'sse' needs url, not command"),
    ),
    "a misspelt key of a server": (
        {"config": {"servers": [{**FILES, "arg": []}]}},
        ("files", "arg", "unknown key; did you mean 'args'?"),
    ),
    "a misspelt key of the config": (
        {"config": {"servers": [], "enabled_server": ["files"]}},
        (None, "config.enabled_server", "unknown key; did you mean 'enabled_servers'?"),
    ),
    "a misspelt key of the manifest": (
        {"entrypont": "main:X", "config": {"servers": []}},
        (None, "entrypont", "unknown key; did you mean 'entrypoint'?"),
    ),
    "a key one level too high": (
        {"servers": [FILES]},
        (None, "servers", "unknown key; did you mean 'config.servers'?"),
    ),
    "an unknown server that is enabled": (
        {"config": {"servers": [FILES], "enabled_servers": ["file"]}},
        (None, "enabled_servers", "no server has the alias 'file'; did you mean 'files'?"),
    ),
    "tools of an unknown server": (
        {"config": {"servers": [FILES], "tool_allowlist": {"fils": ["read"]}}},
        (None, "tool_allowlist", "no server has the alias 'fils'; did you mean 'files'?"),
    ),
    "a word where true or false stands": (
        {"enabled": "nope", "config": {"servers": []}},
        (None, "enabled", "expected true or false"),
    ),
    "a resource of an unknown server": (
        {"config": {"servers": [FILES], "context": [{"server": "file", "uri": "a://b"}]}},
        (None, "context[0].server", "no server has the alias 'file'; did you mean 'files'?"),
    ),
    "a resource without its address": (
        {"config": {"servers": [FILES], "context": [{"server": "files"}]}},
        (None, "context[0].uri", "is missing"),
    ),
    "no servers at all": ({"config": {}}, (None, "config.servers", "is missing")),
    "a config that is a list": ({"config": [FILES]}, (None, "config", "expected a mapping")),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_wrong_manifest_fails_initialize_and_says_where(case: str, tmp_path: Path) -> None:
    document, (server, key, problem) = WRONG[case]
    path = tmp_path / "manifest.yaml"
    path.write_text(yaml.safe_dump(document))

    with pytest.raises(ConfigError) as caught:
        await McpBridgeExtension(path).initialize(Context())

    assert (caught.value.file, caught.value.server, caught.value.key) == (str(path), server, key)
    assert problem in str(caught.value)


async def test_a_file_that_is_no_manifest_is_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text("config: [")
    for source, problem in [
        (tmp_path / "manifest.yaml", "line 1: not valid YAML"),
        (tmp_path / "absent.yaml", "no such file"),
        (tmp_path.parent, "no manifest in this folder"),
    ]:
        with pytest.raises(ConfigError, match=problem) as caught:
            await McpBridgeExtension(source).initialize(Context())
        assert caught.value.file == str(source)


@pytest.mark.parametrize("how", ["config", "mapping", "object", "path"])
async def test_the_context_may_carry_the_manifest_in_the_ways_of_hosts(how: str, tmp_path: Path) -> None:
    config = {"servers": [desk()]}
    # Of a manifest that the host has read, the host's own keys are its own.
    given: dict[str, Any] = {
        "config": {"config": config},
        "mapping": {"manifest": {"config": config, "author": "me"}},
        "object": {"manifest": SimpleNamespace(config=config, enabled=True, author="me")},
        "path": {"manifest": manifest(tmp_path, desk())},
    }
    extension = McpBridgeExtension()
    await extension.initialize(SimpleNamespace(**given[how]))
    try:
        await extension.start()
        assert "mcp_desk_echo" in [tool.name for tool in extension.get_tools()]
    finally:
        await extension.stop()


async def test_without_any_manifest_initialize_says_what_to_give() -> None:
    with pytest.raises(ConfigError, match="no manifest; pass a path or a mapping"):
        await McpBridgeExtension().initialize(SimpleNamespace())
