"""Modern clients of the gateway over HTTP."""

import asyncio
import json

import pytest

from tests.gateway.driving import JSON, VERSION
from tests.gateway.front import BOTH, META, PREFIX, Events, front, modern_bytes, modern_request
from tests.inside.gateway import HttpLimits
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio

ADD: JSON = {"name": "add", "arguments": {"a": 1, "b": 2}}


async def test_a_call_is_answered_with_json() -> None:
    async with front() as served:
        response = await served.modern("tools/call", ADD, id="one")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in response.headers
    body = response.json()
    assert body["id"] == "one"
    assert body["result"]["content"] == [{"type": "text", "text": "3"}]


async def test_progress_makes_the_response_a_stream() -> None:
    async with front() as served:
        body, headers = modern_request("tools/call", {"name": "steps", "_meta": {"progressToken": "t"}})
        async with served.http.stream("POST", served.url, content=body, headers=headers) as response:
            assert response.status_code == 200
            assert response.headers["content-type"] == "text/event-stream"
            first, second, last = await Events(response).rest()
    assert [one["params"]["progress"] for one in (first, second)] == [1, 2]
    assert last["result"]["content"] == [{"type": "text", "text": "done"}]


async def test_a_call_that_takes_long_becomes_a_stream_with_signs_of_life() -> None:
    async with front(HttpLimits(keepalive_seconds=0.1)) as served:
        body, headers = modern_request("tools/call", {"name": "wait"})
        async with served.http.stream("POST", served.url, content=body, headers=headers) as response:
            assert response.headers["content-type"] == "text/event-stream"
            events = Events(response)
            assert await events.next() == {"comment": "keepalive"}
            served.gates.opened.set()
            assert (await events.message())["result"]["content"] == [{"type": "text", "text": "done"}]


async def test_a_client_that_closes_the_connection_cancels_its_request() -> None:
    async with front() as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(modern_bytes(served.port, "tools/call", {"name": "wait"}))
        async with asyncio.timeout(PATIENCE):
            await served.gates.entered.wait()
            writer.close()
            await served.gates.cancelled.wait()
            await served.app.idle()
        metrics = (await served.http.get(served.url.replace("/mcp", "/metrics"))).text
    assert 'errors_total{method="tools/call",kind="cancelled"} 1' in metrics


@pytest.mark.parametrize(
    ("headers", "code", "status"),
    [
        ({"mcp-method": "tools/list"}, -32020, 400),
        ({"mcp-method": ""}, -32020, 400),
        ({"mcp-method": "TOOLS/CALL"}, -32020, 400),
        ({"mcp-name": "other"}, -32020, 400),
        ({"mcp-name": ""}, -32020, 400),
        ({"mcp-protocol-version": ""}, -32020, 400),
        ({"mcp-protocol-version": "2025-11-25"}, -32020, 400),
    ],
)
async def test_headers_that_contradict_the_body_are_refused(
    headers: dict[str, str], code: int, status: int
) -> None:
    async with front() as served:
        response = await served.modern("tools/call", ADD, headers)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.json()["id"] == 1


async def test_a_routing_header_that_is_there_twice_is_refused() -> None:
    async with front() as served:
        data = modern_bytes(served.port, "tools/call", ADD, connection="close")
        answer = await served.raw(data.replace(b"mcp-name: add", b"mcp-name: add\r\nMcp-Name: add"))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.rpartition(b"\r\n\r\n")[2])["error"]["code"] == -32020


async def test_spaces_around_the_value_of_a_header_do_not_count() -> None:
    async with front() as served:
        data = modern_bytes(served.port, "tools/call", ADD, connection="close")
        answer = await served.raw(data.replace(b"mcp-name: add", b"mcp-name: \t add \t "))
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({f"{PREFIX}protocolVersion": "v999"}, -32022),
        ({f"{PREFIX}clientCapabilities": "all"}, -32602),
        ({f"{PREFIX}clientInfo": "me"}, -32602),
        ({f"{PREFIX}logLevel": "loud"}, -32602),
    ],
)
async def test_an_envelope_that_is_wrong_is_refused(meta: JSON, code: int) -> None:
    version = meta.get(f"{PREFIX}protocolVersion", VERSION)
    async with front() as served:
        response = await served.modern("tools/list", {"_meta": meta}, {"mcp-protocol-version": version})
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)


async def test_a_method_that_there_is_not_is_404() -> None:
    async with front() as served:
        for method in ("no/such", "initialize", "ping", "resources/subscribe"):
            response = await served.modern(method)
            assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize("name", ["placed", "gated/placed"])
async def test_arguments_that_are_mirrored_in_headers_have_to_match(name: str) -> None:
    params: JSON = {"name": name, "arguments": {"region": "eu"}}
    async with front() as served:
        statuses = [
            (await served.modern("tools/call", params, headers)).status_code
            for headers in ({"mcp-param-region": "eu"}, {"mcp-param-region": "us"}, {})
        ]
    assert statuses == [200, 400, 400]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"tools/list"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
    ],
)
async def test_a_body_that_is_not_one_message_is_refused(body: bytes, code: int) -> None:
    async with front() as served:
        headers = {**BOTH, "mcp-protocol-version": VERSION, "mcp-method": "tools/list"}
        response = await served.http.post(served.url, content=body, headers=headers)
    assert response.status_code == 400
    assert response.json()["id"] is None
    assert response.json()["error"]["code"] == code


async def test_requests_of_the_wrong_kind_are_refused() -> None:
    async with front() as served:
        body, headers = modern_request("tools/list")
        url, http = served.url, served.http
        version = {"mcp-protocol-version": VERSION}
        assert (await http.get(url, headers=version)).status_code == 405
        assert (await http.delete(url, headers=version)).status_code == 405
        plain = {**headers, "content-type": "text/plain"}
        refused = await http.post(url, content=body, headers=plain)
        reason = "send content-type: application/json"
        assert (refused.status_code, refused.json()["error"]["message"]) == (415, reason)
        only_json = {**headers, "accept": "application/json"}
        assert (await http.post(url, content=body, headers=only_json)).status_code == 406
        assert (await http.put(url, content=body)).status_code == 405


async def test_a_notification_is_taken() -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    async with front() as served:
        headers = {**BOTH, "mcp-protocol-version": VERSION}
        response = await served.http.post(served.url, json=message, headers=headers)
        assert (response.status_code, response.content) == (202, b"")
        headers["mcp-protocol-version"] = "v999"
        response = await served.http.post(served.url, json=message, headers=headers)
        assert response.json()["error"]["code"] == -32022


async def test_list_changes_are_a_stream_that_ends_when_the_gateway_stops() -> None:
    async with front() as served:
        body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with served.http.stream("POST", served.url, content=body, headers=headers) as response:
            events = Events(response)
            first = await events.message()
            assert first["method"] == "notifications/subscriptions/acknowledged"
            async with asyncio.timeout(PATIENCE):
                await served.server.drain(PATIENCE)
            assert await events.rest() == []


async def test_many_calls_on_many_connections_at_once() -> None:
    async def call(number: int) -> int:
        params: JSON = {"name": "add", "arguments": {"a": number, "b": 0}}
        response = await served.modern("tools/call", params, id=number)
        assert response.json()["id"] == number
        return int(response.json()["result"]["content"][0]["text"])

    async with front() as served:
        assert await asyncio.gather(*map(call, range(100))) == list(range(100))


async def test_requests_that_are_sent_in_one_go_are_answered_in_order() -> None:
    async with front() as served:
        first = modern_bytes(served.port, "tools/call", ADD)
        last = modern_bytes(
            served.port, "tools/call", {**ADD, "arguments": {"a": 2, "b": 2}}, connection="close"
        )
        answer = await served.raw(first + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.index(b'"text":"3"') < answer.index(b'"text":"4"')


async def test_a_client_that_leaves_after_a_long_body_cancels_its_request() -> None:
    """The body is longer than the buffer for an unread body."""
    params: JSON = {"name": "wait", "_meta": {"long": "x" * 300_000}}
    async with front() as served, asyncio.timeout(PATIENCE):
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(modern_bytes(served.port, "tools/call", params))
        await served.gates.entered.wait()
        writer.close()
        await served.gates.cancelled.wait()


async def test_a_client_that_asks_whether_to_send_the_body() -> None:
    async with front() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head, _, body = modern_bytes(
            served.port, "tools/call", ADD, expect="100-continue", connection="close"
        ).partition(b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            writer.write(head + b"\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_an_old_client_gets_its_stream_until_the_connection_is_closed() -> None:
    async with front() as served:
        params: JSON = {"name": "steps", "_meta": {"progressToken": "t"}}
        data = modern_bytes(served.port, "tools/call", params).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        head, _, body = (await served.raw(data)).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body.startswith(b"event: message\r\ndata: {")
    assert body.count(b"data: ") == 3


async def test_a_request_in_the_terms_of_the_envelope_alone_is_modern() -> None:
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": META}}
    async with front() as served:
        response = await served.http.post(served.url, json=message, headers=BOTH)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)
