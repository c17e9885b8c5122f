"""Scripts that call the tools of a real server: values, errors, limits, and the one path of every call."""

import json
from pathlib import Path

import pytest

from tests.code.support import config, written
from tests.inside.core import ToolResult
from tests.patience import PATIENCE
from toolbus import Toolbus

pytestmark = pytest.mark.anyio
GATHER = """
import asyncio
met = await asyncio.gather(*[ledger_meet(others=3) for _ in range(3)])
[one["result"] for one in met]
"""
CATCH = """
try:
    await ledger_fail()
except RuntimeError as error:
    message = str(error)
message
"""
DENIED = """
await ledger_rows()
try:
    await ledger_write(line="x")
except RuntimeError as error:
    print(error)
"""
PARTLY = """
await ledger_write(line="one")
await ledger_fail()
await ledger_write(line="two")
"""


async def run(folder: Path, script: str, **settings: object) -> ToolResult:
    async with Toolbus(config(folder, **settings)) as bus:
        return await bus.scripts.run(script)


async def test_a_script_gets_typed_values_and_returns_its_last_expression(tmp_path: Path) -> None:
    script = 'found = await ledger_rows(count=3)\nsum(row["amount"] for row in found["result"])'
    result = await run(tmp_path, script)
    assert (result.value, result.text, result.is_error) == (3, "3", False)
    assert result.structured == {
        "value": 3,
        "printed": "",
        "calls": [{"tool": "ledger_rows", "line": 1, "state": "done"}],
    }


async def test_without_a_schema_json_is_parsed_and_text_stays_text(tmp_path: Path) -> None:
    script = 'a = await ledger_page(kind="json")\nb = await ledger_page(kind="text")\n[a["a"][1], b]'
    assert (await run(tmp_path, script)).value == [2, "plain"]


async def test_what_is_wrong_with_the_types_is_found_before_anything_runs(tmp_path: Path) -> None:
    script = (
        'await ledger_write(line="x")\nawait ledger_write(line=5)\nrows = await ledger_rows()\nrows["nme"]'
    )
    result = await run(tmp_path, script)
    assert result.is_error
    assert "script.py:2:20" in result.text
    assert "Expected `str`" in result.text
    assert "nme" in result.text
    assert "No tool was called." in result.text
    assert written(tmp_path) == []


async def test_an_unknown_tool_is_answered_with_the_nearest_names(tmp_path: Path) -> None:
    result = await run(tmp_path, 'await ledger_wrte(line="x")')
    assert "No tool is named ledger_wrte; near it: ledger_write" in result.text


async def test_calls_that_are_awaited_together_are_made_at_once(tmp_path: Path) -> None:
    assert (await run(tmp_path, GATHER)).value == ["met"] * 3


async def test_a_failing_tool_is_an_exception_that_the_script_may_catch(tmp_path: Path) -> None:
    assert "ledger_fail" in (await run(tmp_path, CATCH)).text


async def test_an_error_says_what_ran_and_what_did_not(tmp_path: Path) -> None:
    result = await run(tmp_path, PARTLY)
    assert result.is_error
    assert "line 2: ledger_write was called\n  line 3: ledger_fail failed" in result.text
    assert written(tmp_path) == ["one"]


async def test_a_tool_whose_name_is_no_identifier_can_be_called(tmp_path: Path) -> None:
    assert (await run(tmp_path, 'await ledger_get_user(name="ann")')).value == {"result": "ann"}


async def test_a_rule_denies_a_call_in_a_script_and_the_trail_has_every_call(tmp_path: Path) -> None:
    script = DENIED
    policy = [{"tools": "ledger/write", "do": "deny", "reason": "closed"}]
    trail = tmp_path / "audit.jsonl"
    result = await run(tmp_path, script, policy=policy, audit=str(trail))
    assert "closed" in result.text
    assert written(tmp_path) == []
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    tools = [line.get("tool") for line in lines if "tool" in line]
    assert "rows" in str(tools)
    assert "write" in str(tools)


async def test_each_limit_ends_the_script_and_is_named(tmp_path: Path) -> None:
    calls = await run(tmp_path, 'for i in range(9):\n    await ledger_write(line="x")', code={"calls": 3})
    assert "more than 3 calls" in calls.text
    assert "ledger_write was called (3 times)" in calls.text
    assert written(tmp_path) == ["x"] * 3
    output = await run(tmp_path, 'print("word " * 100_000)', code={"output": 100})
    assert not output.is_error
    assert len(output.text) < 1000
    length = await run(tmp_path, "x = 1\n" * 100, code={"script": 50})
    assert "may have 50" in length.text
    big = await run(tmp_path, 'len(await ledger_page(kind="long"))')
    assert big.is_error


async def test_a_timeout_ends_the_script_while_it_waits_for_a_tool(tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path)) as bus:
        result = await bus.scripts.run("await ledger_meet(others=99)", timeout=0.5)
    assert "took longer than 0.5 s" in result.text
    assert "cancelled, and may have taken effect" in result.text


async def test_checking_runs_nothing(tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path)) as bus:
        assert await bus.scripts.check('await ledger_write(line="x")') is None
        problem = await bus.scripts.check("x = 1\nawait ledger_write(line=1)")
    assert problem is not None
    assert "script.py:2:20" in problem
    assert written(tmp_path) == []


async def test_inputs_are_variables_of_the_script(tmp_path: Path) -> None:
    async with Toolbus(config(tmp_path)) as bus:
        result = await bus.scripts.run("[args[0], count + 1]", {"args": ["a"], "count": 1})
    assert result.value == ["a", 2]


async def test_a_tool_of_a_server_that_is_down_is_lacking_with_the_reason(tmp_path: Path) -> None:
    servers = {**config(tmp_path)["servers"], "weather": {"command": "no-such-program"}}
    async with Toolbus({"servers": servers}) as bus:
        await bus.wait_ready(timeout=PATIENCE)
        result = await bus.scripts.run('await weather_now(place="Rome")')
    assert result.is_error
    assert "no-such-program" in result.text
