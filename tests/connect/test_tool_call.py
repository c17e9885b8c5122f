"""The trip of a call: responses read without the SDK's models, and responses handled with them."""

from typing import Any

import mcp_types as types
import pytest
from mcp_types import HEADER_MISMATCH

from tests.inside.connect import wire
from tests.servers.recording import RESULTS, Recording, recording
from toolbus import ServerRejected, Toolbus

pytestmark = pytest.mark.anyio

HI = {"type": "text", "text": "hi"}
PLAIN: list[dict[str, Any]] = [
    {"content": []},
    {"content": [HI, {"type": "text", "text": "zoë 🎈"}], "resultType": "complete"},
    {"content": [HI], "isError": True, "_meta": None, "structuredContent": None},
    {"content": [HI], "structuredContent": {"n": 1}, "_meta": {"a": 1}, "unknown": 5},
]
NOT_PLAIN: list[dict[str, Any]] = [
    {},
    {"content": None},
    {"content": HI},
    {"content": [None]},
    {"content": [{"type": "text"}]},
    {"content": [{"type": "text", "text": 5}]},
    {"content": [{"type": "text", "text": "\ud800"}]},
    {"content": [{**HI, "annotations": {"priority": 1}}]},
    {"content": [{**HI, "_meta": {"a": 1}}]},
    {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
    {"content": [HI], "isError": "true"},
    {"content": [HI], "isError": None},
    {"content": [HI], "_meta": 5},
    {"content": [HI], "resultType": "input_required"},
    {"content": [HI], "resultType": None},
]


@pytest.mark.parametrize("raw", PLAIN, ids=str)
def test_a_plain_result_is_read_as_the_sdk_reads_it(raw: dict[str, Any]) -> None:
    read = wire.plain_result(raw)
    assert read == wire.tool_result(types.CallToolResult.model_validate(raw, by_name=False))


@pytest.mark.parametrize("raw", NOT_PLAIN, ids=ascii)
def test_any_other_result_is_left_to_the_sdk(raw: dict[str, Any]) -> None:
    assert wire.plain_result(raw) is None


def modern(record: Recording) -> dict[str, Any]:
    fresh: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    record.results = {method: {**result, **fresh} for method, result in RESULTS.items()}
    record.results["server/discover"] = {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        **fresh,
    }
    record.results["tools/list"]["tools"] = [{"name": "look", "inputSchema": {"type": "object"}}]
    return {"servers": {"a": {"url": record.url}}}


def calls(record: Recording) -> list[dict[str, str]]:
    return [headers for _, _, headers, method in record.requests if method == "tools/call"]


async def test_a_header_mismatch_is_solved_by_one_more_call() -> None:
    with recording() as record:
        async with Toolbus(modern(record)) as bus:
            record.errors["tools/call"] = [{"code": HEADER_MISMATCH, "message": "no Region"}]
            region = {"region": {"type": "string", "x-mcp-header": "Region"}}
            schema = {"type": "object", "properties": region}
            record.results["tools/list"]["tools"] = [{"name": "look", "inputSchema": schema}]
            assert (await bus.call("a_look", {"region": "north"})).text == "seen"
            assert (await bus.call("a_look", {"region": "south"})).text == "seen"
        sent = [headers.get("mcp-param-region") for headers in calls(record)]
    assert sent == [None, "north", "south"]


async def test_a_second_header_mismatch_is_an_error() -> None:
    with recording() as record:
        async with Toolbus(modern(record)) as bus:
            record.errors["tools/call"] = [{"code": HEADER_MISMATCH, "message": "no Region"}] * 2
            with pytest.raises(ServerRejected, match="no Region"):
                await bus.call("a_look")
        assert len(calls(record)) == 2


async def test_a_call_that_fails_with_another_error_is_sent_once() -> None:
    with recording() as record:
        async with Toolbus(modern(record)) as bus:
            record.errors["tools/call"] = [{"code": -32000, "message": "not today"}]
            with pytest.raises(ServerRejected, match="not today"):
                await bus.call("a_look")
        assert len(calls(record)) == 1


async def test_an_invalid_result_is_an_error_and_the_call_is_sent_once() -> None:
    with recording() as record:
        async with Toolbus(modern(record)) as bus:
            record.results["tools/call"] = {"content": [{"type": "text", "text": 5}]}
            with pytest.raises(ServerRejected, match="invalid response"):
                await bus.call("a_look")
        assert len(calls(record)) == 1


async def test_every_call_of_a_tool_has_the_stamp_of_the_first() -> None:
    with recording() as record:
        async with Toolbus(modern(record)) as bus:
            for text in ("a", "b"):
                await bus.call("a_look", {"text": text})
        sent = [message["params"] for message in record.messages if message.get("method") == "tools/call"]
        names = [headers["mcp-name"] for headers in calls(record)]
    assert names == ["look", "look"]
    assert [params["arguments"] for params in sent] == [{"text": "a"}, {"text": "b"}]
    assert "io.modelcontextprotocol/clientInfo" in sent[0]["_meta"]
    assert sent[0]["_meta"] == sent[1]["_meta"]
