"""Calls that are sent again with the same Idempotency-Key."""

import asyncio

import pytest

from tests.gateway.rest.desk import served_desk
from tests.inside.gateway import AnswersInMemory, CallLimits, GatewayLimits

pytestmark = pytest.mark.anyio
KEY = {"idempotency-key": "order-17"}


async def test_a_call_with_a_key_is_made_once() -> None:
    async with served_desk() as desk:
        first, second = await desk.call("add", KEY, a=1, b=2), await desk.call("add", KEY, b=2, a=1)
        other = await desk.call("add", {"idempotency-key": "order-18"}, a=1, b=2)
        assert desk.made == ["1+2"] * 2
    assert (
        (first.status_code, first.content) == (second.status_code, second.content) == (200, b'{"result":3}')
    )
    assert ["idempotent-replayed" in one.headers for one in (first, second, other)] == [False, True, False]


async def test_a_key_is_for_one_call_only() -> None:
    async with served_desk() as desk:
        await desk.call("add", KEY, a=1, b=2)
        reused = [await desk.call("add", KEY, a=1, b=3), await desk.call("greet", KEY, name="Ann")]
        assert desk.made == ["1+2"]
    assert {(one.status_code, one.json()["code"]) for one in reused} == {(422, "key_reused")}


async def test_a_call_that_runs_is_not_made_again() -> None:
    async with served_desk() as desk:
        call = asyncio.create_task(desk.call("wait", KEY))
        await desk.gates.entered.wait()
        early = await desk.call("wait", KEY)
        desk.gates.opened.set()
        first, later = await call, await desk.call("wait", KEY)
        assert desk.made == ["wait"]
    assert (early.status_code, early.json()["code"], early.headers["retry-after"]) == (
        409,
        "still_running",
        "1",
    )
    assert first.json() == later.json() == {"result": "done"}


async def test_a_client_that_lost_its_connection_gets_the_result() -> None:
    async with served_desk() as desk:
        call = asyncio.create_task(desk.call("wait", KEY))
        await desk.gates.entered.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        desk.gates.opened.set()
        while (again := await desk.call("wait", KEY)).status_code == 409:  # noqa: ASYNC110 - clients retry
            await asyncio.sleep(0)
        assert desk.made == ["wait"]
        assert not desk.gates.cancelled.is_set()
    assert again.json() == {"result": "done"}


async def test_a_failure_of_the_tool_is_repeated_and_not_the_call() -> None:
    async with served_desk() as desk:
        failed, again = await desk.call("fail", KEY), await desk.call("fail", KEY)
    assert failed.status_code == again.status_code == 422
    assert failed.json() == again.json()
    assert again.headers["content-type"] == "application/problem+json"


async def test_a_call_that_was_not_made_does_not_use_its_key_up() -> None:
    limits = CallLimits(per_user=1, per_server=1, waiting=1, wait_seconds=0.01)
    async with served_desk(settings=GatewayLimits(calls=limits)) as desk:
        waiting = asyncio.create_task(desk.call("wait"))
        await desk.gates.entered.wait()
        busy = await desk.call("add", KEY, a=1, b=2)
        desk.gates.opened.set()
        await waiting
        made = await desk.call("add", KEY, a=1, b=2)
    assert (busy.status_code, made.status_code, made.json()) == (429, 200, {"result": 3})


async def test_a_question_has_the_same_place_again() -> None:
    async with served_desk() as desk:
        first, second = await desk.call("book", KEY), await desk.call("book", KEY)
        assert desk.made == ["book"], "asked once"
    assert first.status_code == second.status_code == 202
    assert first.headers["location"] == second.headers["location"]


async def test_a_key_that_is_none() -> None:
    async with served_desk() as desk:
        refused = [await desk.call("add", {"idempotency-key": key}, a=1, b=2) for key in ("", "x" * 256)]
        assert desk.made == []
    assert {one.status_code for one in refused} == {400}


async def test_what_is_kept_expires() -> None:
    now = [0.0]
    kept = AnswersInMemory(lambda: now[0])
    assert await kept.add("k", "ann-1", b"x", 10)
    assert not await kept.add("k", "ann-1", b"y", 10)
    now[0] = 11.0
    assert await kept.get("k", "ann-1") is None
    assert await kept.add("k", "ann-1", b"y", 10)


async def test_a_client_with_too_many_keys_loses_only_its_own() -> None:
    kept = AnswersInMemory(most=10_000)
    await kept.put("k", "ben-1", b"b")
    for number in range(100):
        await kept.put("k", f"ann-{number}", b"x" * 100)
    assert await kept.get("k", "ben-1") == b"b"
    assert await kept.get("k", "ann-0") is None
    assert await kept.get("k", "ann-99") is not None
