"""The effect of an override's `result` on calls: for models, for programs, and for clients of the gateway."""

from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Image as ServerImage
from mcp.server.mcpserver import MCPServer

from tests.gateway.driving import client_of, gateway_over, text_of
from tests.servers.everyday import PNG
from toolbus import Toolbus
from toolbus.errors import ConfigError
from toolbus.events import Warned

pytestmark = pytest.mark.anyio


def _server() -> MCPServer:
    server: MCPServer = MCPServer("issues")

    @server.tool()
    def list_issues(count: int = 6) -> list[dict[str, Any]]:
        """List issues."""
        return [
            {
                "number": n,
                "title": f"Issue {n}",
                "labels": [{"name": "bug", "id": n}],
                "body": f"text {n} " * 30,
            }
            for n in range(count)
        ]

    @server.tool(structured_output=False)
    def picture() -> Any:
        """Draw."""
        return ["a square", ServerImage(data=PNG, format="png")]

    return server


LIST = {"list_issues": {"result": {"keep": ["number", "title", "labels.name"], "table": "auto"}}}
TABLE = ["number,title,labels.name", "0,Issue 0,bug", "1,Issue 1,bug"]


def _config(override: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"servers": {"a": {"server": _server(), "override": override}}, **more}


async def test_a_model_gets_a_table_and_can_read_the_whole() -> None:
    async with Toolbus(_config(LIST)) as bus:
        result = await bus.tool("a_list_issues").execute()
        lines = result.text.splitlines()
        assert lines[:3] == TABLE
        assert "text 0" not in result.text
        (id_,) = (word.split('"')[1] for word in lines[-1].split() if word.startswith("read_result("))
        whole = await bus.tool("read_result").execute(id=id_, find="text 5")
        assert "text 5" in whole.text
        # Programs get what the server sent.
        assert len(result.structured["result"][0]) == 4
        plain = await bus.call("a_list_issues")
        assert "text 0" in plain.text


async def test_a_path_that_no_result_has_is_reported() -> None:
    problems: list[str] = []
    override = {"list_*": {"result": {"keep": ["nubmer"]}}}
    bus = Toolbus(
        _config(override), on_event=lambda e: problems.append(e.message) if isinstance(e, Warned) else None
    )
    async with bus:
        assert "text 0" in (await bus.tool("a_list_issues").execute()).text
    assert [one for one in problems if "none of the paths" in one]


async def test_pictures_are_kept_as_files(tmp_path: Path) -> None:
    config = tmp_path / "toolbus.json"
    async with Toolbus(_config({"picture": {"result": {"files": str(tmp_path / "kept")}}})) as bus:
        for _ in range(2):
            result = await bus.tool("a_picture").execute()
            assert not result.images
            (kept,) = (tmp_path / "kept").iterdir()
            assert kept.suffix == ".png"
            assert kept.read_bytes() == PNG
            assert result.text.splitlines()[1].endswith(f"kept as {kept}]")
    assert not config.exists()


async def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    problems: list[str] = []
    bus = Toolbus(
        _config({"picture": {"result": {"files": str(tmp_path / "file" / "below")}}}),
        on_event=lambda event: problems.append(event.message) if isinstance(event, Warned) else None,
    )
    async with bus:
        assert (await bus.tool("a_picture").execute()).images
    assert [one for one in problems if "could not be kept" in one]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_clients_of_the_gateway_get_the_same(era: Any) -> None:
    async with gateway_over(_config(LIST)) as gateway:
        client = await client_of(era, gateway, {})
        result = await client.request("tools/call", {"name": "a_list_issues", "arguments": {}})
        lines = text_of(result).splitlines()
        assert lines[:3] == TABLE
        assert len(result["structuredContent"]["result"][0]) == 4
        (id_,) = (word.split('"')[1] for word in lines[-1].split() if word.startswith("read_result("))
        asked = {"name": "read_result", "arguments": {"id": id_, "find": "text 5"}}
        assert "text 5" in text_of(await client.request("tools/call", asked))


async def test_search_mode_and_errors() -> None:
    async with Toolbus(_config(LIST, expose="search")) as bus:
        call = bus.tools()[-1]
        assert (await call.execute(name="a_list_issues", arguments={})).text.splitlines()[:3] == TABLE
        wrong = await call.execute(name="a_list_issues", arguments={"count": "many"})
        assert wrong.is_error
        assert "count" in wrong.text


@pytest.mark.parametrize("keep", [["labels..name"], [""], [".a"]])
def test_a_path_needs_keys(keep: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"keep"):
        Toolbus(_config({"x": {"result": {"keep": keep}}}))
