"""All the servers of others on one bus, and the example that toolbus was asked to run."""

import ast
import asyncio
import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import SERVERS, require_git, require_installed
from tests.patience import PATIENCE, until
from tests.processes import alive, children
from toolbus import Toolbus, connect_mcp
from toolbus.sync import SyncToolbus

require_installed("time", "git", "sqlite", "node")

pytestmark = pytest.mark.anyio

NAMES = {
    "time": "convert_time get_current_time",
    # The server's own names begin with its alias already.
    "git": "add branch checkout commit create_branch diff diff_staged diff_unstaged log reset show status",
    "sqlite": "append_insight create_table describe_table list_tables read_query write_query",
    "everything": "echo get-annotated-message get-env get-resource-links get-resource-reference"
    " get-structured-content get-sum get-tiny-image gzip-file-as-resource simulate-research-query"
    " toggle-simulated-logging toggle-subscriber-updates trigger-long-running-operation",
    "filesystem": "create_directory directory_tree edit_file get_file_info list_allowed_directories"
    " list_directory list_directory_with_sizes move_file read_file read_media_file read_multiple_files"
    " read_text_file search_files write_file",
    "memory": "add_observations create_entities create_relations delete_entities delete_observations"
    " delete_relations open_nodes read_graph search_nodes",
}
ERAS = {
    "time": "modern",
    "git": "modern",
    "sqlite": "legacy",
    "everything": "legacy",
    "filesystem": "legacy",
    "memory": "legacy",
}
CALLS: dict[str, dict[str, Any]] = {
    "time_get_current_time": {"timezone": "UTC"},
    "git_status": {"repo_path": "{folder}"},
    "sqlite_list_tables": {},
    "everything_echo": {"message": "hello"},
    "filesystem_list_allowed_directories": {},
    "memory_read_graph": {},
}


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Every server, all in one folder, which is a git repository."""
    require_git()
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return {"servers": {alias: server.config(tmp_path) for alias, server in SERVERS.items()}}


def calls(folder: Path) -> dict[str, dict[str, Any]]:
    return {
        name: {key: value.format(folder=folder) for key, value in arguments.items()}
        for name, arguments in CALLS.items()
    }


async def test_six_servers_make_one_catalog_in_the_order_of_the_config_and_answer_at_the_same_time(
    config: dict[str, Any], tmp_path: Path
) -> None:
    asked, before = calls(tmp_path), children()
    async with Toolbus(config) as bus:
        names = tuple(f"{alias}_{tool}" for alias in SERVERS for tool in NAMES[alias].split())
        assert bus.catalog.names == names
        assert bus.catalog["git/git_log"].name == "git_log"
        assert {alias: status.era for alias, status in bus.servers.items()} == ERAS
        assert {alias: status.tools for alias, status in bus.servers.items()} == {
            alias: len(NAMES[alias].split()) for alias in SERVERS
        }
        assert {status.state for status in bus.servers.values()} == {"ready"}
        assert all(health.ok for health in (await bus.health()).values())
        answers = await asyncio.gather(*(bus.call(name, asked[name]) for name in asked))
        started = children() - before
    results = dict(zip(asked, answers, strict=True))
    assert [name for name, result in results.items() if result.is_error] == []
    assert json.loads(results["time_get_current_time"].text)["timezone"] == "UTC"
    assert results["git_status"].text.startswith("Repository status:")
    assert results["sqlite_list_tables"].text == "[]"
    assert results["everything_echo"].text == "Echo: hello"
    assert results["filesystem_list_allowed_directories"].text == f"Allowed directories:\n{tmp_path}"
    assert results["memory_read_graph"].structured == {"entities": [], "relations": []}
    assert len(started) >= len(SERVERS)
    await until(lambda: not any(map(alive, started)))


@pytest.mark.full  # real ones fail as those in tests/faults do
async def test_a_server_that_cannot_start_leaves_the_others_alone(
    config: dict[str, Any], tmp_path: Path
) -> None:
    config["servers"]["git"]["args"] = ["--repository", str(tmp_path / "nowhere")]
    config["servers"]["memory"]["command"] = "mcp-server-that-is-not-there"
    async with Toolbus(config) as bus:
        states = {alias: status.state for alias, status in bus.servers.items()}
        error = bus.servers["memory"].error
        echoed = await bus.call("everything_echo", {"message": "hello"})
    assert states == dict.fromkeys(SERVERS, "ready") | {"git": "failed", "memory": "failed"}
    assert error is not None
    assert "'mcp-server-that-is-not-there' not found" in error
    assert echoed.text == "Echo: hello"


async def test_one_server_alone_keeps_its_own_names(tmp_path: Path) -> None:
    entry = SERVERS["everything"].config(tmp_path)
    async with connect_mcp(entry) as mcp:
        tools = await mcp.list_tools()
        prefixed = await mcp.list_tools(prefix="all")
        result = await mcp.call_tool("echo", {"message": "hello"})
        executed = await prefixed[0].execute(message="hello")
    assert [tool.name for tool in tools] == NAMES["everything"].split()
    assert [tool.name for tool in prefixed] == [f"all_{name}" for name in NAMES["everything"].split()]
    assert result == executed
    assert result.text == "Echo: hello"


@pytest.mark.full  # the synchronous bus runs the one of the tests above
def test_plain_code_calls_all_six(config: dict[str, Any], tmp_path: Path) -> None:
    with SyncToolbus(config) as bus:
        assert {alias: status.era for alias, status in bus.servers.items()} == ERAS
        results = {name: bus.call(name, arguments) for name, arguments in calls(tmp_path).items()}
        [echo] = [tool for tool in bus.tools("everything") if tool.name == "everything_echo"]
        executed = echo.execute(message="hello")
        assert bus.read_resource("memory", "memory://knowledge-graph")[0].mime_type == "application/json"
    assert [name for name, result in results.items() if result.is_error] == []
    assert executed == results["everything_echo"]


async def test_the_example_of_the_issue_prints_names_and_the_time_in_paris(
    web_ports: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    docs = {"url": f"http://127.0.0.1:{web_ports['http']}/mcp"}
    # Its first start downloads the package.
    time = {"command": "uvx", "args": ["mcp-server-time"], "timeouts": {"connect": PATIENCE}}
    before = children()
    async with Toolbus({"servers": {"time": time, "docs": docs}}) as bus:
        print(bus.catalog.names)
        print((await bus.call("time_get_current_time", {"timezone": "Europe/Paris"})).text)
        started = children() - before
    first, _, rest = capsys.readouterr().out.partition("\n")
    names, answer = ast.literal_eval(first), json.loads(rest)
    assert names[:2] == ("time_convert_time", "time_get_current_time")
    assert "docs_echo" in names[2:]
    assert all(name.startswith("docs_") for name in names[2:])
    assert answer["timezone"] == "Europe/Paris"
    assert datetime.now(UTC) - datetime.fromisoformat(answer["datetime"]) < timedelta(minutes=1)
    # uvx starts the server as a child of its own, which would outlive it unnoticed.
    assert len(started) == 2
    await until(lambda: not any(map(alive, started)))
