"""Every operation of a bus is one CLIENT span, with the attributes that the conventions name."""

import asyncio
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from tests import warm
from tests.conftest import SERVERS, Place, plain
from tests.inside.core import Operation
from tests.servers.everyday import everyday
from tests.telemetry.collected import Collected, attributes, events
from toolbus import CallDenied, CallTimeout, ServerDown, ServerRejected, Toolbus
from toolbus.events import CallStarted
from toolbus.records import Text

pytestmark = pytest.mark.anyio
MODERN = "2026-07-28"
NETWORK: dict[str, dict[str, Any]] = {
    "memory": {},
    "stdio": {"network.transport": "pipe"},
    "http": {
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "network.protocol.version": "1.1",
        "server.address": "127.0.0.1",
    },
}
NETWORK["sse"] = NETWORK["http"]


async def test_a_call_has_the_attributes_of_the_conventions(place: Place, collected: Collected) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        await bus.call("day_add", {"a": 1, "b": 2})
        protocol = bus.servers["day"].protocol
    span = collected.one("tools/call add")
    port = {"server.port": place.ports[place.transport]} if place.transport in place.ports else {}
    varying = ("jsonrpc.request.id", "mcp.session.id")
    assert attributes(span, *varying) == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "mcp.protocol.version": protocol,
        "toolbus.server": "day",
        "toolbus.tool": "day_add",
        "toolbus.outcome": "ok",
        **NETWORK[place.transport],
        **port,
    }
    known = span.attributes or {}
    assert ("jsonrpc.request.id" in known) == (place.transport != "memory")
    assert ("mcp.session.id" in known) == ((place.transport, place.era) == ("http", "legacy"))
    assert span.status.status_code is StatusCode.UNSET


async def test_resources_prompts_and_completions_are_spans_too(collected: Collected) -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        await bus.read_resource("day", "memo://greeting")
        await bus.get_prompt("day", "summarise", {"text": "a long story"})
    read, prompt = collected.one("resources/read"), collected.one("prompts/get summarise")
    common = {"toolbus.server": "day", "toolbus.outcome": "ok", "mcp.protocol.version": MODERN}
    assert attributes(read) == common | {
        "mcp.method.name": "resources/read",
        "mcp.resource.uri": "memo://greeting",
    }
    assert attributes(prompt) == common | {
        "mcp.method.name": "prompts/get",
        "gen_ai.prompt.name": "summarise",
    }


async def test_connecting_and_listing_are_spans_with_their_requests_below(collected: Collected) -> None:
    with collected.tracer.start_as_current_span("start") as start:
        async with Toolbus({"servers": {"day": {"server": everyday()}}}):
            pass
    connect = collected.one("connect day", SpanKind.INTERNAL)
    listing = collected.one("list day", SpanKind.INTERNAL)
    for outer in (connect, listing):
        assert outer.parent == start.get_span_context()
    below = {span.name: collected.parent(span) for span in collected.spans if span.kind is SpanKind.CLIENT}
    assert below == {
        "server/discover": connect,
        "tools/list": listing,
        "resources/list": listing,
        "resources/templates/list": listing,
        "prompts/list": listing,
        "subscriptions/listen": None,
    }


async def test_a_server_that_cannot_be_reached_is_a_failed_attempt(collected: Collected) -> None:
    async with Toolbus({"servers": {"a": {"command": "no-such-program"}}}) as bus:
        with pytest.raises(ServerDown):
            await bus.read_resource("a", "memo://x")
    attempts = collected.of("connect a", SpanKind.INTERNAL)
    assert {span.status.status_code for span in attempts} == {StatusCode.ERROR}
    assert attributes(collected.one("resources/read")) == {
        "mcp.method.name": "resources/read",
        "mcp.resource.uri": "memo://x",
        "toolbus.server": "a",
        "toolbus.outcome": "server_failed",
        "error.type": "ServerDown",
    }


async def test_a_tool_that_fails(collected: Collected) -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        assert (await bus.call("day_fail", {"reason": "private"})).is_error
    span = collected.one("tools/call fail")
    known = attributes(span)
    assert (known["error.type"], known["toolbus.outcome"]) == ("tool_error", "tool_error")
    assert span.status.status_code is StatusCode.ERROR
    assert "private" not in span.to_json()


async def test_an_error_of_the_protocol(collected: Collected) -> None:
    async with Toolbus({"servers": {"a": plain("refuse_loudly")}}) as bus:
        with pytest.raises(ServerRejected) as raised:
            await bus.call("a_echo", {"text": "x"})
    span, code = collected.one("tools/call echo"), str(raised.value.code)
    known = attributes(span)
    assert (known["error.type"], known["rpc.response.status_code"]) == (code, code)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)


async def test_a_call_that_takes_too_long(collected: Collected) -> None:
    async with Toolbus({"servers": {"a": plain("hang_in_call")}}) as bus:
        with pytest.raises(CallTimeout):
            await bus.call("a_echo", {"text": "x"}, timeout=0.2)
    known = attributes(collected.one("tools/call echo"))
    assert (known["error.type"], known["toolbus.outcome"]) == ("timeout", "timed_out")


async def test_a_call_that_is_cancelled(collected: Collected) -> None:
    async with Toolbus({"servers": {"a": plain("hang_in_call")}}) as bus:
        started = asyncio.Event()
        bus.on_event(lambda event: started.set() if isinstance(event, CallStarted) else None)
        call = asyncio.create_task(bus.call("a_echo", {"text": "x"}))
        await started.wait()
        call.cancel()
        await asyncio.wait({call})
    known = attributes(collected.one("tools/call echo"))
    assert (known["error.type"], known["toolbus.outcome"]) == ("cancelled", "cancelled")


async def test_a_call_that_a_policy_refuses(collected: Collected) -> None:
    rules = [{"tools": "day/add", "arguments": {"properties": {"a": {"const": 1}}}, "do": "deny"}]
    async with Toolbus({"servers": {"day": {"server": everyday()}}, "policy": rules}) as bus:
        with pytest.raises(CallDenied):
            await bus.call("day_add", {"a": 1, "b": 2})
    known = attributes(collected.one("tools/call add"))
    assert (known["error.type"], known["toolbus.outcome"]) == ("refused", "refused")
    assert "mcp.protocol.version" not in known  # nothing was sent


async def test_arguments_and_results_are_in_spans_only_on_request(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "tok-123456")
    server = {
        "command": warm.python(),
        "args": [str(SERVERS / "everyday.py"), "stdio"],
        "env": {"TOKEN": "${TOKEN}"},
    }
    for content in (False, True):
        config = {"servers": {"day": server}, "telemetry": {"content": content}}
        async with Toolbus(config) as bus:
            await bus.call("day_echo", {"text": "my tok-123456"})
            await bus.get_prompt("day", "summarise", {"text": "tok-123456!"})
    assert "tok-123456" not in "".join(span.to_json() for span in collected.spans)
    before, call = collected.of("tools/call echo")
    assert "gen_ai.tool.call.arguments" not in attributes(before)
    known = attributes(call)
    assert known["gen_ai.tool.call.arguments"] == '{"text": "my ***"}'
    assert known["gen_ai.tool.call.result"] == '[{"type": "text", "text": "my ***"}]'
    prompt = collected.of("prompts/get summarise")[1]
    assert attributes(prompt)["gen_ai.prompt.variable.text"] == "***!"


async def test_telemetry_can_be_turned_off(collected: Collected) -> None:
    config = {"servers": {"day": {"server": everyday(), "era": "legacy"}}, "telemetry": False}
    async with Toolbus(config) as bus:
        await bus.call("day_add", {"a": 1, "b": 2})
    assert {span.instrumentation_scope.name for span in collected.spans if span.instrumentation_scope} == {
        "mcp-python-sdk"
    }
    assert not [span for span in collected.spans if span.kind is SpanKind.CLIENT]
    assert not collected.points("mcp.client.operation.duration")


async def test_what_reaches_no_server_is_no_span(collected: Collected) -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}, "resource_tools": True}) as bus:
        with pytest.raises(LookupError):
            await bus.call("day_no_such_tool")
        await bus.call("list_resources")
    names = [span.name for span in collected.spans]
    assert not [name for name in names if "toolbus" in name or "no_such" in name]


async def test_a_hook_sees_the_span(collected: Collected) -> None:
    seen: list[str] = []

    async def hook(call: Operation, following: Any) -> Any:
        with collected.tracer.start_as_current_span("hook"):
            seen.append(call.spec.name)
            return await following(call)

    async with Toolbus({"servers": {"day": {"server": everyday()}}}, hooks=[hook]) as bus:
        assert (await bus.call("day_add", {"a": 1, "b": 2})).content == (Text(text="3"),)
    call = collected.one("tools/call add")
    assert collected.one("hook", SpanKind.INTERNAL).parent == call.context
    assert (seen, attributes(call)["mcp.protocol.version"]) == (["day_add"], MODERN)
    assert events(call) == []
