"""Events during a call are in its span: frameworks, questions, approvals, lost connections."""

import os
import signal
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from tests import warm
from tests.conftest import SERVERS, Place
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from tests.telemetry.collected import Collected, attributes, events, installed, trace_of
from toolbus import Answer, ApprovalRequest, Elicitation, Interactions, Toolbus

pytestmark = pytest.mark.anyio
EXECUTE: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "day_add"}


async def test_the_span_of_a_framework_gets_our_attributes(collected: Collected) -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        with collected.tracer.start_as_current_span("execute_tool day_add", attributes=EXECUTE):
            await bus.call("day_add", {"a": 1, "b": 2})
            await bus.call("day_echo", {"text": "x"})  # another tool has a span of its own
    outer = collected.one("execute_tool day_add", SpanKind.INTERNAL)
    assert not collected.of("tools/call add")
    assert attributes(outer) == EXECUTE | {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "toolbus.server": "day",
        "toolbus.tool": "day_add",
        "toolbus.outcome": "ok",
    }
    assert collected.parent(collected.one("tools/call add", SpanKind.SERVER)) == outer
    assert collected.one("tools/call echo").parent == outer.context
    (counted, _) = collected.points("mcp.client.operation.duration")[-2:]
    assert counted.attributes["gen_ai.tool.name"] in ("add", "echo")


async def test_the_second_call_in_the_span_of_a_framework_is_a_span(collected: Collected) -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        with collected.tracer.start_as_current_span("execute_tool day_add", attributes=EXECUTE):
            await bus.call("day_add", {"a": 1, "b": 2})
            await bus.call("day_add", {"a": 1, "b": 2})
    outer = collected.one("execute_tool day_add", SpanKind.INTERNAL)
    assert collected.one("tools/call add").parent == outer.context


async def test_a_question_is_an_event_of_the_call(asker: Place, collected: Collected) -> None:
    async def answer(question: Elicitation) -> Answer:
        return question.decline()

    async with Toolbus({"servers": {"a": asker.config()}}, interactions=Interactions(elicit=answer)) as bus:
        await bus.call("a_book", {"guest": "Ann"})
    call = collected.one("tools/call book")
    assert [name for name, _ in events(call)][:2] == ["toolbus.input_asked", "toolbus.input_answered"]
    assert events(call)[:2][1][1] == {"kind": "elicitation", "action": "decline"}
    asked = collected.of("elicitation/create", SpanKind.SERVER)
    # In the modern era the question is a result, and the call is made again.
    assert (len(asked), attributes(call).get("toolbus.attempts")) == (
        (0, 2) if asker.era == "modern" else (1, None)
    )


async def test_a_question_of_a_legacy_server_is_in_the_trace(collected: Collected) -> None:
    async def answer(question: Elicitation) -> Answer:
        return question.decline()

    config = {"servers": {"a": {"server": asking(), "era": "legacy"}}}
    async with Toolbus(config, interactions=Interactions(elicit=answer)) as bus:
        await bus.call("a_book", {"guest": "Ann"})
    asked = collected.one("elicitation/create", SpanKind.SERVER)
    sender = collected.parent(asked)
    assert sender is not None
    assert sender.name == "MCP send elicitation/create"  # the SDK's span of its server
    assert collected.parent(sender) == collected.one("tools/call book", SpanKind.SERVER)
    assert trace_of(asked) == trace_of(collected.one("tools/call book"))


async def test_an_approval_is_an_event_of_the_call(collected: Collected) -> None:
    async def approve(request: ApprovalRequest) -> str:
        return "once"

    config = {
        "servers": {"day": {"server": everyday()}},
        "policy": [{"tools": "day/add", "do": "ask"}],
    }
    async with Toolbus(config, interactions=Interactions(approve=approve)) as bus:
        await bus.call("day_add", {"a": 1, "b": 2})
    (asked, rule), (approved, by) = events(collected.one("tools/call add"))
    assert (asked, rule) == ("toolbus.approval_asked", {"rule": "policy[0]"})
    assert (approved, list(by)) == ("toolbus.approved", ["by"])


async def test_a_call_over_a_lost_connection_is_one_span(collected: Collected) -> None:
    entry = {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"]}
    async with Toolbus({"servers": {"day": entry}}) as bus:
        first = (await bus.call("day_process")).text
        os.kill(int(first), signal.SIGKILL)
        assert (await bus.call("day_add", {"a": 1, "b": 2})).text == "3"
        assert (await bus.call("day_process")).text != first
    call = collected.one("tools/call add")
    assert "toolbus.reconnected" in [name for name, _ in events(call)]
    assert call.status.status_code is StatusCode.UNSET
    first_connect, second = collected.of("connect day", SpanKind.INTERNAL)
    # A reconnect is not in the trace of whoever opened the link, nor in that of the first call.
    assert trace_of(second) not in (trace_of(first_connect), trace_of(call))
    (restarts,) = collected.points("toolbus.server.restarts")
    assert (restarts.value, dict(restarts.attributes)) == (1, {"toolbus.server": "day"})
    ends = [point.attributes.get("error.type") for point in collected.points("mcp.client.session.duration")]
    assert sorted(map(str, ends)) == ["None", "lost"]


async def test_a_lazy_server_is_connected_in_the_trace_of_the_call(collected: Collected) -> None:
    async with Toolbus({"servers": {"day": {"server": everyday(), "lazy": True}}}) as bus:
        with collected.tracer.start_as_current_span("agent") as agent:
            await bus.call("day_add", {"a": 1, "b": 2})
    trace = agent.get_span_context().trace_id
    assert trace_of(collected.one("connect day", SpanKind.INTERNAL)) == trace
    assert trace_of(collected.one("tools/call add")) == trace


async def test_durations_are_metrics(collected: Collected) -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        await bus.call("day_add", {"a": 1, "b": 2})
        await bus.call("day_add", {"a": 3, "b": 4})
        await bus.call("day_fail")
    calls = {
        point.attributes.get("gen_ai.tool.name"): point
        for point in collected.points("mcp.client.operation.duration")
        if point.attributes["mcp.method.name"] == "tools/call"
    }
    assert (calls["add"].count, calls["fail"].count) == (2, 1)
    assert list(calls["add"].explicit_bounds) == [
        *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
    ]
    assert dict(calls["fail"].attributes) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "fail",
        "error.type": "tool_error",
        "toolbus.server": "day",
        "toolbus.outcome": "tool_error",
    }
    (session,) = collected.points("mcp.client.session.duration")
    assert dict(session.attributes) == {"mcp.protocol.version": "2026-07-28", "toolbus.server": "day"}


async def test_a_provider_that_is_installed_later_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        await bus.call("day_add", {"a": 1, "b": 2})
        with installed(monkeypatch) as collected:
            await bus.call("day_add", {"a": 1, "b": 2})
            assert len(collected.of("tools/call add")) == 1
            assert collected.points("mcp.client.operation.duration")


async def test_a_reload_changes_what_is_traced(collected: Collected) -> None:
    config: dict[str, Any] = {"servers": {"day": {"server": everyday()}}}
    async with Toolbus(config | {"telemetry": {"content": True}}) as bus:
        await bus.call("day_add", {"a": 1, "b": 2})
        await bus.reload(config | {"telemetry": False})
        await bus.call("day_add", {"a": 3, "b": 4})
    assert attributes(collected.one("tools/call add"))["gen_ai.tool.call.arguments"] == '{"a": 1, "b": 2}'
