"""Tools that a server of the handshake era calls only as a task (protocol 2025-11-25)."""

import asyncio
import json
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS
from tests.patience import PATIENCE
from toolbus import ServerRejected, Toolbus

pytestmark = pytest.mark.anyio


def task(status: str, **more: Any) -> dict[str, Any]:
    times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": None}
    return {"taskId": "t1", "status": status, "pollInterval": 10, **times, **more}


def bus_of(*results: dict[str, Any], tasks: list[dict[str, Any]], created: str = "working") -> Toolbus:
    script = {"tasks_only": True, "call": [{"task": task(created)}], "task": tasks, "result": results}
    args = [str(SERVERS / "scripted.py"), "legacy", json.dumps(script)]
    return Toolbus({"servers": {"a": {"command": warm.python(), "args": args}}})


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": said}], **more}}


@pytest.mark.parametrize("created", ["working", "completed"])
async def test_the_result_is_asked_for_once_the_task_is_over(created: str) -> None:
    said: list[str | None] = []
    tasks = [task("working", statusMessage="half"), task("completed")]
    async with bus_of(text("done"), tasks=tasks, created=created) as bus:
        result = await bus.call("a_act", on_progress=lambda done, total, message: said.append(message))
    assert (result.text, result.is_error, said) == ("done", False, ["half"])


async def test_a_task_that_failed_says_why_as_a_result_or_as_an_error() -> None:
    error = {"error": {"code": -32000, "message": "no paper"}}
    async with bus_of(text("no ink", isError=True), error, tasks=[task("failed")]) as bus:
        result = await bus.call("a_act")
        with pytest.raises(ServerRejected, match="no paper"):
            await bus.call("a_act")
    assert (result.text, result.is_error) == ("no ink", True)


async def test_a_call_that_is_given_up_cancels_its_task() -> None:
    begun = asyncio.Event()
    async with bus_of(tasks=[task("working", statusMessage="on it")]) as bus:
        call = asyncio.create_task(bus.call("a_act", on_progress=lambda done, total, message: begun.set()))
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()
        assert "tasks/cancel" in json.loads((await bus.call("a_log")).text)


async def test_a_task_may_be_left_to_its_server_and_asked_for_later() -> None:
    async with bus_of(text("done"), tasks=[task("working"), task("completed")]) as bus:
        handle = await bus.submit("a_act")
        assert (handle.id, handle.done) == ("t1", False)
        assert (await handle.status()).status == "working"
        assert (await handle.result()).text == "done"
