"""The flag that tasks wait for."""

import asyncio

import pytest

from tests.inside.core import Flag
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio


async def test_a_flag_wakes_all_that_wait_and_lets_later_ones_pass() -> None:
    flag = Flag()
    waiting = [asyncio.create_task(flag.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not flag.is_set()
    flag.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*waiting, flag.wait())
    assert flag.is_set()


async def test_a_flag_that_is_cleared_lets_tasks_wait_again() -> None:
    flag = Flag()
    flag.set()
    flag.clear()
    waiting = asyncio.create_task(flag.wait())
    await asyncio.sleep(0)
    assert (flag.is_set(), waiting.done()) == (False, False)
    flag.set()
    flag.clear()  # before the task has run: it was woken all the same
    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_a_task_that_stops_waiting_harms_no_other() -> None:
    flag = Flag()
    stops, stays = asyncio.create_task(flag.wait()), asyncio.create_task(flag.wait())
    await asyncio.sleep(0)
    stops.cancel()
    flag.set()
    async with asyncio.timeout(PATIENCE):
        await stays
    with pytest.raises(asyncio.CancelledError):
        await stops
