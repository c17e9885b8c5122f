"""The duration of a call excludes the time that people took to answer, in all outputs."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.inside.config import Telemetry
from tests.inside.console import CallLog
from tests.inside.core import ApprovalRequest
from tests.inside.telemetry import RequestArrival, ServerTelemetry
from tests.servers.asking import asking
from tests.telemetry.collected import Collected, attributes
from toolbus import Answer, Elicitation, Interactions, Toolbus
from toolbus.events import CallEnded, Event

pytestmark = pytest.mark.anyio


class SlowPerson:
    """Takes a while for each answer."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def _think(self) -> None:
        began = time.perf_counter()
        await asyncio.sleep(0.3)
        self.seconds += time.perf_counter() - began

    async def elicit(self, question: Elicitation) -> Answer:
        await self._think()
        return question.accept({"date": "2026-12-24"})

    async def approve(self, request: ApprovalRequest) -> bool:
        await self._think()
        return True

    @property
    def interactions(self) -> Interactions:
        return Interactions(elicit=self.elicit, approve=self.approve)


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("asks", ["policy", "server", "both"])
async def test_what_a_call_took_is_without_what_people_took(
    era: str, asks: str, tmp_path: Path, collected: Collected
) -> None:
    person, log, events = SlowPerson(), CallLog(), list[Event]()
    tool = "tell" if asks == "policy" else "book"
    arguments: dict[str, Any] = {"text": "x"} if asks == "policy" else {"guest": "Ann"}
    config = {
        "servers": {"ask": {"server": asking(), "era": era, "prefix": ""}},
        "audit": str(tmp_path / "audit.jsonl"),
        "policy": [] if asks == "server" else [{"tools": f"ask/{tool}", "do": "ask"}],
    }
    served = ServerTelemetry(Telemetry()).request(
        "tools/call", {"name": tool}, RequestArrival(request_id=1, transport="pipe")
    )
    async with Toolbus(
        config, interactions=person.interactions, observers=[log], on_event=events.append
    ) as bus:
        began = time.perf_counter()
        with served:
            assert not (await bus.call(tool, arguments)).is_error
        whole = time.perf_counter() - began
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    took = {line["route"]: line["ms"] / 1000 for line in lines if "ms" in line}
    (ended,) = [event for event in events if isinstance(event, CallEnded)]
    client, server = (
        point
        for side in ("client", "server")
        for point in collected.points(f"mcp.{side}.operation.duration")
        if point.attributes["mcp.method.name"] == "tools/call"
    )
    shown = {
        "audit": took["tools/call"],
        "console": log.ended[0].elapsed or 0.0,
        "event": ended.elapsed_ms / 1000,
        "client": client.sum,
        "server": server.sum,
    }
    assert person.seconds > 0.25 * (2 if asks == "both" else 1)
    assert {name: seconds for name, seconds in shown.items() if seconds > whole - person.seconds} == {}
    assert min(shown.values()) >= 0
    # The line of the question says how long it took to be answered.
    assert (took.get("elicitation/create", 0) > 0.25) is (asks != "policy")
    asked = attributes(collected.one(f"tools/call {tool}"))["toolbus.asked_ms"]
    assert asked >= int(person.seconds * 1000)


async def test_an_operation_that_asks_nobody_took_all_its_time(collected: Collected) -> None:
    async with Toolbus({"servers": {"ask": {"server": asking(), "prefix": ""}}}) as bus:
        await bus.call("tell", {"text": "x"})
    assert "toolbus.asked_ms" not in (collected.one("tools/call tell").attributes or {})
