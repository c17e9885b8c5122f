"""The quotas of a bus: counted calls, their owners, and the place of the counts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.inside.bus import tenant_of
from tests.inside.core import Caller
from tests.inside.policy import QuotaUse
from tests.patience import until
from tests.policy.people import lines
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Answer, CallDenied, ConfigError, OverQuota, Pending, Toolbus

pytestmark = pytest.mark.anyio
SUM = {"a": 1, "b": 2}
JSON = dict[str, Any]


def config(*quotas: JSON, **more: Any) -> JSON:
    servers = {"day": {"server": everyday()}, "ask": {"server": asking()}}
    return {"servers": servers, "quotas": list(quotas), **more}


async def made(view: Any, times: int, name: str = "day_add", arguments: JSON | None = None) -> int:
    """The number of calls that a quota allows, out of `times`."""
    count = 0
    for _ in range(times):
        try:
            await view.call(name, SUM if arguments is None else arguments)
        except OverQuota:
            continue
        count += 1
    return count


async def used(bus: Toolbus) -> dict[tuple[str, str], int]:
    found: list[QuotaUse] = await tenant_of(bus).engine.enforcement.quotas.seen()
    return {(one.subject, one.limit): one.used for one in found}


# Whose calls count


async def test_each_user_has_the_quota_for_itself() -> None:
    async with Toolbus(config({"per": "user", "per_day": 3})) as bus:
        assert [await made(bus.as_user(name), 5) for name in ("ann", "bob")] == [3, 3]
        assert await made(bus, 5) == 3  # whoever has no name


async def test_each_server_each_key_and_each_view_has_the_quota_for_itself() -> None:
    quotas = [{"per": "server", "per_day": 9}, {"per": "key", "per_day": 5}, {"per": "view", "per_day": 7}]
    async with Toolbus(config(*quotas)) as bus:
        ann = bus.view(caller=Caller(key="key:ann", view="main"))
        bob = bus.view(caller=Caller(key="key:bob", view="main"))
        assert await made(ann, 6) == 5
        assert await made(bob, 6) == 2  # the view has no more
        assert await made(bus, 6) == 2  # nor has the server


async def test_calls_of_other_threads_and_loops_count_together() -> None:
    async with Toolbus(config({"per": "server", "per_day": 6, "concurrent": 3})) as bus:
        found = await asyncio.gather(
            *(asyncio.to_thread(lambda: asyncio.run(made(bus, 3))) for _ in range(3))
        )
        assert sum(found) == 6


async def test_names_and_tools_select_what_counts() -> None:
    quotas = [
        {"per": "user", "names": "ci-*", "per_day": 1},
        {"per": "user", "tools": ["day/echo"], "per_day": 2},
    ]
    async with Toolbus(config(*quotas)) as bus:
        assert await made(bus.as_user("ann"), 5) == 5
        assert await made(bus.as_user("ci-1"), 5) == 1
        assert await made(bus.as_user("ann"), 5, "day_echo", {"text": "x"}) == 2


async def test_a_call_that_one_quota_refuses_counts_nowhere() -> None:
    quotas = [{"per": "server", "per_day": 10}, {"per": "user", "per_day": 2}]
    async with Toolbus(config(*quotas)) as bus:
        assert await made(bus.as_user("ann"), 8) == 2
        assert [await made(bus.as_user(name), 2) for name in ("b", "c", "d", "e", "f")] == [2, 2, 2, 2, 0]


async def test_a_refusal_names_the_quota_and_says_when_to_try_again() -> None:
    async with Toolbus(config({"per": "user", "per_minute": 1})) as bus:
        ann, refused = bus.as_user("ann"), None
        while refused is None:  # a minute may end in between
            try:
                await ann.call("day_add", SUM)
            except OverQuota as error:
                refused = error
        assert (refused.rule, refused.limit, refused.sent) == ("quotas[0]", "per_minute", False)
        assert 1 <= refused.retry_after <= 60
        assert isinstance(refused, CallDenied)
        assert str(refused).startswith(
            "tool 'day_add' was refused: quotas[0] allows user 'ann' 1 call per minute; try again in "
        )


# What counts


async def test_calls_that_are_not_made_do_not_count() -> None:
    deny = {"tools": "day/echo", "do": "deny"}
    async with Toolbus(config({"per": "server", "per_day": 2}, policy=[deny])) as bus:
        for _ in range(5):
            with pytest.raises(CallDenied) as refused:
                await bus.call("day/echo", {"text": "x"})
            assert not isinstance(refused.value, OverQuota)
            assert (await bus.call("day_add", {"a": "many"})).is_error
            await bus.read_resource("day", "memo://greeting")
        assert await made(bus, 4) == 2


async def test_a_tool_that_fails_counts() -> None:
    async with Toolbus(config({"per": "server", "per_day": 2})) as bus:
        assert await made(bus, 4, "day_fail", {}) == 2


async def test_calls_of_scripts_and_of_call_tool_count() -> None:
    async with Toolbus(config({"per": "server", "per_day": 3}, expose="search")) as bus:
        result = await bus.scripts.run(
            "out = []\nfor n in range(5):\n"
            "    try:\n        out.append(await day_add(a=n, b=0))\n"
            "    except Exception as error:\n        out.append(str(error))\nout"
        )
        assert result.text.count("quotas[0]") == 2, result.text
        tools = {tool.name: tool for tool in bus.tools()}
        called = await tools["call_tool"].execute(name="day_add", arguments=SUM)
        assert "quotas[0]" in called.text


async def test_a_tool_for_a_model_answers_with_the_reason() -> None:
    async with Toolbus(config({"per": "server", "per_day": 1})) as bus:
        tool = bus.tool("day_add")
        assert not (await tool.execute(**SUM)).is_error
        refused = await tool.execute(**SUM)
        assert refused.is_error
        assert refused.text.startswith("MCP error: tool 'day_add' was refused: quotas[0] allows server 'day'")
        assert "; try again in " in refused.text


async def test_as_many_calls_run_at_the_same_time_as_are_allowed() -> None:
    async with Toolbus(config({"per": "user", "concurrent": 2})) as bus:
        ann = bus.as_user("ann")
        for _ in range(3):
            calls = [asyncio.create_task(ann.call("day_hang", {})) for _ in range(5)]
            await until(lambda calls=calls: sum(call.done() for call in calls) == 3)
            refused = [call.exception() for call in calls if call.done()]
            assert {type(error) for error in refused} == {OverQuota}
            assert await made(bus.as_user("bob"), 1) == 1
            for call in calls:  # those that run release their places
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


# Calls in several rounds

BOOKED = Answer(action="accept", content={"date": "2026-12-24"})


async def test_a_suspended_call_counts_once_and_a_second_answer_is_another_call() -> None:
    async with Toolbus(config({"per": "server", "per_day": 2})) as bus:
        result = await bus.call("ask_book", {"guest": "Ann"}, on_input="suspend")
        assert result.pending is not None
        stored = Pending.from_json(result.pending.to_json())
        assert stored == result.pending
        assert (await bus.resume(stored, BOOKED)).text.startswith("Ann")
        assert (await bus.resume(stored, BOOKED)).text.startswith("Ann")
        with pytest.raises(OverQuota):
            await bus.resume(stored, BOOKED)


async def test_the_approval_of_a_person_counts_nothing_before_the_call_is_made() -> None:
    ask = {"tools": "day/add", "do": "ask"}
    async with Toolbus(config({"per": "server", "per_day": 1}, policy=[ask])) as bus:
        waiting = [(await bus.call("day_add", SUM, on_input="suspend")).pending for _ in range(3)]
        allowed = Answer(action="accept", content={"answer": "once"})
        assert waiting[0] is not None
        assert waiting[1] is not None
        assert not (await bus.resume(waiting[0], allowed)).is_error
        with pytest.raises(OverQuota):
            await bus.resume(waiting[1], allowed)


# Where counts are kept


def written(folder: Path, *quotas: JSON, **more: Any) -> str:
    servers = {"day": {"url": "http://127.0.0.1:9/mcp"}}
    file = folder / "toolbus.json"
    file.write_text(json.dumps({"servers": servers, "quotas": list(quotas), **more}))
    return str(file)


@pytest.mark.parametrize("store", ["sqlite:///counts.db", None], ids=["store", "files"])
async def test_programs_with_one_config_share_its_counts_and_a_restart_begins_no_new_ones(
    tmp_path: Path, store: str | None
) -> None:
    file = written(tmp_path, {"per": "user", "per_day": 40}, **({"store": store} if store else {}))

    total = 0
    for _ in range(2):
        async with Toolbus(file) as one, Toolbus(file) as other:
            for bus in (one, other):
                await bus.add_server("here", {"server": everyday()})
            counts = await asyncio.gather(*(made(bus, 14, "here_add") for bus in (one, other)))
            total += sum(counts)
    assert total == 40


async def test_a_reload_with_another_limit_goes_on_counting() -> None:
    async with Toolbus(config({"per": "user", "per_day": 2})) as bus:
        assert await made(bus, 5) == 2
        await bus.reload(config({"per": "server", "per_day": 100}, {"per": "user", "per_day": 4}))
        assert await made(bus, 5) == 2
        await bus.reload(config())
        assert await made(bus, 5) == 5


async def test_without_a_state_folder_every_call_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "state").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with Toolbus(written(tmp_path, {"per": "user", "per_day": 4})) as bus:
        await bus.add_server("here", {"server": everyday()})
        with pytest.raises(OverQuota, match=r"the calls of quotas\[0\] cannot be counted") as refused:
            await bus.call("here_add", SUM)
        assert refused.value.limit == "uncounted"


# What shows them


async def test_the_trail_says_which_quota_refused_a_call(tmp_path: Path) -> None:
    trail = tmp_path / "audit.jsonl"
    async with Toolbus(config({"per": "server", "per_day": 1}, audit=str(trail))) as bus:
        assert await made(bus, 2) == 1
    found = [(line["event"], line.get("outcome"), line.get("rule"), line.get("by")) for line in lines(trail)]
    assert found == [
        ("decided", None, None, "default"),
        ("ended", "ok", None, None),
        ("decided", None, None, "default"),
        ("ended", "refused", "quotas[0]", "quota"),
    ]


# The config


@pytest.mark.parametrize(
    ("quotas", "problem"),
    [
        ([{"per": "user"}], r"quotas\[0\]: has no limit; set per_minute, per_day or concurrent"),
        ([{"per": "team", "per_day": 1}], r"quotas\[0\]\.per: expected 'key', 'user', 'view' or 'server'"),
        ([{"per": "user", "per_day": 0}], r"quotas\[0\]\.per_day: expected 1 or more"),
        ([{"per": "user", "per_day": 1, "tools": "add"}], r"'add' names no server; write server/tool"),
        ([{"per": "user", "per_hour": 1}], r"quotas\[0\]\.per_hour: unknown key"),
        (
            [{"per": "user", "per_day": 1}, {"per": "user", "per_minute": 1}],
            r"quotas\[1\]: counts the same calls as quotas\[0\]; put all limits in one entry",
        ),
        ({"per": "user"}, r"quotas: expected a list of quotas such as"),
    ],
    ids=str,
)
def test_mistakes_in_quotas_are_located(quotas: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Toolbus({"servers": {"day": {"server": everyday()}}, "quotas": quotas})
