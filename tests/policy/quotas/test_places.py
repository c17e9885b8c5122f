"""Calls at the same time: processes lease places, and the places of a dead process come back."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.policy import LEASE, MemoryCounts, PlaceLease, Uncountable
from tests.policy.quotas.sharing import Clock, RemoteCounts, places, take

pytestmark = pytest.mark.anyio


async def release(lease: PlaceLease) -> None:
    if lease.release():
        await lease.tidy()


@pytest.mark.parametrize("most", [1, 3, 40])
async def test_no_more_calls_run_at_the_same_time_than_are_allowed(most: int) -> None:
    leases, running, peak, made = places(RemoteCounts(Clock()), 12), 0, 0, 0

    async def call(number: int) -> None:
        nonlocal running, peak, made
        lease = leases[number % 12]
        if await take(lease, most) is None:
            return
        running, made = running + 1, made + 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1
        await release(lease)

    for _ in range(10):
        await asyncio.gather(*(call(number) for number in range(48)))
    assert peak <= most
    assert made >= 10


async def test_one_call_after_another_is_never_refused_whichever_process_takes_it() -> None:
    leases = places(RemoteCounts(Clock()), 12)
    for number in range(60):
        lease = leases[number * 7 % 12]
        assert await take(lease, 1) is not None
        await release(lease)


async def test_with_a_large_limit_only_some_calls_ask_the_store() -> None:
    values = RemoteCounts(Clock())
    [lease] = places(values, 1)
    for _ in range(500):
        assert await take(lease, 100) is not None
        await release(lease)
    assert values.requests <= 4


async def test_the_places_of_a_process_that_died_are_free_when_its_lease_ends() -> None:
    clock = Clock()
    dead, alive = places(RemoteCounts(clock), 2)
    assert await take(dead, 1) is not None
    clock.now += LEASE - 1
    assert await take(alive, 1) is None
    clock.now += 1
    assert await take(alive, 1) is not None


async def test_a_long_call_keeps_its_place() -> None:
    clock = Clock()
    busy, other = places(RemoteCounts(clock), 2)
    assert await take(busy, 1) is not None
    for _ in range(100):
        clock.now += 2.0
        await busy.tidy()
        assert await take(other, 1) is None
    await release(busy)
    assert await take(other, 1) is not None


async def test_a_place_that_goes_back_is_not_taken_meanwhile() -> None:
    lease, other = places(RemoteCounts(Clock()), 2)
    assert await take(lease, 16) is not None  # of two
    going_back = asyncio.create_task(lease.tidy(is_last=True))
    await asyncio.sleep(0)
    assert not lease.take()
    await going_back
    running = 1
    while await take(other, 16) is not None:
        running += 1
    assert running == 16


async def test_places_are_not_used_beyond_their_lease_without_the_store() -> None:
    clock = Clock()
    values = RemoteCounts(clock)
    [lease] = places(values, 1)
    assert await take(lease, 100) is not None
    await release(lease)
    values.is_down = True
    assert await take(lease, 100) is not None
    await release(lease)
    clock.now += LEASE
    with pytest.raises(Uncountable):
        await take(lease, 100)


_STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "take", "release", "tidy", "end", "later"]), st.integers(0, 3)),
    max_size=80,
)


@given(most=st.integers(1, 30), steps=_STEPS)
def test_whatever_happens_no_call_too_many_runs(most: int, steps: list[tuple[str, int]]) -> None:
    asyncio.run(_walk(most, steps))


async def _walk(most: int, steps: list[tuple[str, int]]) -> None:
    clock = Clock()
    leases, running = places(MemoryCounts(clock), 4), [0, 0, 0, 0]
    for step, number in steps:
        lease = leases[number]
        match step:
            case "take":
                running[number] += await take(lease, most) is not None
            case "release" if running[number]:
                running[number] -= 1
                await release(lease)
            case "tidy" | "end":
                await lease.tidy(is_last=step == "end")
            case _:
                clock.now += 2.0
                for one in leases:
                    await one.tidy()
        assert sum(running) <= most
    for number, lease in enumerate(leases):
        for _ in range(running[number]):
            await release(lease)
        await lease.tidy(is_last=True)
    for _ in range(most):
        assert await take(leases[0], most) is not None
    assert await take(leases[1], most) is None
