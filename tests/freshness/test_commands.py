"""The command line and the gateway as processes, over servers whose lists expire and that have apps."""

import json
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client

from tests import warm
from tests.background.holding import background, called
from tests.cli.running import toolbus, write_config
from tests.freshness.growing_bus import over_http, over_stdio
from tests.gateway import serving
from tests.patience import wait_until


@pytest.fixture(autouse=True)
def _warm() -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    warm.folder()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def names(folder: Path) -> list[str]:
    done = toolbus("tools", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return [tool["name"] for tool in json.loads(done.stdout)["tools"]]


def test_commands_find_new_tools_in_the_background(folder: Path) -> None:
    write_config(folder, {"g": over_stdio(ttl={"tools": 0})})
    with background(folder):
        assert called(folder, "g_grow") == "grown"
        assert called(folder, "g_late0") == "called late0"
        assert called(folder, "g_grow") == "grown"
        wait_until(lambda: "g_late1" in names(folder), "the list of tools has no new one")


def test_people_see_and_call_tools_for_user_interfaces(folder: Path) -> None:
    write_config(folder, {"g": over_stdio(apps=True)})
    listed = json.loads(toolbus("tools", "--json", folder=folder).stdout)["tools"]
    assert [tool["name"] for tool in listed if tool.get("app_only")] == ["g_refresh"]
    shown = toolbus("tools", folder=folder).stdout.splitlines()
    assert [line.split()[0] for line in shown if "app only" in line] == ["g_refresh"]
    assert {tool["name"]: tool["app"] for tool in listed if "app" in tool} == {
        "g_refresh": "ui://dash",
        "g_show": "ui://dash",
    }
    assert [line.split()[:2] for line in shown if line.startswith("  g_show")] == [["g_show", "app"]]
    assert "    app: ui://dash" in toolbus("tools", "--full", folder=folder).stdout.splitlines()
    assert called(folder, "g_refresh") == "called refresh"
    costs = json.loads(toolbus("tools", "--cost", "--json", folder=folder).stdout)["tools"]
    assert "g_refresh" not in [tool["name"] for tool in costs]
    hits = json.loads(toolbus("search", "refresh the dashboard", "--json", folder=folder).stdout)["hits"]
    assert "g_refresh" not in [hit["name"] for hit in hits]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_the_gateway_over_http_for_two_clients_of_the_sdk(
    mode: str, folder: Path, tmp_path: Path
) -> None:
    interfaces = advertise("io.modelcontextprotocol/ui", {"mimeTypes": ["text/html;profile=mcp-app"]})
    with over_http(tmp_path, apps=True, ttl={"tools": 0, "read": 50_000}) as entry:
        config = serving.written_config(folder, {"g": entry})
        with serving.gateway(config) as url:
            async with (
                Client(streamable_http_client(url), mode=mode, cache=None) as poor,
                Client(streamable_http_client(url), mode=mode, cache=None, extensions=[interfaces]) as rich,
            ):
                assert "refresh" in [tool.name for tool in (await rich.list_tools()).tools]
                listed = await poor.list_tools()
                assert "refresh" not in [tool.name for tool in listed.tools]
                await poor.call_tool("grow")
                late = await poor.call_tool("late0")
                assert getattr(late.content[0], "text", None) == "called late0"
                read = await poor.read_resource("data://r0")
                if mode != "legacy":
                    assert listed.ttl_ms == 0
                    assert (0 < read.ttl_ms <= 50_000, read.cache_scope) == (True, "private")
                again = await poor.read_resource("data://r0")
                assert again.contents == read.contents
