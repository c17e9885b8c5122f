"""The REST API of several gateways on one store: any of them answers for all."""

import asyncio
from collections.abc import AsyncGenerator

import httpx2
import pytest

from tests.gateway.replicas.cluster import Cluster, Replica, cluster, until
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio
KEY = {"idempotency-key": "order-1"}


@pytest.fixture
async def two() -> AsyncGenerator[Cluster]:
    async with cluster(2, serve={"rest": True}) as made:
        yield made


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        yield client


def at(replica: Replica, path: str) -> str:
    """The URL of a path there."""
    return replica.url.removesuffix("/mcp") + path


async def test_a_question_of_one_replica_is_answered_through_another(
    two: Cluster, http: httpx2.AsyncClient
) -> None:
    first, second = two.replicas
    asked = await http.post(at(first, "/tools/confirm"), json={"token": "a"})
    assert asked.status_code == 202, asked.text
    place, (name,) = asked.headers["location"], asked.json()["questions"]
    shown = (await http.get(at(second, place))).json()
    answers = {name: {"action": "accept", "content": {"sure": True}}}
    done = (await http.post(at(second, place), json={"answers": answers})).json()
    assert shown["questions"] == asked.json()["questions"]
    assert (done["status"], done["result"]["content"][0]["text"]) == ("completed", "a accept")
    assert (await http.get(at(first, place))).json() == done
    assert two.written == {"a accept": 1}


async def test_a_call_is_cancelled_through_another_replica(two: Cluster, http: httpx2.AsyncClient) -> None:
    first, second = two.replicas
    asked = await http.post(at(first, "/tools/confirm"), json={"token": "a"})
    place = asked.headers["location"]
    gone = await http.delete(at(second, place))
    later = [await http.get(at(one, place)) for one in (first, second)]
    assert [gone.status_code, *(one.status_code for one in later)] == [204, 404, 404]


async def test_a_key_counts_at_every_replica(two: Cluster, http: httpx2.AsyncClient) -> None:
    first, second = two.replicas
    made = await http.post(at(first, "/tools/write"), json={"token": "a"}, headers=KEY)
    again = await http.post(at(second, "/tools/write"), json={"token": "a"}, headers=KEY)
    assert (made.status_code, again.status_code, again.content) == (200, 200, made.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert two.written == {"a": 1}


async def test_a_call_whose_replica_was_killed_is_not_made_again(
    two: Cluster, http: httpx2.AsyncClient
) -> None:
    first, second = two.replicas
    arguments = {"token": "a", "seconds": 600}
    call = asyncio.create_task(http.post(at(first, "/tools/write"), json=arguments, headers=KEY))
    await two.until_written("a")
    early = await http.post(at(second, "/tools/write"), json=arguments, headers=KEY)
    first.kill()
    await asyncio.gather(call, return_exceptions=True)
    last = early

    async def is_over() -> bool:
        nonlocal last
        last = await http.post(at(second, "/tools/write"), json=arguments, headers=KEY)
        return last.status_code != 409

    await until(is_over)
    assert (early.status_code, early.json()["code"]) == (409, "still_running")
    assert (last.status_code, last.json()["code"]) == (502, "connection_lost")
    assert "check before you repeat it" in last.json()["detail"]
    assert two.written == {"a": 1}


async def test_a_call_of_a_replica_that_was_killed_has_failed(two: Cluster, http: httpx2.AsyncClient) -> None:
    first, second = two.replicas
    asked = await http.post(at(first, "/tools/confirm"), json={"token": "a"})
    place = asked.headers["location"]
    first.kill()
    state = asked.json()

    async def is_over() -> bool:
        nonlocal state
        state = (await http.get(at(second, place))).json()
        return state["status"] == "failed"  # before that, a problem with its number

    await until(is_over)
    assert "has ended" in state["problem"]["detail"]
