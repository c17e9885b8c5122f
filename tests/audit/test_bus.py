"""The `audit` of a config: what a bus records, for all its users, and when it lets go of the file."""

from pathlib import Path
from typing import Any

import pytest

from tests.audit.bus import answering, lines
from tests.audit.writing import problems, write_lines
from tests.inside.audit import verify
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import CallDenied, Toolbus

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def config(file: Path | None, **settings: Any) -> dict[str, Any]:
    servers = {"day": {"server": everyday()}, "ask": {"server": asking()}}
    return {"servers": servers, **({"audit": str(file)} if file else {}), **settings}


async def test_a_bus_records_the_calls_of_all_its_users_in_one_chain(file: Path) -> None:
    async with Toolbus(config(file)) as bus:
        await bus.call("day_add", {"a": 1, "b": 2})
        await bus.as_user("ann").call("day_add", {"a": 1, "b": 2})
    assert [(line["event"], line.get("user")) for line in lines(file)] == [
        ("decided", None),
        ("ended", None),
        ("decided", "ann"),
        ("ended", "ann"),
    ]
    assert problems(file) == []
    assert lines(file)[0]["definition"].startswith("sha256:")


async def test_the_rule_and_the_reason_of_a_denial_are_recorded(file: Path) -> None:
    deny = {"tools": "day/add", "arguments": {"required": ["a"]}, "do": "deny", "reason": "sums are secret"}
    async with Toolbus(config(file, policy=[deny])) as bus:
        with pytest.raises(CallDenied):
            await bus.call("day_add", {"a": 1, "b": 2})
    (line,) = lines(file)
    assert (line["decision"], line["rule"], line["by"]) == ("deny", "policy[0]", "policy")
    assert "sums are secret" in line["reason"]


@pytest.mark.parametrize("tool", ["book", "title", "folders"])
async def test_a_request_of_a_server_names_the_call_in_which_it_was_made(file: Path, tool: str) -> None:
    arguments = {"book": {"guest": "Ann"}, "title": {"about": "tea"}, "folders": {}}[tool]
    async with Toolbus(config(file), interactions=answering()) as bus:
        await bus.as_user("ann").call(f"ask_{tool}", arguments)
    call, asked, answered, _ = lines(file)
    assert call["route"] == "tools/call"
    assert (asked["during"], asked["id"], asked["user"]) == (call["id"], answered["id"], "ann")
    assert (answered["during"], answered["outcome"]) == (call["id"], "accept")


async def test_a_call_that_cannot_be_recorded_is_refused_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    async with Toolbus(config(tmp_path / "logs" / "audit.jsonl")) as bus:
        with pytest.raises(CallDenied, match=r"make it writable, or name another one in audit\.file"):
            await bus.call("day_add", {"a": 1, "b": 2})


async def test_the_file_is_free_when_the_bus_has_stopped(file: Path) -> None:
    async with Toolbus(config(file)) as bus:
        await bus.call("day_add", {"a": 1, "b": 2})
        write_lines(file, 1)
    write_lines(file, 1)
    assert [report.lines for report in verify(file)] == [5, 2]


async def test_a_reload_moves_the_trail(file: Path) -> None:
    other = file.with_name("other.jsonl")
    async with Toolbus(config(None)) as bus:
        await bus.call("day_add", {"a": 1, "b": 2})
        for place in (file, other, other):
            await bus.reload(config(place))
            await bus.call("day_add", {"a": 1, "b": 2})
    assert [line["event"] for line in lines(file)] == ["decided", "ended"]
    assert [line["event"] for line in lines(other)] == ["decided", "ended"] * 2
