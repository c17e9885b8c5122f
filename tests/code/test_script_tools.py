"""Scripts of a config as tools: what they take and return, what their steps may call, and who is asked."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import toolbus
from tests.code.support import config, written
from toolbus import ApprovalRequest, Interactions, Pending, Toolbus
from toolbus.errors import CallDenied, ConfigError, ToolNotFound

pytestmark = pytest.mark.anyio
ASK = [{"tools": "ledger/write", "do": "ask"}]
KEEP = """
for line in lines:
    await ledger_write(line=f"{prefix}{line}")
rows = await ledger_rows(count=count)
{"kept": len(lines), "names": [row["name"] for row in rows["result"]]}
"""
SCRIPT = {
    "script": "keep.py",
    "description": "Keeps some lines.",
    "input": {
        "lines": ["string"],
        "prefix": {"type": "string", "default": "> "},
        "count": "optional integer",
    },
}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def saved(folder: Path, scripts: dict[str, str], settings: dict[str, Any] | None = None, **more: Any) -> Path:
    """A config in a file, with a tool for each script."""
    entries: dict[str, Any] = {}
    for name, text in scripts.items():
        (folder / f"{name}.py").write_text(text)
        entries[name] = {"script": f"{name}.py", "description": f"The script {name}.", **more.get(name, {})}
    file = folder / "toolbus.yaml"
    file.write_text(json.dumps({**config(folder), "tools": entries, **(settings or {})}))
    return file


def keeping(folder: Path, **settings: Any) -> Path:
    """A config with the tool `keep`, which writes lines to the ledger."""
    text = KEEP.replace("count=count", "count=count or 1")
    return saved(folder, {"keep": text}, settings, keep=SCRIPT)


def approved(pending: Pending) -> dict[str, Any]:
    return {key: question.accept({"answer": "once"}) for key, question in pending.questions.items()}


async def test_a_script_is_a_tool_with_typed_arguments_and_a_structured_result(tmp_path: Path) -> None:
    async with Toolbus(keeping(tmp_path)) as bus:
        tool = bus.tool("keep")
        assert (str(tool.origin), tool.description) == ("tools/keep", "Keeps some lines.")
        assert tool.parameters["required"] == ["lines"]
        result = await bus.call("keep", {"lines": ["a", "b"]})
        assert (result.structured, result.is_error) == ({"kept": 2, "names": ["row 0"]}, False)
        wrong = await bus.call("keep", {"lines": "a", "count": "many"})
    assert written(tmp_path) == ["> a", "> b"]
    assert wrong.is_error
    assert "count" in wrong.text


async def test_a_mistake_names_the_line_of_the_script_and_the_step(tmp_path: Path) -> None:
    scripts = {
        "typo": 'await ledger_wrte(line="x")',
        "fails": 'await ledger_write(line="x")\nawait ledger_fail()',
    }
    async with Toolbus(saved(tmp_path, scripts)) as bus:
        typo, fails = await bus.call("typo"), await bus.call("fails")
    assert "typo.py:1:7" in typo.text
    assert "near it: ledger_write" in typo.text
    assert 'File "fails.py", line 2' in fails.text
    assert "line 1: ledger_write was called\n  line 2: ledger_fail failed" in fails.text
    assert fails.structured is None
    assert written(tmp_path) == ["x"]


async def test_the_result_is_checked_against_the_output_schema(tmp_path: Path) -> None:
    file = saved(tmp_path, {"count": '{"rows": "two"}'}, count={"output": {"rows": "integer"}})
    async with Toolbus(file) as bus:
        result = await bus.call("count")
    assert result.is_error
    assert "output schema" in result.text


async def test_a_view_without_the_tools_of_a_script_can_call_the_script_alone(tmp_path: Path) -> None:
    async with Toolbus(keeping(tmp_path)) as bus:
        view = bus.view(include="keep")
        assert [*view.catalog.names] == ["keep"]
        result = await view.call("keep", {"lines": ["a"]})
        assert not result.is_error
        with pytest.raises(ToolNotFound):
            await view.call("ledger_write", {"line": "b"})
    assert written(tmp_path) == ["> a"]


async def test_steps_may_only_call_what_the_entry_says(tmp_path: Path) -> None:
    scripts = {"reads": "await ledger_rows(count=1)", "writes": 'await ledger_write(line="x")'}
    uses = {"uses": ["ledger/rows"]}
    async with Toolbus(saved(tmp_path, scripts, reads=uses, writes=uses)) as bus:
        assert not (await bus.call("reads")).is_error
        refused = await bus.call("writes")
    assert refused.is_error
    assert "ledger_write" in refused.text
    assert written(tmp_path) == []


@pytest.mark.parametrize("of_view", [False, True])
async def test_a_rule_of_the_bus_or_of_the_view_denies_a_step(tmp_path: Path, of_view: bool) -> None:
    rules = [{"tools": "ledger/write", "do": "deny", "reason": "closed"}]
    file = keeping(tmp_path) if of_view else keeping(tmp_path, policy=rules)
    async with Toolbus(file) as bus:
        view = bus.view(policy=rules) if of_view else bus
        result = await view.call("keep", {"lines": ["a"]})
    assert result.is_error
    assert "closed" in result.text
    assert written(tmp_path) == []


async def test_the_trail_has_the_tool_and_its_steps_which_name_it_and_its_user(tmp_path: Path) -> None:
    trail = tmp_path / "audit.jsonl"
    async with Toolbus(keeping(tmp_path, audit=str(trail))) as bus:
        await bus.as_user("ann").call("keep", {"lines": ["a"]})
        await bus.as_user("ben").call("keep", {"lines": ["b"]})
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    calls = {line["id"]: line for line in lines if line.get("outcome")}
    for user in ("ann", "ben"):
        [outer] = [one for one in calls.values() if one["user"] == user and one["tool"] == "keep"]
        steps = [one for one in calls.values() if one.get("during") == outer["id"]]
        assert [one["tool"] for one in steps] == ["write", "rows"]
        assert {one["user"] for one in steps} == {user}


async def test_a_step_that_needs_approval_suspends_the_call_and_another_bus_goes_on(
    tmp_path: Path,
) -> None:
    file = keeping(tmp_path, policy=ASK)
    async with Toolbus(file) as bus:
        first = (await bus.call("keep", {"lines": ["a", "b"]})).pending
        assert first is not None
        assert written(tmp_path) == []
    async with Toolbus(file) as bus:
        second = (await bus.resume(Pending.from_json(first.to_json()), approved(first))).pending
        assert second is not None
        assert written(tmp_path) == ["> a"]
        again = await bus.resume(second, approved(second))
    assert again.structured == {"kept": 2, "names": ["row 0"]}
    assert written(tmp_path) == ["> a", "> b"]


async def test_the_tool_and_its_step_may_both_need_approval(tmp_path: Path) -> None:
    rules = [{"tools": ["tools/keep", "ledger/write"], "do": "ask"}]
    asked: list[str] = []

    def answer(request: ApprovalRequest) -> bool:
        asked.append(request.name)
        return True

    file = keeping(tmp_path, policy=rules)
    async with Toolbus(file, interactions=Interactions(approve=answer)) as bus:
        assert not (await bus.call("keep", {"lines": ["a"]})).is_error
    assert asked == ["keep", "ledger_write"]
    async with Toolbus(file) as bus:
        with pytest.raises(CallDenied):
            await bus.call("keep", {"lines": ["b"]})
        result = await bus.call("keep", {"lines": ["b"]}, on_input="suspend")
        for _ in range(2):
            assert result.pending is not None
            result = await bus.resume(result.pending, approved(result.pending))
    assert result.structured == {"kept": 1, "names": ["row 0"]}
    assert written(tmp_path) == ["> a", "> b"]


async def test_scripts_that_call_each_other_end(tmp_path: Path) -> None:
    scripts = {"ping": "await pong()", "pong": "await ping()"}
    async with Toolbus(saved(tmp_path, scripts)) as bus:
        result = await bus.call("ping")
    assert result.is_error
    assert "ping > pong > ping > pong > ping > pong" in result.text


async def test_a_name_that_another_tool_has_stays_with_that_tool(tmp_path: Path) -> None:
    async with Toolbus(saved(tmp_path, {"ledger_rows": "1"})) as bus:
        assert str(bus.tool("ledger_rows").origin) == "ledger/rows"
        assert (await bus.call("tools/ledger_rows")).text == "1"


async def test_the_lock_holds_a_script_that_has_changed(tmp_path: Path) -> None:
    file = saved(tmp_path, {"one": "1", "two": "2"})
    done = await asyncio.to_thread(toolbus, "--config", str(file), "lock", "--yes", folder=tmp_path)
    assert "tools/one" in done.stdout, done.stderr
    (tmp_path / "one.py").write_text("3")
    async with Toolbus(file) as bus:
        await bus.wait_ready()
        assert [*bus.held] == ["tools/one"]
        assert (await bus.call("two")).text == "2"
        with pytest.raises(CallDenied):
            await bus.call("one")


async def test_a_script_that_cannot_be_read_costs_that_tool(tmp_path: Path) -> None:
    file = saved(tmp_path, {"one": "1", "two": "2"})
    (tmp_path / "one.py").unlink()
    async with Toolbus(file) as bus:
        assert (await bus.call("two")).text == "2"
        with pytest.raises(ToolNotFound):
            await bus.call("one")


async def test_a_reload_takes_an_edited_script(tmp_path: Path) -> None:
    file = saved(tmp_path, {"one": "1"})
    async with Toolbus(file) as bus:
        assert (await bus.call("one")).text == "1"
        (tmp_path / "one.py").write_text("2")
        await bus.reload(file)
        assert (await bus.call("one")).text == "2"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"description": "x"}, "script"),
        ({"script": "x.py"}, "description"),
        ({"script": "x.py", "description": "x", "input": {"a": "strng"}}, "string"),
        ({"script": "x.py", "description": "x", "inptu": {}}, "unknown key"),
    ],
)
def test_a_mistake_in_an_entry_is_named(tmp_path: Path, entry: dict[str, Any], problem: str) -> None:
    file = tmp_path / "toolbus.yaml"
    file.write_text(json.dumps({**config(tmp_path), "tools": {"one": entry}}))
    with pytest.raises(ConfigError, match=problem) as caught:
        Toolbus(file)
    assert [str(mistake.key) for mistake in caught.value.mistakes if "tools.one" not in str(mistake)] == []


def test_no_server_may_be_named_like_the_scripts(tmp_path: Path) -> None:
    file = saved(tmp_path, {"one": "1"}, {"servers": {"tools": {"command": "python"}}})
    with pytest.raises(ConfigError, match="choose another alias"):
        Toolbus(file)


async def test_check_finds_the_mistakes_of_scripts(tmp_path: Path) -> None:
    scripts = {"typo": 'await ledger_wrte(line="x")', "broken": "x = (", "gone": "1", "fine": "1"}
    file = saved(tmp_path, scripts)
    (tmp_path / "gone.py").unlink()
    done = await asyncio.to_thread(toolbus, "--config", str(file), "--json", "check", folder=tmp_path)
    problems = json.loads(done.stdout)["servers"]["tools"]["problems"]
    errors = sorted(one["message"] for one in problems if one["severity"] == "error")
    assert (done.returncode, len(errors)) == (1, 3)
    assert "broken: broken.py:1:6: error[invalid-syntax]" in errors[0]
    assert errors[1].startswith("gone: gone.py cannot be read")
    assert "typo.py:1:7" in errors[2]
