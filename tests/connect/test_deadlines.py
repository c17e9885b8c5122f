"""Deadlines that pause while the user answers."""

import asyncio
from typing import Any

import pytest

from tests.inside.connect import Deadlines
from tests.patience import PATIENCE
from tests.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


async def limited(deadlines: Deadlines, limit: float, seconds: float) -> str:
    try:
        with deadlines.limit(limit):
            await asyncio.sleep(seconds)
    except TimeoutError:
        return "too late"
    return "in time"


async def test_a_paused_deadline_resumes_with_the_time_it_had_left() -> None:
    deadlines = Deadlines()
    late = asyncio.create_task(limited(deadlines, 1, 60))
    in_time = asyncio.create_task(limited(deadlines, 1.5, 2))
    await asyncio.sleep(0.1)
    with deadlines.paused():
        with deadlines.paused():  # two answers may be in progress at once
            await asyncio.sleep(1.2)
        await asyncio.sleep(0.2)
        assert not late.done()
    assert await in_time == "in time"
    assert await late == "too late"
    assert not deadlines.busy


async def test_an_expired_request_ends_although_an_answer_is_in_progress() -> None:
    deadlines = Deadlines()
    waiting = asyncio.create_task(limited(deadlines, 60, 60))
    await asyncio.sleep(0)
    with deadlines.paused():
        deadlines.expire(0.05)
        async with asyncio.timeout(PATIENCE):
            assert await waiting == "too late"


async def test_an_extension_ends_at_its_limit() -> None:
    deadlines, loop = Deadlines(), asyncio.get_running_loop()
    deadline = deadlines.limit(1)
    began = loop.time()

    async def wait() -> None:
        with deadline:
            await asyncio.sleep(60)

    waiting = asyncio.create_task(wait())
    for _ in range(2):
        await asyncio.sleep(0.1)
        deadlines.extend(deadline, 30, began + 1.2)
    with pytest.raises(TimeoutError):
        await waiting
    assert 1.1 < loop.time() - began < 15


async def test_a_short_request_ends_before_a_long_one_that_began_first() -> None:
    deadlines = Deadlines()
    long, short = (asyncio.create_task(limited(deadlines, limit, 120)) for limit in (60, 1))
    assert await short == "too late"
    assert not long.done()
    assert await limited(deadlines, 1, 0.5) == "in time"
    assert await long == "too late"


async def test_a_caller_who_cancels_a_request_that_times_out_is_cancelled() -> None:
    deadlines = Deadlines()
    waiting = asyncio.create_task(limited(deadlines, 1, 60))
    await asyncio.sleep(0)
    deadlines.expire(0)
    asyncio.get_running_loop().call_soon(waiting.cancel)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not deadlines.busy
