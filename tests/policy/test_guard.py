"""One guard enforces the policy for every kind of operation; what it denies is never sent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.inside.bus import calls_of
from tests.inside.core import ApprovalAnswer, ApprovalRequest, AuditFailed, Interactions, Operation
from tests.patience import PATIENCE
from tests.policy.people import Person, decisions, lines
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from tests.virtual_time import VirtualTimeLoop
from toolbus import CallDenied, Toolbus
from toolbus.events import CallEnded, CatalogChanged, Event, Progressed, Warned
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio


def config(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"servers": {"day": {"server": everyday()}}, "policy": list(rules), **more}


ASK = {"tools": "day/echo", "do": "ask", "reason": "it is loud"}


async def test_a_denied_tool_is_refused_by_every_name_and_says_which_rule_denies_it() -> None:
    rule = {"tools": "day/echo", "do": "deny", "reason": "use the web page"}
    async with Toolbus(config()) as bus:
        old = next(tool for tool in bus.tools() if tool.name == "day_echo")
        await bus.reload(config(rule))
        assert "day_echo" not in bus.catalog
        assert "day_add" in bus.catalog
        reason = "rule policy[0] denies it: use the web page"
        for name in ("day_echo", "day/echo"):
            for arguments in ({"text": "x"}, {}, {"text": 1}):
                with pytest.raises(CallDenied) as refused:
                    await bus.call(name, arguments)
                assert (refused.value.what, refused.value.reason) == ("tool 'day_echo'", reason)
                assert refused.value.rule == "policy[0]"
        result = await old.execute(text="x")
        assert result.text == f"MCP error: tool 'day_echo' was refused: {reason}"
        assert str(calls_of(bus).missing("day_echo", ["day_add"])) == f"tool 'day_echo' was refused: {reason}"


async def test_rules_on_arguments_see_them_as_they_are_sent() -> None:
    rule = {"tools": "day/add", "arguments": {"properties": {"a": {"const": 7}}}, "do": "deny"}
    hidden = {"add": {"arguments": {"a": {"value": 7, "hide": True}}}}
    async with Toolbus(config(rule)) as bus:
        assert (await bus.call("day_add", {"a": 1, "b": 2})).structured == {"result": 3}
        for given in (7, "7"):  # the second is repaired before it is sent
            with pytest.raises(CallDenied):
                await bus.call("day_add", {"a": given, "b": 2})
    changed = {"day": {"server": everyday(), "override": hidden}}
    async with Toolbus({"servers": changed, "policy": [rule]}) as bus:
        with pytest.raises(CallDenied):
            await bus.call("day_add", {"b": 2})


async def test_hooks_cannot_change_a_call_after_the_policy_decided() -> None:
    async def sneak(call: Operation, proceed: Any) -> Any:
        from dataclasses import replace

        return await proceed(replace(call, arguments={"a": 7, "b": 1}))

    rule = {"tools": "day/add", "arguments": {"properties": {"a": {"const": 7}}}, "do": "deny"}
    async with Toolbus(config(rule), hooks=[sneak]) as bus:
        with pytest.raises(CallDenied):
            await bus.call("day_add", {"a": 1, "b": 1})


async def test_a_person_is_asked_with_the_exact_call_and_decides() -> None:
    person = Person(True, "once", False, "not today")
    async with Toolbus(config(ASK), interactions=person.interactions) as bus:
        for _ in range(2):
            assert (await bus.call("day_echo", {"text": "x"})).text == "x"
        with pytest.raises(CallDenied, match="a person did not allow it; do not repeat it"):
            await bus.call("day_echo", {"text": "x"})
        with pytest.raises(CallDenied, match="not allowed: not today; do not repeat it"):
            await bus.call("day_echo", {"text": "x"})
        await bus.call("day_add", {"a": 1, "b": 2})
        digest = calls_of(bus).definition_digest(bus.catalog["day_echo"])
    assert len(person.asked) == 4
    one = person.asked[0]
    assert (one.name, dict(one.arguments), one.rule, one.reason) == (
        "day_echo",
        {"text": "x"},
        "policy[0]",
        "it is loud",
    )
    assert (one.digest, one.user, one.server) == (digest, "", "day")
    assert digest is not None
    assert digest.startswith("sha256:")


async def test_an_answer_for_the_session_is_asked_once_for_each_tool() -> None:
    person = Person("session")
    async with Toolbus(config({"do": "ask"}), interactions=person.interactions) as bus:
        for text in "abc":
            await bus.call("day_echo", {"text": text})
        await bus.call("day_add", {"a": 1, "b": 2})
    assert [request.name for request in person.asked] == ["day_echo", "day_add"]


async def test_without_anybody_to_ask_the_call_is_refused_with_the_next_step() -> None:
    async with Toolbus(config(ASK)) as bus:
        with pytest.raises(
            CallDenied, match=r"policy\[0\] asks a person, and nobody can be asked"
        ) as refused:
            await bus.call("day_echo", {"text": "x"})
    assert "Interactions(approve=...)" in refused.value.reason
    assert "\n" not in refused.value.reason


def _raise(request: ApprovalRequest) -> ApprovalAnswer:
    raise ValueError("out of paper")


async def _cancelled(request: ApprovalRequest) -> ApprovalAnswer:
    raise asyncio.CancelledError


def _nothing(request: ApprovalRequest) -> None:
    pass


def _number(request: ApprovalRequest) -> int:
    return 1


async def _forever(request: ApprovalRequest) -> ApprovalAnswer:
    await asyncio.Event().wait()
    return True


@pytest.mark.parametrize(
    ("approve", "reason"),
    [
        (_raise, "the handler for approvals raised ValueError"),
        (_cancelled, "the question for approval was cancelled"),
        (_nothing, "the answer to the approval was invalid"),
        (_number, "the answer to the approval was invalid"),
        (_forever, "no person answered within 0.01 s"),
    ],
)
async def test_a_handler_that_fails_refuses_the_call(approve: Any, reason: str) -> None:
    interactions = Interactions(approve=approve, answer_within=0.01)
    async with Toolbus(config(ASK), interactions=interactions) as bus:
        with pytest.raises(CallDenied) as refused:
            await bus.call("day_echo", {"text": "x"})
    assert refused.value.reason == reason


async def test_a_lasting_answer_settles_equal_questions_that_wait() -> None:
    asked: list[ApprovalRequest] = []
    three = asyncio.Event()

    async def approve(request: ApprovalRequest) -> ApprovalAnswer:
        asked.append(request)
        if len(asked) < 3:
            if len(asked) == 2:
                three.set()
            await asyncio.Event().wait()
        return "session"

    async with Toolbus(config(ASK), interactions=Interactions(approve=approve)) as bus:
        waiting = [asyncio.create_task(bus.call("day_echo", {"text": text})) for text in "ab"]
        await asyncio.wait_for(three.wait(), 30)
        assert (await bus.call("day_echo", {"text": "c"})).text == "c"
        results = await asyncio.wait_for(asyncio.gather(*waiting), 30)
    assert [result.text for result in results] == ["a", "b"]
    assert len(asked) == 3


async def test_an_approval_counts_for_exactly_the_call_that_was_shown() -> None:
    person = Person(False)
    async with Toolbus(config(ASK), interactions=person.interactions) as bus:
        spec = bus.catalog["day_echo"]
        request = calls_of(bus).approval_needed(spec, {"text": "x"})
        assert request is not None
        approval = request.approved("langchain")
        assert (await calls_of(bus).run(spec, {"text": "x"}, approval=approval)).text == "x"
        assert person.asked == []
        with pytest.raises(CallDenied, match="did not allow"):
            await calls_of(bus).run(spec, {"text": "y"}, approval=approval)
        assert "not the one that was approved" in person.asked[0].reason
        assert calls_of(bus).approval_needed(bus.catalog["day_add"], {"a": 1, "b": 2}) is None
        assert calls_of(bus).approval_needed(spec, {"text": ["not", "a", "text"]}) is None


async def test_what_is_decided_holds_for_resources_prompts_and_completion() -> None:
    rules = [
        {"resources": "day/memo://of/*", "do": "deny"},
        {"prompts": "day/*", "do": "deny", "reason": "no prompts"},
    ]
    async with Toolbus(config(*rules, resource_tools=True, prompt_tools=True)) as bus:
        assert bus.prompts() == []
        assert [item.uri_template for item in bus.templates()] == []
        assert [item.uri for item in bus.resources()] == ["memo://greeting"]
        assert not [name for name in bus.catalog.names if "prompt" in name]
        assert (await bus.read_resource("day", "memo://greeting"))[0].text == "hello"
        for uri in ("memo://of/ann", "MEMO://of/%61nn"):
            with pytest.raises(CallDenied, match=r"policy\[0\] denies it"):
                await bus.read_resource("day", uri)
            with pytest.raises(CallDenied, match=r"policy\[0\] denies it"):
                await bus.call("read_resource", {"server": "day", "uri": uri})
        with pytest.raises(CallDenied, match=r"policy\[0\] denies it"):
            await bus.subscribe("day", "memo://of/ann")
        with pytest.raises(CallDenied, match="no prompts"):
            await bus.get_prompt("day", "summarise", {"text": "x"})
        with pytest.raises(CallDenied, match="no prompts"):
            await bus.complete("day", "summarise", "text")
        listed = await bus.call("list_resources")
        assert listed.structured["day"]["templates"] == []
        with pytest.raises(CallDenied, match="no prompts"):
            await bus.call("mcp_day_get_prompt_summarise", {"text": "x"})


async def test_rates_are_counted_for_each_user() -> None:
    rule = {"tools": "day/*", "do": "allow", "per_minute": 2}
    async with Toolbus(config(rule)) as bus:
        for view in (bus.as_user("ann"), bus.as_user("bob")):
            for _ in range(2):
                await view.call("day_add", {"a": 1, "b": 2})
            with pytest.raises(CallDenied, match=r"rule policy\[0\] allows 2 calls per minute"):
                await view.call("day_add", {"a": 1, "b": 2})


async def test_the_calls_of_one_run_are_counted() -> None:
    async with Toolbus(config({"tools": "day/*", "do": "allow", "per_run": 1})) as bus:
        spec = bus.catalog["day_add"]
        for run in ("one", "two"):
            await calls_of(bus).run(spec, {"a": 1, "b": 2}, run=run)
            with pytest.raises(CallDenied, match="per run"):
                await calls_of(bus).run(spec, {"a": 1, "b": 2}, run=run)


async def test_a_reload_brings_another_policy_to_all_users_at_once() -> None:
    async with Toolbus(config()) as bus:
        ann = bus.as_user("ann")
        assert (await ann.call("day_echo", {"text": "x"})).text == "x"
        await bus.reload(config({"tools": "day/echo", "do": "deny"}))
        for view in (bus, ann):
            with pytest.raises(CallDenied):
                await view.call("day_echo", {"text": "x"})
            assert "day_echo" not in view.catalog
        await bus.reload(config())
        assert (await ann.call("day_echo", {"text": "x"})).text == "x"


async def test_a_refused_call_ends_as_refused_for_observers() -> None:
    events: list[Event] = []
    async with Toolbus(config({"tools": "day/echo", "do": "deny"}), on_event=events.append) as bus:
        with pytest.raises(CallDenied):
            await bus.call("day_echo", {"text": "x"})
    ended = [event for event in events if isinstance(event, CallEnded)]
    assert [(event.name, event.tool, event.reason) for event in ended] == [("day_echo", "echo", "refused")]


def test_the_synchronous_bus_asks_and_refuses_alike() -> None:
    person = Person(True, "no")
    with SyncToolbus(config(ASK), interactions=person.interactions) as bus:
        assert bus.call("day_echo", {"text": "x"}).text == "x"
        with pytest.raises(CallDenied, match="did not allow"):
            bus.call("day_echo", {"text": "x"})
        assert bus.tools()[0].name
    assert len(person.asked) == 2


async def test_a_dead_rule_is_warned_of_once_with_a_near_miss() -> None:
    events: list[Event] = []
    rules = [{"tools": "day/ecko", "do": "deny"}, {"tools": "day/add", "do": "ask"}]
    async with Toolbus(config(*rules), on_event=events.append) as bus:
        await bus.add_server("more", {"server": everyday()})
    warned = [event for event in events if isinstance(event, Warned) and "policy[" in event.message]
    assert len(warned) == 1
    assert "policy[0]" in warned[0].message
    assert "echo" in warned[0].message


async def test_a_warning_of_the_bus_names_no_server_and_a_rule_on_a_disabled_one_is_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = [{"tools": "day/ecko", "do": "deny"}, {"tools": "night/*", "do": "deny"}]
    servers = {"day": everyday(), "night": {"command": "x", "disabled": True}}
    async with Toolbus({"servers": servers, "policy": rules}):
        pass
    warned = [record.message for record in caplog.records if "policy[" in record.message]
    assert warned == ["policy[0]: tools: 'day/ecko' matches no tool; did you mean 'day/echo'?"]


async def test_every_decision_is_recorded_before_anything_is_sent(tmp_path: Path) -> None:
    trail = tmp_path / "audit.jsonl"
    rules = [{"tools": "day/fail", "do": "deny", "reason": "it fails"}, ASK]
    person = Person("session", "no")
    sent: list[list[tuple[Any, ...]]] = []

    def watch(event: Event) -> None:
        if isinstance(event, Progressed):
            sent.append(decisions(trail))

    tell = {"text": "x", "steps": 1}
    async with Toolbus(
        {"servers": {"day": {"server": everyday()}, "ask": {"server": asking()}}, "policy": rules}
        | {"audit": str(trail)},
        interactions=person.interactions,
        on_event=watch,
    ) as bus:
        await bus.call("ask_tell", tell)
        assert sent == [[("tell", "allow", None, "default")]]
        await bus.call("day_echo", {"text": "x"})
        await bus.call("day_echo", {"text": "y"})
        with pytest.raises(CallDenied):
            await bus.call("day_fail", {"reason": 1})
        calls_of(bus).report_unsent("day_fail", "unknown_tool", "a framework did not know it")
        digest = calls_of(bus).definition_digest(bus.catalog["day_echo"])
    assert decisions(trail) == [
        ("tell", "allow", None, "default"),
        ("echo", "allow", "policy[1]", "function"),
        ("echo", "allow", "policy[1]", "session answer"),
        ("fail", "deny", "policy[0]", "policy"),
        ("fail", "deny", "policy[0]", "policy"),
    ]
    echo = next(line for line in lines(trail) if line.get("tool") == "echo")
    assert echo["definition"] == digest
    fail = [line for line in lines(trail) if line.get("tool") == "fail"]
    assert [line["reason"] for line in fail] == ["rule policy[0] denies it: it fails"] * 2


async def test_a_call_that_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    trail = tmp_path / "audit.jsonl"
    trail.mkdir()
    async with Toolbus(config(audit=str(trail))) as bus:
        with pytest.raises(CallDenied, match="the decision could not be recorded") as refused:
            await bus.call("day_echo", {"text": "x"})
        assert isinstance(refused.value.__cause__, AuditFailed)


async def test_a_reload_tells_true_from_one() -> None:
    """For Python, `const: true` and `const: 1` are equal; for JSON Schema they are not."""

    def denying(loud: object) -> dict[str, Any]:
        condition = {"properties": {"loud": {"const": loud}}, "required": ["loud"]}
        return config({"tools": "day/echo", "arguments": condition, "do": "deny"})

    async with Toolbus(denying(1)) as bus:
        await bus.call("day/echo", {"text": "a", "loud": True})
        await bus.reload(denying(True))
        with pytest.raises(CallDenied):
            await bus.call("day/echo", {"text": "a", "loud": True})


async def test_a_reload_may_begin_and_end_a_trail(tmp_path: Path) -> None:
    first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    async with Toolbus(config()) as bus:
        for trail in (first, second):
            await bus.reload(config(audit=str(trail)))
            await bus.call("day_echo", {"text": "x"})
        await bus.reload(config())
        await bus.call("day_echo", {"text": "x"})
    assert [len(lines(trail)) for trail in (first, second)] == [2, 2]


async def test_a_call_that_is_cancelled_while_a_person_is_asked_ends_the_question() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def approve(request: ApprovalRequest) -> ApprovalAnswer:
        asked.set()
        try:
            await asyncio.Event().wait()
            return True
        finally:
            ended.set()

    async with Toolbus(config(ASK), interactions=Interactions(approve=approve)) as bus:
        call = asyncio.create_task(bus.call("day_echo", {"text": "x"}))
        await asyncio.wait_for(asked.wait(), 30)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(ended.wait(), 30)


def test_the_time_of_a_call_begins_after_its_approval() -> None:
    async def approve(request: ApprovalRequest) -> ApprovalAnswer:
        await asyncio.sleep(300)
        return True

    async def main() -> str:
        slow = {"servers": {"ask": {"server": asking()}}, "policy": [{"do": "ask"}]}
        async with Toolbus(slow, interactions=Interactions(approve=approve)) as bus:
            return (await bus.call("ask_tick", {"times": 1, "seconds": 50}, timeout=PATIENCE)).text

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(main()) == "done"


async def test_arguments_that_change_while_a_person_is_asked() -> None:
    """The call is refused: it is not the one that the person saw."""
    arguments = {"text": "harmless"}

    def approve(request: ApprovalRequest) -> ApprovalAnswer:
        arguments["text"] = "harmful"
        return True

    async with Toolbus(config(ASK), interactions=Interactions(approve=approve)) as bus:
        with pytest.raises(CallDenied, match="not the one that was approved"):
            await bus.call("day_echo", arguments)


async def test_a_policy_that_is_replaced_while_a_person_is_asked() -> None:
    """The policy at the time of sending counts."""

    async def approve(request: ApprovalRequest) -> ApprovalAnswer:
        await bus.reload(config({"tools": "day/echo", "do": "deny"}))
        return True

    bus = Toolbus(config(ASK), interactions=Interactions(approve=approve))
    async with bus:
        with pytest.raises(CallDenied, match="denies it"):
            await bus.call("day_echo", {"text": "x"})


async def test_a_tool_that_changes_while_a_person_is_asked() -> None:
    """The call is refused: its definition is not the one that the person saw."""
    server = everyday()

    async def approve(request: ApprovalRequest) -> ApprovalAnswer:
        server.remove_tool("echo")
        server.add_tool(_echo, name="echo", description="Say it again, and send it to me.")
        await relisted(bus)
        return "always"

    settings = {"servers": {"day": {"server": server}}, "policy": [ASK]}
    bus = Toolbus(settings, interactions=Interactions(approve=approve))
    async with bus:
        with pytest.raises(CallDenied, match="not the one that was approved"):
            await bus.call("day_echo", {"text": "x"})


async def test_a_tool_object_that_is_older_than_the_hints_of_its_tool() -> None:
    """The hints that count are those that the server sends now."""
    server = everyday()
    settings = {"servers": {"day": {"server": server, "trust_annotations": True}}}
    rules = [{"tools": "day/add", "hint": "destructive", "do": "deny"}]
    async with Toolbus(settings | {"policy": rules}) as bus:
        old = next(tool for tool in bus.tools() if tool.name == "day_add")
        assert (await old.execute(a=1, b=2)).structured == {"result": 3}
        server.remove_tool("add")
        server.add_tool(_add, name="add")
        await relisted(bus)
        result = await old.execute(a=1, b=2)
    assert "rule policy[0] denies it" in result.text


def _add(a: int, b: int) -> int:
    return a + b


def _echo(text: str) -> str:
    return text


async def relisted(bus: Toolbus) -> None:
    """Return when the bus has seen what changed; the server reports it with a new tool."""
    changes = bus.events()
    await bus.call("day_grow", {"name": "sign"})
    async with asyncio.timeout(PATIENCE):
        async for event in changes:
            if isinstance(event, CatalogChanged) and "day_sign" in event.added:
                return
