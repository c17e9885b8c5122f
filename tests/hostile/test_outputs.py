"""Output schemas that are odd, and calls that ran: no result is lost, and nothing is sent twice."""

import asyncio
import json
from typing import Any

import pytest

from tests.conftest import sampled
from tests.hostile.schemas import CASES
from tests.hostile.wires import ID, hostile_http, modern
from tests.servers.raw_http import Request, raw_server, response
from toolbus import ArgumentsError, ConnectionLost, ServerRejected, Toolbus
from toolbus.events import Event, Warned

pytestmark = pytest.mark.anyio
ODD: dict[str, Any] = {
    **{name: case[0] for name, case in CASES.items()},
    "a draft that is a list": {"$schema": []},
    "a draft that is an object": {"$schema": {"a": 1}},
    "no schema at all": 5,
    "a text": "object",
    "true": True,
    "false": False,
    "definitions that are none": {"$defs": [], "definitions": 5, "$ref": "#/$defs/0"},
    "a reference into a text": {"$ref": "#/title/a", "title": "x"},
    "a type of types": {"type": {"type": "object"}},
    "required that is a text": {"required": "x", "properties": "y"},
    "an anchor that is a number": {"$anchor": 5, "$id": 7, "id": [], "$dynamicRef": {}},
    "a vocabulary": {"$vocabulary": {"x": True}, "$schema": "http://json-schema.org/draft-03/schema"},
}


@pytest.mark.parametrize("era", sampled(["legacy", "modern"], "modern"))
async def test_output_schemas_that_are_odd(era: str) -> None:
    """Every result is returned, with any schema."""
    tools = [
        {"name": f"t{number}", "inputSchema": {"type": "object"}, "outputSchema": schema}
        for number, schema in enumerate(ODD.values())
    ]
    result = {"content": [{"type": "text", "text": "seen"}], "structuredContent": {"x": [1]}}
    async with hostile_http("post") as server:
        server.results |= {"tools/list": {"tools": tools}, "tools/call": result}
        if era == "modern":
            server.results = modern(server.results)
        async with Toolbus({"servers": {"a": {"url": server.url, "era": era}}}) as bus:
            assert bus.servers["a"].era == era
            assert len(bus.catalog) == len(ODD)
            for name in bus.catalog.names:
                found = await bus.call(name)
                assert (found.text, found.structured, found.is_error) == ("seen", {"x": [1]}, False)


REFUSED = {
    "a result that cannot be read": b'{"id":"@ID@","result":{"content":[{"type":"image","data":[]}]}}',
    "a task that cannot be read": b'{"id":"@ID@","result":{"resultType":"task","taskId":5}}',
    "an error that mentions a session": b'{"id":"@ID@","error":{"code":-1,"message":"your session is full"}}',
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_call_that_ran_and_failed(name: str) -> None:
    """It is not reported as unsent, and not sent again."""
    calls: list[bytes] = []

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        calls.append(json.dumps(request.message).encode())
        body = REFUSED[name].replace(ID, json.dumps(request.message["id"]).encode())
        status = "400 Bad Request" if b"session" in body else "200 OK"
        writer.write(response(body, "mcp-session-id: one", status=status))

    async with raw_server() as server:
        server.send = send
        async with Toolbus({"servers": {"a": {"url": server.url, "era": "legacy"}}}) as bus:
            for _ in range(2):  # the second one has a session
                with pytest.raises(ServerRejected):
                    await bus.call("a_look")
    assert len(calls) == 2


async def test_a_server_that_vanishes_under_calls_that_wait_for_a_slot() -> None:
    """The call that was sent is reported as sent, and waiting calls use the next connection."""
    async with hostile_http("sse") as server:
        entry = {"url": server.url, "transport": "sse", "era": "legacy", "max_concurrency": 1}
        async with Toolbus({"servers": {"a": entry}}) as bus:
            server.swallows = True
            calls = [asyncio.create_task(bus.call("a_plain")) for _ in range(3)]
            await server.swallowed.wait()
            server.swallows = False
            server.drop_streams()
            first, *others = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(first, ConnectionLost)
            assert first.sent
            assert [getattr(other, "text", other) for other in others] == ["seen", "seen"]


async def test_arguments_that_are_not_json() -> None:
    """Only these are reported as impossible to send."""
    async with hostile_http("post") as server:
        config = {"servers": {"a": {"url": server.url, "era": "legacy", "repair": False}}}
        async with Toolbus(config) as bus:
            with pytest.raises(ArgumentsError, match="cannot be sent as JSON"):
                await bus.call("a_plain", {"x": object()})


async def test_an_output_that_cannot_be_checked() -> None:
    """The warning says so, once."""
    tools = [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"$ref": "#"}}]
    events: list[Event] = []
    async with hostile_http("post") as server:
        server.results |= {"tools/list": {"tools": tools}}
        config = {"servers": {"a": {"url": server.url, "era": "legacy"}}}
        server.results["tools/call"] = {"content": [], "structuredContent": {"x": 1}}
        async with Toolbus(config, on_event=events.append) as bus:
            for _ in range(3):
                assert (await bus.call("a_t")).structured == {"x": 1}
    reason = "its schema cannot be used: its references are endless, or too many"
    warned = [event.message for event in events if isinstance(event, Warned)]
    assert warned == [f"the output is not checked: {reason}"]
