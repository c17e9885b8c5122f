"""Calls that clients follow as tasks of the gateway, because the server behind cannot or need not know."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import MCPServer

from tests import warm
from tests.conftest import SERVERS
from tests.gateway.driving import (
    MODERN_CAPABILITIES,
    TASKS,
    LegacyClient,
    ModernClient,
    gateway_over,
    text_of,
)
from tests.inside.gateway import Gateway, Principal, ProtocolError
from tests.patience import PATIENCE
from tests.servers.asking import asking

pytestmark = pytest.mark.anyio
WITH_TASKS: dict[str, Any] = {**MODERN_CAPABILITIES, "extensions": {TASKS: {}}}
RELATED = "io.modelcontextprotocol/related-task"


def task(status: str, **more: Any) -> dict[str, Any]:
    times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": None}
    return {"taskId": "t1", "status": status, "pollInterval": 10, **times, **more}


@asynccontextmanager
async def scripted(**script: Any) -> AsyncGenerator[Gateway]:
    """A gateway over a legacy server whose tool `act` has to be called as a task."""
    given = {
        "tasks_only": True,
        "call": [{"task": task("working")}],
        "task": [task("working"), task("completed")],
        "result": [{"result": {"content": [{"type": "text", "text": "done"}]}}],
        **script,
    }
    args = [str(SERVERS / "scripted.py"), "legacy", json.dumps(given)]
    entry = {"command": warm.python(), "args": args, "prefix": ""}
    async with gateway_over({"servers": {"a": entry}}) as gateway:
        yield gateway


async def settled(client: ModernClient | LegacyClient, name: str, *known: str) -> dict[str, Any]:
    """The state of a task, once it is none of the known ones."""
    async with asyncio.timeout(PATIENCE):
        while (state := await client.request("tasks/get", {"taskId": name}))["status"] in known:  # noqa: ASYNC110 - clients poll
            await asyncio.sleep(0.01)
    return state


async def logged(client: ModernClient, method: str) -> None:
    """Wait until the server was sent a request of that method."""
    async with asyncio.timeout(PATIENCE):
        while method not in text_of(await client.request("tools/call", {"name": "log"})):
            pass


async def test_a_modern_client_follows_a_task_only_tool_of_a_legacy_server() -> None:
    async with scripted() as gateway:
        client = ModernClient(gateway, WITH_TASKS)
        created = await client.request("tools/call", {"name": "act"})
        assert created["resultType"] == "task"
        assert created["status"] == "working"
        assert {"createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"} <= created.keys()
        assert not {"task", "result", "inputRequests", "requestState", "ttl"} & created.keys()
        state = await settled(client, created["taskId"], "working")
        assert (state["status"], text_of(state["result"])) == ("completed", "done")
        assert state["resultType"] == "complete"
        # A task that has ended is cancelled without effect.
        ended = await client.request("tasks/cancel", {"taskId": created["taskId"]})
        assert set(ended) == {"resultType", "_meta"}
        assert (await client.request("tasks/get", {"taskId": created["taskId"]}))["status"] == "completed"


async def test_a_client_without_the_extension_gets_the_result() -> None:
    async with scripted() as gateway:
        for client in (ModernClient(gateway), await LegacyClient.opened(gateway)):
            assert text_of(await client.request("tools/call", {"name": "act"})) == "done"


async def test_a_task_that_is_cancelled() -> None:
    async with scripted(task=[task("working")]) as gateway:
        client = ModernClient(gateway, WITH_TASKS)
        created = await client.request("tools/call", {"name": "act"})
        await logged(client, "tasks/get")
        await client.request("tasks/cancel", {"taskId": created["taskId"]})
        assert (await settled(client, created["taskId"], "working"))["status"] == "cancelled"
        await logged(client, "tasks/cancel")


async def test_a_task_that_fails() -> None:
    failed = {"error": {"code": -32000, "message": "no paper"}}
    async with scripted(task=[task("failed")], result=[failed]) as gateway:
        client = ModernClient(gateway, WITH_TASKS)
        created = await client.request("tools/call", {"name": "act"})
        state = await settled(client, created["taskId"], "working")
        assert (state["status"], "no paper" in state["error"]["message"]) == ("failed", True)
        assert "result" not in state


async def test_a_task_of_somebody_else() -> None:
    """It is not found."""
    async with scripted() as gateway:
        client = ModernClient(gateway, WITH_TASKS)
        created = await client.request("tools/call", {"name": "act"})
        eve = ModernClient(gateway, WITH_TASKS, principal=Principal(name="eve"))
        for name in (created["taskId"], "made-up"):
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                with pytest.raises(ProtocolError) as failed:
                    await eve.request(method, {"taskId": name, "inputResponses": {}})
                assert (failed.value.code, failed.value.message) == (-32602, "Task not found")


async def test_tasks_need_the_extension() -> None:
    async with scripted() as gateway:
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(ProtocolError) as failed:
                await ModernClient(gateway).request(method, {"taskId": "x", "inputResponses": {}})
            assert failed.value.code == -32021
            assert failed.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


async def test_a_legacy_client_calls_a_tool_as_a_task() -> None:
    async with scripted() as gateway:
        client = await LegacyClient.opened(gateway)
        created = (await client.request("tools/call", {"name": "act", "task": {"ttl": 60_000}}))["task"]
        assert (created["status"], created["ttl"]) == ("working", 60_000)
        listed = await client.request("tasks/list")
        assert [one["taskId"] for one in listed["tasks"]] == [created["taskId"]]
        result = await client.request("tasks/result", {"taskId": created["taskId"]})
        assert text_of(result) == "done"
        assert result["_meta"] == {RELATED: {"taskId": created["taskId"]}}
        assert (await client.request("tasks/get", {"taskId": created["taskId"]}))["status"] == "completed"
        with pytest.raises(ProtocolError) as failed:
            await client.request("tasks/cancel", {"taskId": created["taskId"]})
        assert failed.value.code == -32602
        with pytest.raises(ProtocolError) as failed:
            await client.request("tools/call", {"name": "log", "task": {}})
        assert failed.value.code == -32601


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_task_that_asks(era: str) -> None:
    server: MCPServer = asking()
    low: Any = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        support = types.ToolExecution(task_support="optional" if era == "legacy" else "required")
        schema = {"type": "object", "properties": {"guest": {"type": "string"}}}
        tool = types.Tool(name="book", input_schema=schema, execution=support)
        return types.ListToolsResult(tools=[tool])

    low.add_request_handler("tools/list", types.PaginatedRequestParams, listed)
    entry = {"server": server, "era": "legacy", "prefix": ""}
    answer = {"action": "accept", "content": {"date": "2026-12-24", "seats": 2, "place": "inside"}}
    call = {"name": "book", "arguments": {"guest": "Ann"}}
    async with gateway_over({"servers": {"a": entry}}) as gateway:
        if era == "modern":
            client = ModernClient(gateway, WITH_TASKS)
            name = (await client.request("tools/call", call))["taskId"]
            state = await settled(client, name, "working")
            assert state["status"] == "input_required"
            ((key, asked),) = state["inputRequests"].items()
            assert asked["params"]["message"] == "When does Ann come?"
            await client.request("tasks/update", {"taskId": name, "inputResponses": {"other": answer}})
            assert (await client.request("tasks/get", {"taskId": name}))["inputRequests"] == {key: asked}
            await client.request("tasks/update", {"taskId": name, "inputResponses": {key: answer}})
            state = await settled(client, name, "working")
            assert text_of(state["result"]) == "Ann: 2026-12-24, 2, inside, quiet False"
        else:
            legacy = await LegacyClient.opened(gateway, answers={"elicitation/create": lambda _: answer})
            name = (await legacy.request("tools/call", {**call, "task": {}}))["task"]["taskId"]
            assert (await settled(legacy, name, "working"))["status"] == "input_required"
            result = await legacy.request("tasks/result", {"taskId": name})
            assert text_of(result) == "Ann: 2026-12-24, 2, inside, quiet False"
            assert legacy.asked[0][1]["_meta"] == {RELATED: {"taskId": name}}


async def test_the_urls_that_a_legacy_server_requires_first() -> None:
    visit = {"mode": "url", "elicitationId": "1", "url": "https://example.com/pay", "message": "Pay"}
    error = {"code": -32042, "message": "URL elicitation required", "data": {"elicitations": [visit]}}
    async with scripted(tasks_only=False, error=error) as gateway:
        legacy = await LegacyClient.opened(gateway)
        with pytest.raises(ProtocolError) as failed:
            await legacy.request("tools/call", {"name": "act"})
        assert (failed.value.code, failed.value.data) == (-32042, {"elicitations": [visit]})
        modern = ModernClient(gateway)
        asked = await modern.once("tools/call", {"name": "act"})
        ((key, request),) = asked["inputRequests"].items()
        assert request["params"] == {"mode": "url", "url": "https://example.com/pay", "message": "Pay"}
        state = {"name": "act", "requestState": asked["requestState"]}
        refused = await modern.once("tools/call", {**state, "inputResponses": {key: {"action": "decline"}}})
        assert refused["isError"]
        again = await modern.once("tools/call", {**state, "inputResponses": {key: {"action": "accept"}}})
        assert again["resultType"] == "input_required"  # the server was called again, and requires it again
        with pytest.raises(ProtocolError) as failed:
            await ModernClient(gateway, {}).once("tools/call", {"name": "act"})
        assert failed.value.code == -32042
