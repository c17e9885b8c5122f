"""Several gateways on one store: each client reaches what it needs through any of them."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import toolbus
from tests.conftest import sampled
from tests.gateway.front import Events
from tests.gateway.replicas.cluster import ELICITS, TASKS, Cluster, client, cluster, text_of, until
from tests.postgres import Server, postgres_server
from tests.servers.certificates import Authority, self_signed

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def postgres() -> Generator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=sampled(["sqlite", "postgresql"], "postgresql"))
async def two(request: pytest.FixtureRequest) -> AsyncGenerator[Cluster]:
    """Two replicas, on either database."""
    server: Server | None = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    async with cluster(2, "" if server is None else server.database()) as made:
        yield made


async def test_a_call_that_waits_for_its_client_goes_on_through_another_replica(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one:
        asked = (await one.call(first.url, "confirm", ELICITS, token="a"))["result"]
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        params = {
            "name": "confirm",
            "arguments": {"token": "a"},
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "accept", "content": {"sure": True}}},
        }
        done = await one.modern(second.url, "tools/call", params, ELICITS)
        assert text_of(done) == "a accept"
        # The same state again is not another call.
        again = await one.modern(second.url, "tools/call", params, ELICITS)
        assert "the call has ended" in again["error"]["message"]
        assert two.written == {"a accept": 1}


async def test_a_call_that_waits_in_a_replica_that_was_killed_fails_once_with_the_reason(
    two: Cluster,
) -> None:
    first, second = two.replicas
    async with client() as one:
        asked = (await one.call(first.url, "confirm", ELICITS, token="a"))["result"]
        (key,) = asked["inputRequests"]
        first.kill()
        await first.ended()
        params = {
            "name": "confirm",
            "arguments": {"token": "a"},
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "accept", "content": {"sure": True}}},
        }
        failed = await one.modern(second.url, "tools/call", params, ELICITS)
        assert failed["error"]["message"] == "Invalid requestState: the call has ended"
        assert two.written == {}


async def test_a_task_is_followed_and_its_result_read_through_any_replica(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one:
        started = (await one.call(first.url, "job", TASKS, token="a"))["result"]
        assert started["resultType"] == "task"
        task = {"taskId": started["taskId"]}
        states: list[Any] = []

        async def has_ended() -> bool:
            states.append((await one.modern(second.url, "tasks/get", task, TASKS))["result"])
            return states[-1]["status"] != "working"

        await until(has_ended)
        state = states[-1]
        assert state["status"] == "completed"
        assert state["result"]["content"][0]["text"] == "a"
        await first.stop()
        left = (await one.modern(second.url, "tasks/get", task, TASKS))["result"]
        assert (left["status"], left["result"]) == ("completed", state["result"])
        assert two.written == {"a": 1}


async def test_a_task_whose_replica_was_killed_is_reported_as_unknown_and_not_repeated(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one:
        started = (await one.call(first.url, "job", TASKS, token="a", seconds=600))["result"]
        await two.until_written("a")
        await one.open(second.url)
        (listed,) = (await one.legacy(second.url, "tasks/list"))["result"]["tasks"]
        assert (listed["taskId"], listed["status"]) == (started["taskId"], "working"), "the other one runs it"
        first.kill()
        await first.ended()
        state = await one.modern(second.url, "tasks/get", {"taskId": started["taskId"]}, TASKS)
        assert state["result"]["status"] == "failed"
        assert "whether the call took effect is not known" in state["result"]["error"]["message"]
        (listed,) = (await one.legacy(second.url, "tasks/list"))["result"]["tasks"]
        assert listed["status"] == "failed"
        assert two.written == {"a": 1}


async def test_a_legacy_session_is_served_by_every_replica(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one, client() as other:
        await one.open(first.url)
        for number, replica in enumerate((second, first, second)):
            assert text_of(await one.legacy_call(replica.url, "write", token=f"t{number}")) == f"t{number}"
        other.session = "not one of ours"
        assert (await other.legacy_call(second.url, "write", token="no")).get("error")
        # It ends through any of them, for all of them.
        ended = await one.http.delete(second.url, headers=one.headers)
        assert ended.status_code == 200
        assert (await one.http.post(first.url, json={}, headers=one.headers)).status_code in (400, 404)
        assert sorted(two.written) == ["t0", "t1", "t2"]


async def test_a_question_to_a_legacy_client_is_answered_through_another_replica(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one:
        await one.open(first.url, ELICITS)
        params = {"name": "confirm", "arguments": {"token": "a"}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        # The request goes through the one, the answer through the other.
        async with one.http.stream("POST", second.url, json=message, headers=one.headers) as response:
            events = Events(response)
            question = await events.message()
            assert question["method"] == "elicitation/create"
            answer = {"id": question["id"], "result": {"action": "decline"}}
            assert await one.send(first.url, answer) == 202
            assert text_of(await events.message()) == "a decline"
        assert two.written == {"a decline": 1}


async def test_messages_for_the_stream_of_a_session_reach_it_wherever_it_is(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one:
        await one.open(first.url)
        await one.legacy(second.url, "resources/subscribe", {"uri": "journal://all"})
        async with one.http.stream("GET", second.url, headers=one.headers) as response:
            assert response.status_code == 200
            events = Events(response)
            await events.next()  # it is open
            await one.legacy_call(first.url, "write", token="a")
            message = await events.message()
            assert message["method"] == "notifications/resources/updated"
            assert message["params"] == {"uri": "journal://all"}


async def test_a_session_whose_replica_was_killed_goes_on_elsewhere(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one:
        await one.open(first.url)
        # Through the other one, which keeps its connection: a request that was never sent fails for nobody.
        await one.legacy(second.url, "resources/subscribe", {"uri": "journal://all"})
        first.kill()
        await first.ended()
        assert text_of(await one.legacy_call(second.url, "write", token="a")) == "a"
        async with one.http.stream("GET", second.url, headers=one.headers) as response:
            events = Events(response)
            kinds = {(await events.message())["method"] for _ in range(4)}
            assert kinds == {
                "notifications/tools/list_changed",
                "notifications/prompts/list_changed",
                "notifications/resources/list_changed",
                "notifications/resources/updated",
            }
        assert two.written == {"a": 1}


async def test_a_call_in_flight_in_a_killed_replica_fails_once_and_is_not_repeated(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one:
        await one.open(first.url)
        call = asyncio.create_task(one.legacy_call(second.url, "write", token="a", seconds=600))
        await two.until_written("a")
        first.kill()
        failed = await call
        assert "check before you repeat it" in failed["error"]["message"]
        await first.ended()  # some of its connections may have been open still
        assert text_of(await one.legacy_call(second.url, "write", token="b")) == "b"
        assert two.written == {"a": 1, "b": 1}


async def test_a_replica_that_is_stopped_ends_its_calls_and_leaves_its_sessions(two: Cluster) -> None:
    first, second = two.replicas
    async with client() as one, client() as modern:
        await one.open(first.url, ELICITS)
        params = {"name": "confirm", "arguments": {"token": "a"}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        async with one.http.stream("POST", first.url, json=message, headers=one.headers) as response:
            events = Events(response)
            question = await events.message()
            slow = asyncio.create_task(modern.call(first.url, "write", token="slow", seconds=2))
            await two.until_written("slow")
            stopping = asyncio.create_task(first.stop())
            # It takes nothing new, and the session is taken over while it still answers a request.
            await until(lambda: "stopping" in first.log.read_text())
            assert text_of(await one.legacy_call(second.url, "write", token="b")) == "b"
            answer = {"id": question["id"], "result": {"action": "decline"}}
            assert await one.send(second.url, answer) == 202
            assert text_of(await events.message()) == "a decline"
            assert text_of(await slow) == "slow"
        assert await stopping == 0
        assert two.written == {"slow": 1, "b": 1, "a decline": 1}


async def test_keys_are_the_same_for_all_and_a_revoked_one_is_refused_by_all() -> None:
    async with cluster(2, serve={"auth": {"keys": True}}) as two:
        first, second = two.replicas
        environment = {"TOOLBUS_TRUST": "1", "TOOLBUS_STORE_KEY": two.environment()["TOOLBUS_STORE_KEY"]}

        def key(*words: str) -> str:
            done = toolbus("key", *words, "--config", str(two.config), folder=two.folder, env=environment)
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()

        made = await asyncio.to_thread(key, "add", "ann")
        async with client(made) as ann, client("tb_wrong") as nobody:

            async def is_in(url: str) -> bool:
                return "result" in await ann.call(url, "write", token="x")

            async def is_out(url: str) -> bool:
                return not await is_in(url)

            for replica in (first, second):
                await until(partial(is_in, replica.url))
                assert "result" not in await nobody.modern(replica.url, "tools/list")
            await ann.open(first.url)
            assert text_of(await ann.legacy_call(second.url, "write", token="y")) == "y"
            listed = json.loads(await asyncio.to_thread(key, "list", "--json"))
            assert [one["name"] for one in listed["keys"]] == ["ann"]
            await asyncio.to_thread(key, "revoke", "ann")
            for replica in (first, second):
                await until(partial(is_out, replica.url))


async def test_replicas_with_https_reach_those_with_the_same_certificate(
    tmp_path: Path,
) -> None:
    file = self_signed(tmp_path)
    tls = {"cert": str(file), "key": str(file)}
    async with cluster(2, serve={"tls": tls}) as two, client(certificate=file) as one:
        first, second = two.replicas
        assert all(" at https://" in replica.log.read_text() for replica in two.replicas)
        # Only the first one can answer it: a session would be taken over by one that cannot reach it.
        started = (await one.call(first.url, "job", TASKS, token="a", seconds=600))["result"]
        task = {"taskId": started["taskId"]}
        state = await one.modern(second.url, "tasks/get", task, TASKS)
        assert state["result"]["status"] == "working"
        assert "result" in await one.modern(second.url, "tasks/cancel", task, TASKS)
        state = await one.modern(first.url, "tasks/get", task, TASKS)
        assert state["result"]["status"] == "cancelled"


async def test_replicas_reach_each_other_while_their_certificate_is_replaced(tmp_path: Path) -> None:
    """A rolling restart with a renewed certificate: each is known by the one that it has loaded."""
    authority, file = Authority(), tmp_path / "fullchain.pem"
    authority.issued(file, "127.0.0.1")
    tls = {"cert": str(file), "key": str(file)}
    async with cluster(1, serve={"tls": tls}) as both:
        authority.issued(file, "127.0.0.1")
        await (await both.start()).ready()
        async with client(certificate=file) as one:
            for here, there in (both.replicas, both.replicas[::-1]):
                started = (await one.call(here.url, "job", TASKS, token="a", seconds=600))["result"]
                asked = {"taskId": started["taskId"]}
                state = await one.modern(there.url, "tasks/get", asked, TASKS)
                assert state["result"]["status"] == "working"


async def test_nobody_but_a_replica_gets_an_answer_where_replicas_listen(two: Cluster) -> None:
    first, _ = two.replicas
    said = first.log.read_text()
    url = said.split("replica ")[1].split(" at ")[1].split(",")[0]
    async with client() as one:
        for headers in ({}, {"x-toolbus-relay": "forged"}):
            response = await one.http.post(f"{url}/mcp", json={}, headers=headers)
            assert response.status_code in (404, 421)
            assert response.content == b""
