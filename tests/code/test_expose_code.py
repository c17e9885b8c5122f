"""`expose: code`: a model finds tools as functions, and calls them in scripts."""

from pathlib import Path

import pytest

from tests.code.support import config, written
from tests.gateway.driving import JSON, Era, ModernClient, client_of, gateway_over, text_of
from tests.inside.bus import calls_of
from tests.inside.config import expose
from tests.inside.gateway import ProtocolError
from tests.servers.asking import asking
from toolbus import Toolbus
from toolbus.adapters.approval import needs_approval
from toolbus.errors import ExtraMissing

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


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
        await calls_of(bus).run(run.spec, {"script": SCRIPT}, face="agent", run="r1")
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


LOOP = """
for number in range(2):
    await ledger_write(line=f"line {number}")
"done"
"""
ASK = [{"tools": "ledger/write", "do": "ask"}]


def once(params: JSON) -> JSON:
    """An approval of one call."""
    return {"action": "accept", "content": {"answer": "once"}}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_script_of_a_client_waits_for_its_approvals_and_goes_on(era: Era, tmp_path: Path) -> None:
    async with gateway_over(config(tmp_path, expose="code", policy=ASK)) as gateway:
        client = await client_of(era, gateway, {"elicitation/create": once})
        result = await client.request("tools/call", {"name": "run_code", "arguments": {"script": LOOP}})
    assert text_of(result) == "done"
    assert [method for method, _ in client.asked] == ["elicitation/create"] * 2
    assert written(tmp_path) == ["line 0", "line 1"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_a_server_asks_in_a_script_is_put_to_the_client(era: Era) -> None:
    script = 'said = [await tables_book(guest=name) for name in ("Ann", "Ben")]\nlen(said), said[1]'
    form = {"action": "accept", "content": {"date": "2026-12-24", "seats": 3}}
    async with gateway_over({"servers": {"tables": {"server": asking()}}, "expose": "code"}) as gateway:
        client = await client_of(era, gateway, {"elicitation/create": lambda _: form})
        result = await client.request("tools/call", {"name": "run_code", "arguments": {"script": script}})
    assert "2026-12-24" in text_of(result)
    assert [asked["message"] for _, asked in client.asked] == ["When does Ann come?", "When does Ben come?"]


async def test_a_script_of_a_client_goes_on_once_and_with_a_valid_answer_only(tmp_path: Path) -> None:
    params = {"name": "run_code", "arguments": {"script": LOOP}}
    async with gateway_over(config(tmp_path, expose="code", policy=ASK)) as gateway:
        client = ModernClient(gateway, answers={"elicitation/create": once})
        first = await client.once("tools/call", params)
        state = first["requestState"]
        for wrong in ({}, {"approval": {"action": "perhaps"}}, {"approval": {"action": "accept"}}):
            with pytest.raises(ProtocolError):
                await client.once("tools/call", {**params, "requestState": state, "inputResponses": wrong})
        other = {"name": "run_code", "arguments": {"script": "1"}}
        with pytest.raises(ProtocolError, match="Invalid requestState"):
            await client.once("tools/call", {**other, **client.answered(first)})
        second = await client.once("tools/call", {**params, **client.answered(first)})
        assert second["resultType"] == "input_required"
        again = await client.once("tools/call", {**params, **client.answered(first)})
        assert again["isError"]
        assert "already resumed" in text_of(again)
    assert written(tmp_path) == ["line 0"]


async def test_a_client_that_cannot_be_asked_is_told_what_did_not_run(tmp_path: Path) -> None:
    async with gateway_over(config(tmp_path, expose="code", policy=ASK)) as gateway:
        client = ModernClient(gateway, {})
        result = await client.once("tools/call", {"name": "run_code", "arguments": {"script": LOOP}})
    assert result["isError"]
    assert "this client cannot show the question" in text_of(result)
    assert written(tmp_path) == []


async def test_without_its_extra_code_mode_fails_at_once_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nothing(name: str) -> None:
        """No package is installed."""

    monkeypatch.setattr(expose, "find_spec", nothing)
    with pytest.raises(ExtraMissing, match=r'pip install "toolbus\[code\]"'):
        Toolbus(config(tmp_path, expose="code"))
    async with Toolbus(config(tmp_path)) as bus:
        with pytest.raises(ExtraMissing):
            bus.view(expose="code")
