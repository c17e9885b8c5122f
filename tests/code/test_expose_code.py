"""`expose: code`: a model finds tools as functions, and calls them in scripts."""

from pathlib import Path

import pytest

from tests.code.support import config, written
from tests.gateway.driving import Era, client_of, gateway_over, text_of
from toolbus import Toolbus
from toolbus.adapters.approval import needs_approval

pytestmark = pytest.mark.anyio
SCRIPT = 'await ledger_write(line="one")\nfound = await ledger_rows(count=2)\nlen(found["result"])'


async def test_a_model_finds_functions_and_calls_them_in_a_script(tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path, expose="code", always=["ledger/rows"])) as bus:
        always, search, run = bus.tools()
        assert [always.name, search.name, run.name] == ["ledger_rows", "search_tools", "run_code"]
        assert "run_code" in search.description
        found = await search.execute(queries=["write a line"])
        assert "async def ledger_write(*, line: str) ->" in found.text
        result = await run.execute(script=SCRIPT)
        assert (result.text, result.is_error) == ("2", False)
        assert (await bus.call("run_code", {"script": "1 + 1"})).value == 2
    assert written(tmp_path) == ["one"]


@pytest.mark.parametrize("arguments", [{}, {"script": None}, {"script": 5}])
async def test_a_script_that_is_no_text_is_refused_with_the_reason(
    arguments: dict[str, object], tmp_path: Path
) -> None:
    async with Toolbus(config(tmp_path, expose="code")) as bus:
        result = await bus.tools()[-1].execute(**arguments)  # pyright: ignore[reportArgumentType]
    assert result.is_error
    assert "the script must be a text" in result.text


async def test_a_search_for_nothing_says_what_to_do(tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path, expose="code")) as bus:
        result = await bus.tools()[0].execute(queries=[" "])
    assert result.is_error
    assert "at least one query" in result.text


async def test_a_script_reaches_no_tool_outside_of_the_view(tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path)) as bus:
        view = bus.view(expose="code", exclude=["ledger/write"])
        result = await view.tools()[-1].execute(script=SCRIPT)
        assert result.is_error
        assert "ledger_write" in result.text
    assert written(tmp_path) == []


async def test_the_calls_of_a_script_are_those_of_the_face_that_runs_it(tmp_path: Path) -> None:
    trail = tmp_path / "audit.jsonl"
    async with Toolbus(config(tmp_path, expose="code", audit=str(trail))) as bus:
        run = bus.tools()[-1]
        await bus.run(run.spec, {"script": SCRIPT}, face="agent", run="r1")
    assert trail.read_text().count('"agent"') >= 2


async def test_whoever_asks_before_calls_asks_before_a_script(tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path, expose="code")) as bus:
        run = bus.tools()[-1]
        assert needs_approval(run, "writes")
        assert not needs_approval(run, "never")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_of_the_gateway_runs_scripts(era: Era, tmp_path: Path) -> None:
    async with gateway_over(config(tmp_path, expose="code")) as gateway:
        client = await client_of(era, gateway, {})
        listed = await client.request("tools/list", {})
        assert [tool["name"] for tool in listed["tools"]] == ["search_tools", "run_code"]
        result = await client.request("tools/call", {"name": "run_code", "arguments": {"script": SCRIPT}})
        assert text_of(result) == "2"
