"""A real server on version 1 of the SDK behind the gateway: its tasks, and the pages to visit first."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.driving import (
    MODERN_CAPABILITIES,
    TASKS,
    LegacyClient,
    ModernClient,
    gateway_over,
    text_of,
)
from tests.gateway.serving import behind
from tests.inside.gateway import Gateway, ProtocolError
from tests.interop.servers import require_installed
from tests.patience import PATIENCE

require_installed("legacy")
pytestmark = pytest.mark.anyio

WITH_TASKS: dict[str, Any] = {**MODERN_CAPABILITIES, "extensions": {TASKS: {}}}
CONFIRMED: dict[str, Any] = {"action": "accept", "content": {"confirm": True}}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    with behind("sdk1-stdio", tmp_path) as server:
        async with gateway_over({"servers": {"everything": {**server, "prefix": ""}}}) as made:
            yield made


async def ended(client: ModernClient | LegacyClient, name: str) -> dict[str, Any]:
    """The state of a task once it is not working any more."""
    async with asyncio.timeout(PATIENCE):
        state = await client.request("tasks/get", {"taskId": name})
        while state["status"] == "working":
            await asyncio.sleep(0.01)  # clients poll
            state = await client.request("tasks/get", {"taskId": name})
    return state


async def test_a_task_only_tool_is_a_task_for_a_modern_client_and_a_result_for_one_without_tasks(
    gateway: Gateway,
) -> None:
    client = ModernClient(gateway, WITH_TASKS)
    created = await client.request("tools/call", {"name": "failing_job", "arguments": {}})
    assert created["resultType"] == "task"
    state = await ended(client, created["taskId"])
    assert (state["status"], text_of(state["result"])) == ("completed", "the job failed")
    assert state["result"]["isError"] is True
    plain = await ModernClient(gateway).request("tools/call", {"name": "failing_job", "arguments": {}})
    assert text_of(plain) == "the job failed"


async def test_a_legacy_client_is_asked_in_its_task(gateway: Gateway) -> None:
    client = await LegacyClient.opened(gateway, answers={"elicitation/create": lambda _: CONFIRMED})
    call = {"name": "confirm_delete", "arguments": {"filename": "a.txt"}, "task": {"ttl": 60_000}}
    name = (await client.request("tools/call", call))["task"]["taskId"]
    assert text_of(await client.request("tasks/result", {"taskId": name})) == "a.txt was deleted"
    assert [params["message"] for _, params in client.asked] == ["Delete a.txt?"]


async def test_a_page_to_visit_first_is_an_error_or_a_question(gateway: Gateway) -> None:
    legacy = await LegacyClient.opened(gateway)
    with pytest.raises(ProtocolError) as failed:
        await legacy.request(
            "tools/call", {"name": "test_url_elicitation_required", "arguments": {"order": "1"}}
        )
    assert failed.value.code == -32042
    modern = ModernClient(gateway, answers={"elicitation/create": lambda _: {"action": "accept"}})
    call = {"name": "test_url_elicitation_required", "arguments": {"order": "2"}}
    assert text_of(await modern.request("tools/call", call)) == "order 2 is paid"
    assert [params["url"] for _, params in modern.asked] == ["https://pages.example/2"]
