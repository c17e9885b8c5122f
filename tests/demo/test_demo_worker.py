"""The demo's worker: slow work with progress and a log message, and work that fails."""

import asyncio

import pytest

from tests.demo.running import Servers, in_every_place
from tests.patience import PATIENCE
from toolbus import Toolbus
from toolbus.demo.worker import worker_server
from toolbus.events import Logged, Progressed

pytestmark = pytest.mark.anyio


def bus_in_memory() -> Toolbus:
    return Toolbus({"servers": {"worker": {"server": worker_server()}}})


@in_every_place
async def test_counting_reports_its_progress_in_order(servers: Servers) -> None:
    seen: list[tuple[float, float | None, str | None]] = []
    done = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        if progress == total:
            done.set()

    text = "a b c d e " * 8
    async with Toolbus({"servers": {"worker": servers.entry("worker")}}) as bus, asyncio.timeout(PATIENCE):
        call = {"text": text, "seconds": 0.2}
        result = await bus.call("worker_count_words", call, on_progress=note)
        await done.wait()
        failed = await bus.call("worker_divide", {"a": 6, "b": 0})
        divided = await bus.call("worker_divide", {"a": 6, "b": 4})
    assert seen == [(step, 20, f"{2 * step} of 40 words") for step in range(21)]
    assert result.structured == {"words": 40, "distinct": 5, "most_frequent": "a"}
    assert (failed.is_error, failed.text) == (
        True,
        "Error executing tool divide: cannot divide 6 by 0; pass a b other than 0",
    )
    assert (divided.is_error, divided.text) == (False, "1.5")


@in_every_place
async def test_counting_logs_one_message(servers: Servers) -> None:
    async with Toolbus({"servers": {"worker": servers.entry("worker")}}) as bus:
        events = bus.events()
        await bus.call("worker_count_words", {"seconds": 0})
    told = [event async for event in events]
    [logged] = [event for event in told if isinstance(event, Logged)]
    assert (logged.server, logged.level, logged.logger, logged.data) == (
        "worker",
        "info",
        "worker",
        "counting 29 words in 0 s",
    )


async def test_the_bus_tells_the_progress_as_events_too() -> None:
    async with bus_in_memory() as bus:
        events = bus.events()
        await bus.call("worker_count_words", {"seconds": 0, "text": "one"})
    told = [event async for event in events if isinstance(event, Progressed)]
    assert [(event.name, event.progress, event.total) for event in told] == [
        ("worker_count_words", step, 20) for step in range(21)
    ]


async def test_a_text_without_words_is_counted_too() -> None:
    async with bus_in_memory() as bus:
        result = await bus.call("worker_count_words", {"seconds": 0, "text": ""})
    assert result.structured == {"words": 0, "distinct": 0, "most_frequent": ""}


async def test_cancelling_stops_the_count_and_the_worker_goes_on() -> None:
    begun = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    async with bus_in_memory() as bus, asyncio.timeout(PATIENCE):
        count = asyncio.create_task(bus.call("worker_count_words", {"seconds": 60}, on_progress=note))
        await begun.wait()
        count.cancel()
        with pytest.raises(asyncio.CancelledError):
            await count
        assert (await bus.call("worker_divide", {"a": 1, "b": 2})).text == "0.5"
