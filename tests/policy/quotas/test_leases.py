"""Blocks of calls that processes lease: never one too many, and none is left over in the end."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.policy import QUOTA, SHARE, CallLease, MemoryCounts, Uncountable, UsedUp, forget_ended
from tests.policy.quotas.sharing import MINUTE, Clock, RemoteCounts, calls, place, take

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("most", [1, 7, 60, 1_000])
async def test_processes_that_call_at_the_same_time_make_exactly_as_many_calls_as_are_allowed(
    most: int,
) -> None:
    leases = calls(RemoteCounts(Clock()), 12)
    taken = await asyncio.gather(*(take(leases[number % 12], most) for number in range(2 * most + 24)))
    made = sum(one is not None for one in taken)
    assert made <= most
    assert made >= most - most // SHARE


async def test_what_no_process_uses_goes_back_and_can_be_used_by_another() -> None:
    clock = Clock()
    values = RemoteCounts(clock)
    leases = calls(values, 12)
    for lease in leases:
        assert await take(lease, 100) is not None
    for lease in leases:
        await lease.tidy()  # it keeps as many as it has used
        await lease.tidy()
    clock.now += 1.5
    last = leases[0]
    made = 12
    while await take(last, 100) is not None:
        made += 1
    assert made == 100


async def test_only_some_calls_ask_the_store() -> None:
    values = RemoteCounts(Clock())
    [lease] = calls(values, 1)
    for _ in range(1_000):
        assert await take(lease, 10_000) is not None
    assert values.requests <= 4


async def test_every_refusal_says_when_the_window_ends_and_few_of_them_ask_the_store() -> None:
    clock = Clock(6_000.0 + 47.5)
    values = RemoteCounts(clock)
    [lease] = calls(values, 1)
    assert await take(lease, 1) is not None
    for _ in range(50):
        with pytest.raises(UsedUp) as refused:
            await lease.lease(1)
        assert refused.value.after == 12.5
    assert values.requests <= 4
    clock.now += 12.5
    assert await take(lease, 1) is not None


async def test_a_block_of_a_process_that_died_is_lost_until_the_window_ends() -> None:
    clock = Clock()
    values = RemoteCounts(clock)
    dead, alive = calls(values, 2)
    assert await take(dead, 80) is not None  # it had 10, and has used one
    made = 0
    while await take(alive, 80) is not None:
        made += 1
    assert made == 70
    clock.now += MINUTE
    assert await take(alive, 80) is not None


async def test_without_the_store_only_what_is_leased_is_used() -> None:
    clock = Clock()
    values = RemoteCounts(clock)
    lease, other = calls(values, 2)
    assert await take(lease, 80) is not None
    values.is_down = True
    for _ in range(9):
        assert await take(lease, 80) is not None
    with pytest.raises(Uncountable, match="has not responded"):
        await lease.lease(80)
    asked = values.requests
    with pytest.raises(Uncountable, match="has not responded"):
        await lease.lease(80)
    assert values.requests == asked  # the next call does not wait for it again
    with pytest.raises(Uncountable):
        await other.lease(80)
    values.is_down = False
    clock.now += 1.5
    made = 0
    while await take(lease, 80) is not None:
        made += 1
    assert made == 70


async def test_what_is_leased_is_kept_while_the_store_does_not_respond() -> None:
    clock = Clock()
    values = RemoteCounts(clock)
    [lease] = calls(values, 1)
    assert await take(lease, 80) is not None
    values.is_down = True
    for _ in range(5):
        clock.now += 2.0
        await lease.tidy()
    for _ in range(9):
        assert await take(lease, 80) is not None
    with pytest.raises(Uncountable):
        await take(lease, 80)


async def test_a_block_whose_lease_was_not_confirmed_is_not_used() -> None:
    clock = Clock()
    values = RemoteCounts(clock)
    lease, other = calls(values, 2)
    values.loses_answers = True
    with pytest.raises(Uncountable):
        await lease.lease(80)
    assert not lease.take()
    values.loses_answers = False
    made = 0
    while await take(other, 80) is not None:
        made += 1
    assert made == 70


async def test_a_call_that_was_not_made_is_put_back_in_its_own_window_only() -> None:
    clock = Clock()
    [lease] = calls(RemoteCounts(clock), 1)
    taken = await take(lease, 1)
    assert taken is not None
    lease.put_back(taken)
    assert await take(lease, 1) == taken
    clock.now += MINUTE
    assert await take(lease, 1) is not None
    lease.put_back(taken)
    assert await take(lease, 1) is None


async def test_a_clock_that_is_behind_does_not_open_a_window_again() -> None:
    ahead, behind = Clock(6_000.0), Clock(6_000.0)
    values = RemoteCounts(ahead)
    [early] = calls(values, 1)
    ahead.now += MINUTE
    assert await take(early, 1) is not None
    late = RemoteCounts(behind)
    late._values = values._values  # pyright: ignore[reportPrivateUsage]  # the same counts, another clock
    [lease] = calls(late, 1)
    assert await take(lease, 1) is None


async def test_what_goes_back_late_does_not_add_to_the_next_window() -> None:
    ahead, behind = Clock(), Clock()
    values, late = RemoteCounts(ahead), RemoteCounts(behind)
    late._values = values._values  # pyright: ignore[reportPrivateUsage]  # the same counts, another clock
    [early], [slow] = calls(values, 1), calls(late, 1)
    assert await take(slow, 16) is not None
    ahead.now += MINUTE
    assert await take(early, 16) is not None
    await slow.tidy(is_last=True)
    await early.tidy(is_last=True)
    made = 1
    while await take(early, 16) is not None:
        made += 1
    assert made == 16


async def test_a_return_that_was_not_confirmed_may_have_been_made() -> None:
    clock = Clock()
    values = RemoteCounts(clock)
    lease, other = calls(values, 2)
    assert await take(lease, 80) is not None
    values.loses_answers = True
    await lease.tidy(is_last=True)
    values.loses_answers = False
    clock.now += 1.5
    made = 1
    for one in (other, lease):
        while await take(one, 80) is not None:
            made += 1
    assert made == 80


async def test_a_call_that_is_put_back_during_a_lease_is_not_lost() -> None:
    clock = Clock()
    [lease] = calls(RemoteCounts(clock), 1)
    first, _ = await take(lease, 16), await take(lease, 16)
    assert first is not None
    leasing = asyncio.create_task(lease.lease(16))
    await asyncio.sleep(0)
    lease.put_back(first)
    await leasing
    made = 1
    while await take(lease, 16) is not None:
        made += 1
    assert made == 16


async def test_a_damaged_count_refuses_every_call() -> None:
    values = MemoryCounts(Clock())
    await values.swap(QUOTA, "calls", None, b"[]")
    with pytest.raises(Uncountable, match="damaged"):
        await CallLease(place(values), MINUTE).lease(5)


async def test_counts_that_ended_long_ago_are_forgotten() -> None:
    clock = Clock()
    values = MemoryCounts(clock)
    assert await take(CallLease(place(values), MINUTE), 5) is not None
    await forget_ended(values)
    assert await values.items(QUOTA)
    clock.now += 3 * 3600
    await forget_ended(values)
    assert not await values.items(QUOTA)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "take", "take", "put back", "tidy", "end", "die", "later"]),
        st.integers(0, 3),
    ),
    max_size=80,
)


@given(most=st.integers(1, 40), steps=_STEPS)
def test_whatever_happens_no_window_has_a_call_too_many(most: int, steps: list[tuple[str, int]]) -> None:
    asyncio.run(_walk(most, steps))


async def _walk(most: int, steps: list[tuple[str, int]]) -> None:
    clock = Clock()
    values = MemoryCounts(clock)
    leases = calls(values, 4)
    made: list[tuple[CallLease, float]] = []
    for step, number in steps:
        lease = leases[number]
        match step:
            case "take":
                if (taken := await take(lease, most)) is not None:
                    made.append((lease, taken))
            case "put back" if made:
                one, taken = made.pop()
                one.put_back(taken)
            case "tidy" | "end":
                await lease.tidy(is_last=step == "end")
            case "die":
                leases[number] = calls(values, 1)[0]
            case _:
                clock.now += 7.0
        now = clock.now // MINUTE
        assert sum(taken // MINUTE == now + 1 for _, taken in made) <= most
    if not any(step == "die" for step, _ in steps):  # then nothing is lost
        clock.now += 1.5
        for lease in leases:
            await lease.tidy(is_last=True)
        now = clock.now // MINUTE
        left = most - sum(taken // MINUTE == now + 1 for _, taken in made)
        [fresh] = calls(values, 1)
        assert [await take(fresh, most) is not None for _ in range(left + 1)] == [True] * left + [False]
