"""The trace context on the wire: in `_meta` and in headers, once, from the right span."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

from tests.inside.bus import calls_of
from tests.inside.connect import encoded_request
from tests.inside.core import Forwarding, JSONObject
from tests.servers.everyday import everyday
from tests.servers.recording import Recording, recording
from tests.telemetry.collected import Collected, id_of, trace_of
from toolbus import Toolbus

pytestmark = pytest.mark.anyio
CLIENT = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
META: JSONObject = {"traceparent": CLIENT, "tracestate": "a=1", "mine": 1}


@pytest.fixture
def record() -> Iterator[Recording]:
    with recording() as record:
        yield record


class Nobody:
    """A client that cannot be asked anything."""

    def __init__(self) -> None:
        self.capabilities: JSONObject = {}

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        raise AssertionError(f"{server} asks {method}")


def carried(span: ReadableSpan) -> str:
    """The beginning of a `traceparent` for a span; the flags follow."""
    return f"00-{trace_of(span):032x}-{id_of(span):016x}-"


def metas(record: Recording, method: str) -> list[dict[str, Any]]:
    found = [message["params"] for message in record.messages if message.get("method") == method]
    return [params.get("_meta", {}) for params in found]


async def test_the_context_of_the_span_is_in_the_request_and_in_its_headers(
    record: Recording, collected: Collected
) -> None:
    async with Toolbus({"servers": {"a": record.url}}) as bus:
        await bus.call("a_look")
    span = collected.one("tools/call look")
    (meta,) = metas(record, "tools/call")
    assert meta["traceparent"].startswith(carried(span))
    (headers,) = (headers for _, _, headers, method in record.requests if method == "tools/call")
    assert headers["traceparent"] == meta["traceparent"]
    assert "baggage" not in headers


async def test_a_request_for_a_client_has_our_context_instead_of_its_own(
    record: Recording, collected: Collected
) -> None:
    async with Toolbus({"servers": {"a": record.url, "m": {"server": everyday()}}}) as bus:
        forwarding = Forwarding(client=Nobody(), meta=META)
        await calls_of(bus).forward(bus.catalog["a_look"], {}, forwarding)
        await calls_of(bus).forward(bus.catalog["m_add"], {"a": 1, "b": 2}, forwarding)
    span = collected.one("tools/call look")
    (sent,) = metas(record, "tools/call")
    assert sent["traceparent"].startswith(carried(span))
    assert (sent["mine"], sent.get("tracestate")) == (1, None)
    behind = collected.one("tools/call add", SpanKind.SERVER)
    assert collected.parent(behind) == collected.one("tools/call add")


async def test_a_request_for_a_client_keeps_its_context_if_nothing_is_traced(record: Recording) -> None:
    async with Toolbus({"servers": {"a": record.url}}) as bus:
        await calls_of(bus).forward(bus.catalog["a_look"], {}, Forwarding(client=Nobody(), meta=META))
    (sent,) = metas(record, "tools/call")
    assert {key: sent[key] for key in META} == META


def test_a_context_is_written_once(collected: Collected) -> None:
    with collected.tracer.start_as_current_span("outer"):
        data = encoded_request(7, "ping", b"{}", json.dumps(META).encode(), with_progress=False)
    assert data.count(b'"traceparent"') == 1
    meta = json.loads(data)["params"]["_meta"]
    assert meta.pop("traceparent").startswith(carried(collected.one("outer", SpanKind.INTERNAL)))
    assert meta == {"mine": 1}
