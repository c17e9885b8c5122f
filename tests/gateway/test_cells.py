"""Requests of a server in the middle of a call, between clients and servers of both eras."""

import asyncio
from typing import Any, get_args

import pytest

from tests.gateway.driving import (
    MODERN_CAPABILITIES,
    TASKS,
    Era,
    LegacyClient,
    ModernClient,
    client_of,
    gateway_over,
    text_of,
)
from tests.inside.gateway import ProtocolError, RequestCancelled
from tests.patience import PATIENCE
from tests.servers.asking import asking

pytestmark = pytest.mark.anyio
ERAS: tuple[Era, ...] = get_args(Era)


@pytest.fixture(params=ERAS, ids=[f"client-{era}" for era in ERAS])
def client_era(request: pytest.FixtureRequest) -> Era:
    return request.param


@pytest.fixture(params=[*ERAS, "auto"], ids=[*(f"server-{era}" for era in ERAS), "server-both"])
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"servers": {"ask": {"server": asking(), "era": request.param, "prefix": ""}}}


async def test_a_form_is_filled_in_by_the_client(client_era: Era, config: dict[str, Any]) -> None:
    def fill(params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"date": "2026-12-24", "seats": 3, "place": "inside"}}

    async with gateway_over(config) as gateway:
        client = await client_of(client_era, gateway, {"elicitation/create": fill})
        result = await client.request("tools/call", {"name": "book", "arguments": {"guest": "Ann"}})
    assert text_of(result) == "Ann: 2026-12-24, 3, inside, quiet False"
    ((method, params),) = client.asked
    assert method == "elicitation/create"
    assert params["message"] == "When does Ann come?"
    assert params["requestedSchema"]["properties"]["seats"]["maximum"] == 8


async def test_a_form_that_is_declined(client_era: Era, config: dict[str, Any]) -> None:
    async with gateway_over(config) as gateway:
        client = await client_of(client_era, gateway, {"elicitation/create": lambda _: {"action": "decline"}})
        result = await client.request("tools/call", {"name": "book", "arguments": {"guest": "Ann"}})
    assert text_of(result) == "not booked: decline"


async def test_two_questions_in_one_call(client_era: Era, config: dict[str, Any]) -> None:
    def answer(params: dict[str, Any]) -> dict[str, Any]:
        booking = {"date": "2026-12-24", "seats": 2, "place": "inside", "quiet": False}
        return {"action": "accept", "content": {"yes": True} if "sure" in params["message"] else booking}

    async with gateway_over(config) as gateway:
        client = await client_of(client_era, gateway, {"elicitation/create": answer})
        result = await client.request("tools/call", {"name": "twice", "arguments": {"guest": "Ann"}})
    assert text_of(result) == "Ann: 2026-12-24, sure True"
    assert [params["message"] for _, params in client.asked] == ["When does Ann come?", "Is Ann sure?"]


async def test_a_url_is_visited(client_era: Era, config: dict[str, Any]) -> None:
    async with gateway_over(config) as gateway:
        client = await client_of(client_era, gateway, {"elicitation/create": lambda _: {"action": "accept"}})
        result = await client.request("tools/call", {"name": "pay", "arguments": {}})
    assert text_of(result) == "payment: accept"
    ((_, params),) = client.asked
    assert (params["mode"], params["url"]) == ("url", "https://pay.example/1")
    assert ("elicitationId" in params) is (client_era == "legacy")


async def test_a_model_is_asked(client_era: Era, config: dict[str, Any]) -> None:
    def sample(params: dict[str, Any]) -> dict[str, Any]:
        assert (params["maxTokens"], params["systemPrompt"]) == (50, "Be brief.")
        content = {"type": "text", "text": "Of mice"}
        return {"role": "assistant", "content": content, "model": "gpt-oss", "stopReason": "endTurn"}

    async with gateway_over(config) as gateway:
        client = await client_of(client_era, gateway, {"sampling/createMessage": sample})
        result = await client.request("tools/call", {"name": "title", "arguments": {"about": "mice"}})
    assert text_of(result) == "Of mice (gpt-oss)"


async def test_roots_are_listed(client_era: Era, config: dict[str, Any]) -> None:
    async with gateway_over(config) as gateway:
        roots = {"roots": [{"uri": "file:///home/ann", "name": "home"}]}
        client = await client_of(client_era, gateway, {"roots/list": lambda _: roots})
        result = await client.request("tools/call", {"name": "folders", "arguments": {}})
    assert text_of(result) == "file:///home/ann"


async def test_a_client_is_not_asked_for_what_it_did_not_declare(
    client_era: Era, config: dict[str, Any]
) -> None:
    async with gateway_over(config) as gateway:
        client = await client_of(client_era, gateway, capabilities={"sampling": {}})
        with pytest.raises(ProtocolError) as failed:  # of the server: what it needs, or what it was told
            await client.request("tools/call", {"name": "book", "arguments": {"guest": "Ann"}})
    assert "elicitation" in f"{failed.value.message} {failed.value.data}"
    assert client.asked == []


async def test_progress_and_logs_come_on_the_stream_of_the_request(
    client_era: Era, config: dict[str, Any]
) -> None:
    meta = {"progressToken": "p1", "io.modelcontextprotocol/logLevel": "info"}
    async with gateway_over(config) as gateway:
        client = await client_of(client_era, gateway)
        result = await client.request("tools/call", {"name": "tell", "arguments": {"text": "hi"}}, meta)
    assert text_of(result) == "hi"
    reported = client.heard.of("notifications/progress")
    assert reported == [
        {"progressToken": "p1", "progress": step, "total": 2, "message": "hi"} for step in (1, 2)
    ]
    assert [params["data"] for params in client.heard.of("notifications/message")] == ["hi 0", "hi 1"]


async def test_logs_below_the_level_are_left_out(client_era: Era, config: dict[str, Any]) -> None:
    async with gateway_over(config) as gateway:
        client = await client_of(client_era, gateway)
        meta = {"io.modelcontextprotocol/logLevel": "error"}
        if isinstance(client, LegacyClient):
            meta = {}
            await client.request("logging/setLevel", {"level": "error"})
        await client.request("tools/call", {"name": "tell", "arguments": {"text": "hi"}}, meta)
    assert client.heard.messages == []


async def test_a_modern_client_gets_logs_and_progress_only_if_it_asks_for_them(
    config: dict[str, Any],
) -> None:
    async with gateway_over(config) as gateway:
        client = ModernClient(gateway)
        await client.request("tools/call", {"name": "tell", "arguments": {"text": "hi"}})
    assert client.heard.messages == []


async def test_a_cancelled_call_is_cancelled_at_the_server(client_era: Era, config: dict[str, Any]) -> None:
    ended: list[Any] = []
    async with gateway_over(config) as gateway:
        gateway.bus.on_event(ended.append)
        client = await client_of(client_era, gateway)
        params = {"name": "tick", "arguments": {"times": 1000, "seconds": 0.01}}
        call = asyncio.create_task(
            client.once("tools/call", params, {"progressToken": 1}, 77)
            if isinstance(client, ModernClient)
            else client.request("tools/call", params, {"progressToken": 1}, 77)
        )
        await client.heard.wait_for("notifications/progress")
        if isinstance(client, LegacyClient):
            gateway.notified(client.session, "notifications/cancelled", {"requestId": 77})
            with pytest.raises(RequestCancelled):
                await asyncio.wait_for(call, PATIENCE)
        else:
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
    reasons = [event.reason for event in ended if type(event).__name__ == "CallEnded"]
    assert reasons == ["cancelled"]


async def test_a_task_of_a_modern_server_is_passed_on_or_followed(client_era: Era) -> None:
    config = {"servers": {"ask": {"server": asking(), "era": "modern", "prefix": ""}}}
    async with gateway_over(config) as gateway:
        client = await client_of(client_era, gateway, capabilities=_with_tasks(client_era))
        result = await client.request("tools/call", {"name": "dig", "arguments": {"depth": 2}})
        if client_era == "modern":
            assert result["resultType"] == "task"
            task = {"taskId": result["taskId"]}
            while (state := await client.request("tasks/get", task))["status"] == "working":
                assert state["taskId"] == result["taskId"]
            assert state["resultType"] == "complete"
            result = state["result"]
    assert text_of(result) == "dug 2 as a task"


async def test_a_task_that_asks(client_era: Era) -> None:
    config = {"servers": {"ask": {"server": asking(), "era": "modern", "prefix": ""}}}
    answer = {"action": "accept", "content": {"yes": True}}
    async with gateway_over(config) as gateway:
        client = await client_of(
            client_era, gateway, {"elicitation/create": lambda _: answer}, _with_tasks(client_era)
        )
        given = {"depth": 1, "mode": "ask"}
        result = await client.request("tools/call", {"name": "dig", "arguments": given})
        if client_era == "modern":
            task = {"taskId": result["taskId"]}
            state = await client.request("tasks/get", task)
            assert state["status"] == "input_required"
            assert list(state["inputRequests"]) == ["sure"]
            update = await client.request("tasks/update", {**task, "inputResponses": {"sure": answer}})
            assert set(update) == {"resultType", "_meta"}
            while (state := await client.request("tasks/get", task))["status"] == "working":
                pass
            result = state["result"]
    assert text_of(result).startswith("dug 1 as a task, sure")


def _with_tasks(era: Era) -> dict[str, Any] | None:
    return {**MODERN_CAPABILITIES, "extensions": {TASKS: {}}} if era == "modern" else None
