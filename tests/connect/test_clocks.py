"""Time limits that stand still while a person thinks."""

import asyncio
from typing import Any

import pytest

from tests.virtual_time import VIRTUAL_TIME
from toolbus.connect.clocks import Clocks

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


async def limited(clocks: Clocks, limit: float, seconds: float) -> str:
    try:
        await clocks.within(asyncio.timeout(limit), asyncio.sleep(seconds))
    except TimeoutError:
        return "too late"
    return "in time"


async def test_a_stopped_clock_goes_on_where_it_stood() -> None:
    clocks = Clocks()
    late = asyncio.create_task(limited(clocks, 1, 60))
    in_time = asyncio.create_task(limited(clocks, 1.5, 2))
    await asyncio.sleep(0.1)
    with clocks.stopped():
        with clocks.stopped():  # two may think at once
            await asyncio.sleep(1.2)
        await asyncio.sleep(0.2)
        assert not late.done()
    assert await in_time == "in time"
    assert await late == "too late"
    assert not clocks.busy


async def test_what_is_released_ends_although_somebody_thinks() -> None:
    clocks = Clocks()
    waiting = asyncio.create_task(limited(clocks, 60, 60))
    await asyncio.sleep(0)
    with clocks.stopped():
        clocks.release(0.05)
        async with asyncio.timeout(60):
            assert await waiting == "too late"


async def test_an_extension_ends_at_its_limit() -> None:
    clocks, loop = Clocks(), asyncio.get_running_loop()
    clock = asyncio.timeout(1)
    began = loop.time()
    waiting = asyncio.create_task(clocks.within(clock, asyncio.sleep(60)))
    for _ in range(2):
        await asyncio.sleep(0.1)
        clocks.extend(clock, 30, began + 1.2)
    with pytest.raises(TimeoutError):
        await waiting
    assert 1.1 < loop.time() - began < 15
