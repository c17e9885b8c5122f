"""Calls of tools over REST: results, problems, and who may make them."""

import asyncio
import base64
import json
from pathlib import Path

import pytest

from tests import warm
from tests.gateway.rest.desk import served_desk
from tests.inside.config import Serve
from tests.inside.gateway import CallLimits, GatewayLimits, HttpLimits
from toolbus.errors import ConfigError

pytestmark = pytest.mark.anyio


async def test_a_result_is_the_structured_content_if_the_tool_has_an_output_schema() -> None:
    async with served_desk() as desk:
        added, greeted = await desk.call("add", a=1, b=2), await desk.call("greet", name="Ann")
    assert (added.status_code, added.json()) == (200, {"result": 3})
    assert greeted.json() == {"content": [{"type": "text", "text": "Hello Ann"}]}


async def test_binary_content_is_base64() -> None:
    async with served_desk() as desk:
        shown = await desk.call("picture")
    data = base64.b64encode(b"\x89PNG").decode()
    assert shown.json() == {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}


async def test_results_that_may_be_shortened_are_content() -> None:
    async with served_desk(views={"default": {"budget": 1000}}) as desk:
        added = await desk.call("add", a=1, b=2)
        document = (await desk.get("/openapi.json")).json()
    assert added.json() == {"content": [{"type": "text", "text": "3"}]}
    response = document["paths"]["/tools/add"]["post"]["responses"]["200"]
    assert response["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Content"}


async def test_a_tool_that_fails_is_422_with_its_content() -> None:
    async with served_desk() as desk:
        failed = await desk.call("fail")
    problem = failed.json()
    assert (failed.status_code, failed.headers["content-type"]) == (422, "application/problem+json")
    assert problem.pop("content") == [{"type": "text", "text": problem["detail"]}]
    assert "no paper left" in problem.pop("detail")
    assert problem == {"title": "Unprocessable Entity", "status": 422, "code": "tool_error"}


async def test_wrong_arguments_are_400_with_each_place() -> None:
    async with served_desk() as desk:
        refused = await desk.call("add", a="x")
        assert desk.made == []
    problem = refused.json()
    assert (refused.status_code, problem["code"], problem["sent"]) == (400, "invalid_arguments", False)
    assert problem["detail"].startswith("wrong arguments for 'add', nothing was sent")
    assert {error["place"] for error in problem["errors"]} == {"a", "b"}


async def test_an_unknown_tool_is_404_with_names_that_are_near() -> None:
    async with served_desk() as desk:
        missing = await desk.call("ad")
    problem = missing.json()
    assert (missing.status_code, problem["code"], problem["near"]) == (404, "unknown_tool", ["add"])


async def test_a_call_that_the_policy_denies_is_403() -> None:
    policy = [
        {
            "tools": "desk/add",
            "arguments": {"properties": {"a": {"const": 13}}},
            "do": "deny",
            "reason": "unlucky",
        }
    ]
    async with served_desk({"policy": policy}) as desk:
        denied, allowed = await desk.call("add", a=13, b=1), await desk.call("add", a=1, b=1)
        assert desk.made == ["1+1"]
    assert (denied.status_code, denied.json()["code"], allowed.status_code) == (403, "denied", 200)
    assert "unlucky" in denied.json()["detail"]


async def test_the_trail_has_calls_over_rest_as_calls_of_the_gateway(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    async with served_desk({"audit": str(file)}) as desk:
        await desk.call("add", a=1, b=2)
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [event["face"] for event in events if event.get("tool") == "add"] == ["gateway"] * 2


async def test_what_the_body_must_be() -> None:
    async with served_desk(limits=HttpLimits(body_bytes=1000, values=10)) as desk:
        url = f"{desk.base}/tools/add"
        plain = await desk.http.post(url, content=b'{"a":1,"b":2}', headers={"content-type": "text/plain"})
        none = await desk.http.post(url)
        sent = {"content-type": "application/json; charset=utf-8"}
        empty = await desk.http.post(f"{desk.base}/tools/greet", headers=sent)
        broken = await desk.http.post(url, content=b"{", headers=sent)
        listed = await desk.http.post(url, content=b"[1]", headers=sent)
        many = await desk.http.post(url, content=b'{"a":[' + b"1," * 50 + b"1]}", headers=sent)
        large = await desk.http.post(url, content=b'{"a":"' + b"x" * 2000 + b'"}', headers=sent)
        assert desk.made == []
    statuses = [one.status_code for one in (plain, none, empty, broken, listed, many, large)]
    assert statuses == [415, 415, 200, 400, 400, 400, 413]
    assert "serve.max_values" in many.json()["detail"]
    assert large.headers["content-type"] == "application/problem+json"
    assert (large.json()["code"], large.json()["sent"]) == ("too_large", False)


async def test_a_tool_of_a_server_that_is_down() -> None:
    """A client learns that it is down, and nothing of what the server printed."""
    script = "import sys; print('no /home/ann/token', file=sys.stderr); sys.exit(3)"
    down = {"command": warm.python(), "args": ["-c", script], "timeouts": {"reconnect": 0}}
    async with served_desk({"servers": {"down": down}}) as desk:
        response = await desk.call("add", a=1, b=2)
    assert (response.status_code, response.json()["code"]) == (503, "server_down")
    assert response.headers["retry-after"] == "1"
    assert "/home/ann" not in response.text


async def test_methods_and_paths_that_there_are_not() -> None:
    async with served_desk() as desk:
        got = await desk.get("/tools/add")
        posted = await desk.http.post(f"{desk.base}/openapi.json", json={})
        others = [await desk.get(path) for path in ("/tools", "/tools/", "/tools/a/b", "/calls", "/views/x")]
    assert (got.status_code, got.headers["allow"], got.json()["code"]) == (405, "POST", "not_allowed")
    assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")
    assert {one.status_code for one in others} == {404}


async def test_without_the_setting_there_is_no_rest_api() -> None:
    from tests.gateway.front import front

    async with front() as served:
        found = await served.http.get(served.url.replace("/mcp", "/openapi.json"))
    assert found.status_code == 404


async def test_a_view_has_an_api_of_its_own() -> None:
    views = {"default": {}, "few": {"include": ["greet"]}}
    async with served_desk(views=views) as desk:
        document = (await desk.get("/views/few/openapi.json")).json()
        greeted = await desk.call("../views/few/tools/greet")
        hidden = await desk.http.post(f"{desk.base}/views/few/tools/add", json={"a": 1, "b": 2})
        unknown = await desk.get("/views/none/openapi.json")
    assert [path for path in document["paths"] if path.startswith("/tools")] == ["/tools/greet"]
    assert document["servers"] == [{"url": "/views/few"}]
    assert (greeted.status_code, hidden.status_code, unknown.status_code) == (200, 404, 404)
    assert unknown.headers["content-type"] == "application/problem+json"


async def test_one_server_has_an_api_with_its_own_names() -> None:
    async with served_desk({"naming": "{server}__{tool}"}) as desk:
        document = (await desk.get("/views/desk/openapi.json")).json()
        added = await desk.http.post(f"{desk.base}/views/desk/tools/add", json={"a": 1, "b": 2})
        missing = await desk.http.post(f"{desk.base}/views/desk/tools/ad", json={})
    assert "/tools/add" in document["paths"]
    assert added.json() == {"result": 3}
    assert (missing.status_code, missing.json()["near"]) == (404, ["add"])


async def test_a_call_beyond_a_quota_is_429_and_may_be_tried_again() -> None:
    quotas = [{"per": "server", "per_minute": 1}]
    async with served_desk({"quotas": quotas}) as desk:
        made = await desk.call("add", a=1, b=2)
        beyond = await desk.call("add", {"idempotency-key": "k"}, a=1, b=2)
        again = await desk.call("add", {"idempotency-key": "k"}, a=1, b=2)
        assert desk.made == ["1+2"]
    assert (made.status_code, beyond.status_code, again.status_code) == (200, 429, 429)
    assert (beyond.json()["code"], beyond.json()["sent"]) == ("over_quota", False)
    assert 0 < int(beyond.headers["retry-after"]) <= 60
    assert "idempotent-replayed" not in again.headers


def test_the_endpoint_of_mcp_cannot_have_a_path_of_the_api() -> None:
    for path in ("/tools", "/calls/mcp", "/openapi.json", "/views"):
        with pytest.raises(ConfigError, match="REST API"):
            Serve(rest=True, path=path)
        assert Serve(path=path).path == path


async def test_a_client_that_leaves_ends_its_call() -> None:
    async with served_desk() as desk:
        call = asyncio.create_task(desk.call("wait"))
        await desk.gates.entered.wait()
        call.cancel()
        await desk.gates.cancelled.wait()


async def test_calls_share_the_queue_with_those_of_mcp() -> None:
    limits = CallLimits(per_user=1, per_server=1, waiting=1, wait_seconds=0.01)
    async with served_desk(settings=GatewayLimits(calls=limits)) as desk:
        first = asyncio.create_task(desk.call("wait"))
        await desk.gates.entered.wait()
        busy = await desk.call("add", a=1, b=2)
        desk.gates.opened.set()
        assert (await first).json() == {"result": "done"}
    assert (busy.status_code, busy.json()["code"], busy.json()["sent"]) == (429, "busy", False)
    assert busy.headers["retry-after"] == str(busy.json()["retryAfter"])


async def test_a_search_finds_tools_that_can_then_be_called() -> None:
    async with served_desk({"expose": "search"}) as desk:
        paths = (await desk.get("/openapi.json")).json()["paths"]
        found = await desk.call("search_tools", queries=["add numbers"])
        called = await desk.call("call_tool", name="add", arguments={"a": 1, "b": 2})
        missing = await desk.call("call_tool", name="ad", arguments={})
    assert {"/tools/search_tools", "/tools/call_tool"} <= {*paths}
    assert "/tools/add" not in paths
    assert "add" in found.text
    assert called.json() == {"content": [{"type": "text", "text": "3"}]}  # it has no output schema
    assert missing.status_code == 404


async def test_metrics_count_calls_over_rest() -> None:
    async with served_desk() as desk:
        await desk.call("add", a=1, b=2)
        await desk.call("ad")
        text = (await desk.get("/metrics")).text
    assert 'toolbus_gateway_requests_total{method="tools/call"} 2' in text
    assert (
        'kind="unknown_tool",method="tools/call"' in text or 'method="tools/call",kind="unknown_tool"' in text
    )
