"""Turns of calls: who goes when there is room again, who is refused, and that no room is ever lost."""

import asyncio
import random

import pytest

from tests.inside.gateway import Busy, CallLimits, CallQueue, Slot
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio


class Line:
    """Calls that enter a queue, and the order in which they got their turn."""

    def __init__(self, **limits: int) -> None:
        self.queue = CallQueue(CallLimits(**{"wait_seconds": 600, **limits}))
        self.order: list[str] = []
        self._tasks: list[asyncio.Task[Slot]] = []

    async def enter(self, user: str, server: str = "a", most: int | None = None) -> Slot:
        slot = self.queue.take(user, server, most) or await self.queue.wait(user, server)
        self.order.append(f"{user}/{server}")
        return slot

    async def start(self, user: str, server: str = "a", calls: int = 1) -> list[asyncio.Task[Slot]]:
        """Calls that are made or wait now."""
        started = [asyncio.create_task(self.enter(user, server)) for _ in range(calls)]
        await asyncio.sleep(0)
        return started


async def ends(*tasks: asyncio.Task[Slot]) -> None:
    """Each call ends as soon as it was made."""
    for task in tasks:
        task.add_done_callback(lambda done: done.result().release())
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*tasks)
    await asyncio.sleep(0)


def is_empty(queue: CallQueue) -> bool:
    """Whether nothing is left of any call."""
    return not len(queue) and all(not calls.running and not calls.users for _, calls in queue)


async def test_users_take_turns() -> None:
    line = Line(per_server=1)
    many = await line.start("many", calls=5)
    one, two = await line.start("one"), await line.start("two", calls=2)
    await ends(many[0], many[1], *one, *two, *many[2:])
    assert line.order == [
        f"{user}/a" for user in ("many", "many", "one", "two", "many", "two", "many", "many")
    ]
    assert is_empty(line.queue)


async def test_a_server_that_hangs_leaves_room_for_others() -> None:
    """There is even room for other calls of the user whose calls hang."""
    line = Line(per_user=4, per_server=2)
    hanging = await line.start("ann", "slow", calls=20)
    await ends(*await line.start("ann", "fast", calls=2))
    await ends(*await line.start("bob", "fast"))
    assert line.order == ["ann/slow"] * 2 + ["ann/fast"] * 2 + ["bob/fast"]
    await ends(*hanging)
    assert is_empty(line.queue)


async def test_a_user_who_is_at_the_limit_does_not_stop_others_behind() -> None:
    line = Line(per_user=2, per_server=2)
    elsewhere = await line.start("ann", "b", calls=2)
    waiting = await line.start("ann", "a", calls=3)
    await ends(*await line.start("bob", "a", calls=2))
    assert line.order == ["ann/b"] * 2 + ["bob/a"] * 2
    await ends(*elsewhere, *waiting)
    assert line.order[4:] == ["ann/a"] * 3
    assert is_empty(line.queue)


async def test_who_waits_most_is_refused_first() -> None:
    """A single user gets half of the queue, so the next user always finds room."""
    line = Line(per_server=1, waiting=8)
    many = await line.start("many", calls=1000)
    refused = [task for task in many if task.done() and isinstance(task.exception(), Busy)]
    assert len(line.queue) == 4
    assert len(refused) == 1000 - 4 - 1
    others = [await line.start(f"user{number}") for number in range(4)]
    assert len(line.queue) == 8
    with pytest.raises(Busy) as full:
        await line.enter("late")
    assert (full.value.why, full.value.server) == ("full", "a")
    assert 1 <= full.value.retry_after <= 3
    left = [task for task in many if task not in refused]
    await ends(*left, *(task for [task] in others))
    assert is_empty(line.queue)
    assert dict(line.queue)["a"].refused == {"full": 996}


async def test_a_call_that_waits_for_too_long_is_refused() -> None:
    line = Line(per_server=1, wait_seconds=0)
    [running] = await line.start("ann")
    with pytest.raises(Busy) as late:
        await line.enter("bob")
    assert late.value.why == "late"
    await ends(running)
    assert is_empty(line.queue)
    await ends(*await line.start("bob"))


async def test_a_refusal_names_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    """The user's own, the gateway's for each server, or the server's; and it is logged, but not each."""
    line = Line(per_user=2, per_server=3, waiting=0)
    slots = [await line.enter("ann"), await line.enter("ann", "b")]
    found: list[tuple[str, str]] = []
    for user, server, most in (("ann", "c", None), ("bob", "a", 1), ("bob", "a", 1)):
        with pytest.raises(Busy) as refused:
            await line.enter(user, server, most)
        found.append((refused.value.limit, refused.value.message.partition(",")[0]))
    own = ("max_per_user", "you have 2 calls in flight")
    server = ("max_concurrency", "server 'a' has 1 call in flight")
    assert found == [own, server, server]
    slots += [await line.enter(user) for user in ("bob", "carl")]
    with pytest.raises(Busy, match="server 'a' has 3 calls in flight, the most at a time"):
        await line.enter("dora")
    [logged] = caplog.messages
    assert logged == "a call of 'ann' to server 'c' was refused: max_per_user and max_waiting are reached"
    for slot in slots:
        slot.release()
    assert is_empty(line.queue)


async def test_clients_that_leave_give_their_turn_to_others() -> None:
    """Before their turn, and in the moment in which it comes."""
    line = Line(per_server=1)
    [running] = await line.start("ann")
    [gone], [late], [stays] = [await line.start(user) for user in ("bob", "carl", "dora")]
    gone.cancel()
    await asyncio.sleep(0)
    running.result().release()  # it is the turn of carl
    late.cancel()
    async with asyncio.timeout(PATIENCE):
        (await stays).release()
    assert line.order == ["ann/a", "dora/a"]
    assert is_empty(line.queue)


async def test_two_clients_that_leave_at_once() -> None:
    """The turn of one that is gone, but does not know yet, goes to the next."""
    line = Line(per_server=1)
    [running] = await line.start("ann")
    [gone], [stays] = await line.start("bob"), await line.start("carl")
    gone.cancel()
    running.result().release()
    async with asyncio.timeout(PATIENCE):
        (await stays).release()
    assert is_empty(line.queue)


async def test_a_call_lends_its_room_while_a_person_is_asked() -> None:
    line = Line(per_server=1)
    slot = await line.enter("ann")
    [waiting] = await line.start("bob")
    with slot.lent(), slot.lent():  # two questions at once
        await asyncio.sleep(0)
        assert line.order == ["ann/a", "bob/a"]
    assert dict(line.queue)["a"].running == 2  # it goes on without another wait
    await ends(waiting)
    slot.release()
    with slot.lent():  # a question that outlives its call
        pass
    assert is_empty(line.queue)


async def test_a_server_with_a_limit_of_its_own() -> None:
    line = Line(per_server=4)
    first = await line.enter("ann", most=1)
    second = asyncio.create_task(line.enter("ann", most=1))
    await asyncio.sleep(0)
    assert len(line.queue) == 1
    first.release()
    await ends(second)
    assert is_empty(line.queue)


async def test_nothing_waits_without_limits() -> None:
    queue = CallQueue(None)
    assert all(queue.take("ann", "a") for _ in range(10_000))


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_happens_the_limits_hold_and_no_room_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    queue = CallQueue(CallLimits(per_user=3, per_server=2, waiting=20, wait_seconds=600))
    users: dict[str, int] = {}
    ended = 0

    async def call(user: str, server: str) -> None:
        nonlocal ended
        try:
            slot = queue.take(user, server) or await queue.wait(user, server)
        except Busy:
            return
        try:
            users[user] = users.get(user, 0) + 1
            assert users[user] <= 3
            assert dict(queue)[server].running <= 2
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            ended += 1
        finally:
            users[user] -= 1
            slot.release()

    tasks: list[asyncio.Task[None]] = []
    for _ in range(300):
        tasks.append(asyncio.create_task(call(chance.choice("uvwx"), chance.choice("abc"))))
        if chance.random() < 0.3:
            await asyncio.sleep(0)
        if chance.random() < 0.2:
            chance.choice(tasks).cancel()
    async with asyncio.timeout(PATIENCE):
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(one) for one in found} <= {type(None), asyncio.CancelledError}
    assert ended > 100
    assert is_empty(queue)
