"""The requests of clients, as the gateway traces them."""

import asyncio
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from tests.inside.config import Telemetry
from tests.inside.telemetry import RequestArrival, ServerTelemetry
from tests.servers.everyday import everyday
from tests.telemetry.collected import Collected, attributes
from toolbus import Toolbus

pytestmark = pytest.mark.anyio
CLIENT = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
HTTP = "00-0123456789abcdef0123456789abcdef-00000000000000ff-01"
CALL: dict[str, Any] = {"name": "day_add", "arguments": {"a": 1, "b": 2}, "_meta": {"traceparent": CLIENT}}


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


async def test_a_trace_goes_through_a_gateway(collected: Collected) -> None:
    telemetry = ServerTelemetry(Telemetry())
    inbound = RequestArrival(
        request_id=7,
        transport="tcp",
        headers={"traceparent": CLIENT},
        protocol="2026-07-28",
        principal="editor",
    )
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        with telemetry.request("tools/call", CALL, inbound) as span:
            # As a front does that answers in a task of its own.
            result = await asyncio.create_task(bus.call("day_add", {"a": 1, "b": 2}))
            span.answered({"content": [{"type": "text", "text": result.text}]})
    served = collected.one("tools/call day_add", SpanKind.SERVER)
    client = collected.one("tools/call add")
    behind = collected.one("tools/call add", SpanKind.SERVER)
    assert served.parent is not None
    assert f"{served.parent.trace_id:032x}-{served.parent.span_id:016x}" == CLIENT[3:-3]
    assert (collected.parent(client), collected.parent(behind)) == (served, client)
    assert served.links == ()  # the headers have the same context
    assert attributes(served) == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "day_add",
        "jsonrpc.request.id": "7",
        "mcp.protocol.version": "2026-07-28",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "network.protocol.version": "1.1",
        "toolbus.principal": "editor",
    }


def test_the_context_of_the_transport_is_linked_if_it_is_another(collected: Collected) -> None:
    telemetry = ServerTelemetry(Telemetry())
    with telemetry.request("tools/call", CALL, RequestArrival(headers={"traceparent": HTTP})):
        pass
    with (
        collected.tracer.start_as_current_span("POST /mcp", kind=SpanKind.SERVER) as post,
        telemetry.request("tools/call", CALL, RequestArrival(headers={"traceparent": HTTP})),
    ):
        pass
    by_headers, by_current = collected.of("tools/call day_add", SpanKind.SERVER)
    assert [f"{link.context.span_id:016x}" for link in by_headers.links] == ["00000000000000ff"]
    assert [link.context for link in by_current.links] == [post.get_span_context()]
    assert by_current.parent is not None
    assert f"{by_current.parent.span_id:016x}" == CLIENT[36:52]


def test_without_a_context_in_the_request_that_of_the_transport_is_the_parent(collected: Collected) -> None:
    telemetry = ServerTelemetry(Telemetry())
    with telemetry.request("tools/list", None, RequestArrival(headers={"traceparent": HTTP})):
        pass
    with telemetry.request("tools/list", {}, RequestArrival()):
        pass
    carried, alone = collected.of("tools/list", SpanKind.SERVER)
    assert carried.parent is not None
    assert (carried.parent.span_id, carried.links) == (0xFF, ())
    assert alone.parent is None


@pytest.mark.parametrize(
    "meta",
    [
        {"traceparent": 7},
        {"traceparent": "x" * 100_000},
        {"traceparent": "00-0-0-01", "tracestate": ["a"]},
        {"traceparent": CLIENT, "tracestate": "=" * 900},
        "traceparent",
        [CLIENT],
    ],
    ids=["number", "long", "malformed", "bad state", "text", "list"],
)
def test_a_client_that_sends_a_broken_context(meta: object, collected: Collected) -> None:
    """The request is answered and traced."""
    with ServerTelemetry(Telemetry()).request("tools/list", {"_meta": meta}, RequestArrival()):
        pass
    assert collected.one("tools/list", SpanKind.SERVER).status.status_code is StatusCode.UNSET


def test_a_client_that_invents_names(collected: Collected) -> None:
    """The number of time series stays bounded."""
    telemetry = ServerTelemetry(Telemetry())
    for number in range(50):
        with pytest.raises(Refused), telemetry.request(f"made/up_{number}", {}, RequestArrival()):
            raise Refused(-32601, "method not found")
        with (
            pytest.raises(Refused),
            telemetry.request("tools/call", {"name": f"tool_{number}"}, RequestArrival()),
        ):
            raise Refused(-32602, "unknown tool")
    points = collected.points("mcp.server.operation.duration")
    assert [(point.attributes["mcp.method.name"], point.count) for point in points] == [
        ("_OTHER", 50),
        ("tools/call", 50),
    ]


def test_how_a_request_ends(collected: Collected) -> None:
    telemetry = ServerTelemetry(Telemetry(content=True))
    with telemetry.request("tools/call", {"name": "fail"}, RequestArrival()) as span:
        span.answered({"isError": True, "content": [{"type": "text", "text": "no"}]})
    with pytest.raises(Refused), telemetry.request("prompts/get", {"name": "p"}, RequestArrival()):
        raise Refused(-32000, "down")
    with pytest.raises(asyncio.CancelledError), telemetry.request("ping", {}, RequestArrival()):
        raise asyncio.CancelledError
    failed = collected.one("tools/call fail", SpanKind.SERVER)
    rejected = collected.one("prompts/get p", SpanKind.SERVER)
    cancelled = collected.one("ping", SpanKind.SERVER)
    assert attributes(failed)["error.type"] == "tool_error"
    assert attributes(failed)["gen_ai.tool.call.result"] == '[{"type": "text", "text": "no"}]'
    assert attributes(rejected)["error.type"] == attributes(rejected)["rpc.response.status_code"] == "-32000"
    assert (rejected.status.status_code, rejected.status.description) == (StatusCode.ERROR, "down")
    assert attributes(cancelled)["error.type"] == "cancelled"


def test_the_sessions_of_clients_are_metrics(collected: Collected) -> None:
    telemetry = ServerTelemetry(Telemetry())
    telemetry.session_ended(12.5, RequestArrival(transport="tcp", protocol="2025-11-25", session="secret"))
    (point,) = collected.points("mcp.server.session.duration")
    assert (point.sum, dict(point.attributes)) == (
        12.5,
        {
            "mcp.protocol.version": "2025-11-25",
            "network.transport": "tcp",
            "network.protocol.name": "http",
            "network.protocol.version": "1.1",
        },
    )


def test_nothing_is_traced_if_it_is_turned_off(collected: Collected) -> None:
    telemetry = ServerTelemetry(None)
    assert (telemetry.is_active, ServerTelemetry(Telemetry()).is_active) == (False, True)
    with telemetry.request("ping", {}, RequestArrival()) as span:
        span.answered({})
    telemetry.session_ended(1.0, RequestArrival())
    assert not collected.spans
    assert not collected.points("mcp.server.session.duration")
