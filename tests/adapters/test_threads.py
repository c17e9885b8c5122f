"""A run that blocks ends with the one who waits for it."""

import asyncio
import threading

import pytest

from tests.patience import PATIENCE
from tests.servers.everyday import everyday
from toolbus import Toolbus
from toolbus.adapters.tool_calls import in_thread, run_tool_sync
from toolbus.events import CallStarted

pytestmark = pytest.mark.anyio


class Work:
    """Two calls in a row, as a framework makes them, which takes every `Exception` for an answer."""

    def __init__(self, bus: Toolbus, first: str) -> None:
        self.tools = {tool.origin.tool: tool for tool in bus.tools()}
        self.first = first
        self.between = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Event()
        self.said: list[str] = []

    def __call__(self) -> str:
        try:
            for name in (self.first, "hangs"):
                try:
                    self.said.append(run_tool_sync(self.tools[name], {}).text)
                except Exception as error:
                    self.said.append(repr(error))
                self.between.set()
                assert self.go_on.wait(PATIENCE)
            return "done"
        finally:
            self.ended.set()


async def test_a_call_under_way_is_cancelled_and_the_run_ends() -> None:
    async with Toolbus({"servers": {"desk": {"server": everyday()}}}) as bus, asyncio.timeout(PATIENCE):
        started = asyncio.Event()
        bus.on_event(lambda event: started.set() if isinstance(event, CallStarted) else None)
        work = Work(bus, "hang")
        run = asyncio.create_task(in_thread(work))
        await started.wait()
        while (await bus.call("desk_hangs")).text != "1 0":
            continue
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert await asyncio.to_thread(work.ended.wait, 10)
        assert (work.said, (await bus.call("desk_hangs")).text) == ([], "1 1")


async def test_no_call_is_made_after_the_cancelling() -> None:
    async with Toolbus({"servers": {"desk": {"server": everyday()}}}) as bus, asyncio.timeout(PATIENCE):
        work = Work(bus, "hangs")
        run = asyncio.create_task(in_thread(work))
        assert await asyncio.to_thread(work.between.wait, 10)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        work.go_on.set()
        assert await asyncio.to_thread(work.ended.wait, 10)
        assert work.said == ["0 0"]


async def test_who_is_not_cancelled_gets_the_answer() -> None:
    async with Toolbus({"servers": {"desk": {"server": everyday()}}}) as bus, asyncio.timeout(PATIENCE):
        work = Work(bus, "hangs")
        work.go_on.set()
        assert await in_thread(work) == "done"
    assert work.said == ["0 0", "0 0"]
    assert "the bus" in run_tool_sync(work.tools["hangs"], {}).text
