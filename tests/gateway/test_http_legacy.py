"""Legacy clients of the gateway over HTTP: sessions, and streams that survive a lost connection."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from tests.gateway.driving import JSON
from tests.gateway.front import BOTH, OLDER, Events, Front, LegacySession, front, tool_call
from tests.inside.gateway import HttpLimits, Principal, Refusal, RequestFacts
from tests.patience import PATIENCE
from tests.servers.asking import asking

pytestmark = pytest.mark.anyio


class Names:
    """Lets everyone in under the name that they give, until they are revoked."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()

    async def admit(self, facts: RequestFacts) -> Principal | Refusal:
        _, _, view = facts.path.removeprefix("/").partition("/")
        return Principal(name=facts.headers.get("authorization", "nobody"), view=view or "default")

    def check(self, facts: RequestFacts) -> Refusal | None:
        return None

    def is_current(self, principal: Principal, *, answers: bool = False) -> bool:
        return principal.name not in self.revoked

    def has_revoked(self, principal: Principal) -> bool:
        return False

    def metadata(self, facts: RequestFacts) -> None:
        return None

    def url(self, facts: RequestFacts, name: str = "") -> str:
        return f"http://127.0.0.1/mcp/{name}"

    def address(self, facts: RequestFacts) -> str:
        return facts.address

    def cors(self, facts: RequestFacts) -> dict[str, str]:
        return {}


async def test_a_session_from_its_opening_to_its_end() -> None:
    async with front() as served:
        session = await served.opened(OLDER)
        assert len(session.id) >= 32
        assert (await session.post({"method": "notifications/initialized"})).status_code == 202
        response = await session.call("add", a=1, b=2)
        assert response.headers["mcp-session-id"] == session.id
        assert response.json()["result"]["content"] == [{"type": "text", "text": "3"}]
        assert (await served.http.delete(served.url, headers=session.headers)).status_code == 200
        assert (await session.call("add", a=1, b=2)).status_code == 404
        assert len(served.gateway.sessions) == 0


async def test_a_request_without_a_session_or_with_an_unknown_one() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with front() as served:
        for method in ("POST", "GET", "DELETE"):
            content = json.dumps(message).encode() if method == "POST" else None
            response = await served.http.request(method, served.url, content=content, headers=BOTH)
            assert response.status_code == 400
            unknown = {**BOTH, "mcp-session-id": "x"}
            response = await served.http.request(method, served.url, content=content, headers=unknown)
            assert response.status_code == 404


async def test_the_session_of_another_user() -> None:
    """Another principal, or another view, is told that there is no such session."""
    async with front(access=Names()) as served:
        session = await served.opened(OLDER)
        message: JSON = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        foreign = {**session.headers, "authorization": "Bearer mallory"}
        for url, headers in ((served.url, foreign), (f"{served.url}/other", session.headers)):
            assert (await served.http.post(url, json=message, headers=headers)).status_code == 404
            assert (await served.http.get(url, headers=headers)).status_code == 404
            assert (await served.http.delete(url, headers=headers)).status_code == 404
        assert (await session.post({"id": 1, "method": "ping"})).json()["result"] == {}


async def test_a_version_that_there_is_not_is_refused() -> None:
    async with front() as served:
        session = await served.opened()
        headers = {**session.headers, "mcp-protocol-version": "1999-01-01"}
        message: JSON = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        assert (await served.http.post(served.url, json=message, headers=headers)).status_code == 400


async def test_a_second_initialize_in_a_session_is_refused() -> None:
    async with front() as served:
        session = await served.opened()
        assert (await session.post({"id": 1, "method": "initialize", "params": {}})).status_code == 400


async def test_progress_comes_on_the_stream_of_its_request() -> None:
    async with front() as served:
        session = await served.opened()
        response = await session.post(tool_call("steps", token="t"))
        first, *messages = [
            dict(line.split(": ", 1) for line in event.splitlines() if ": " in line)
            for event in response.text.strip().split("\r\n\r\n")
        ]
    assert first == {"id": "1-0", "retry": "1000", "data": ""}
    assert [one["id"] for one in messages] == ["1-1", "1-2", "1-3"]
    assert json.loads(messages[-1]["data"])["result"]["content"] == [{"type": "text", "text": "done"}]


async def test_an_older_client_gets_no_empty_event() -> None:
    async with front() as served:
        session = await served.opened(OLDER)
        response = await session.post(tool_call("steps", token="t"))
        assert response.headers["content-type"] == "text/event-stream"
        assert response.text.startswith("event: message\r\nid: 1-1\r\ndata: {")


async def lost_stream(served: Front, session: LegacySession, message: JSON) -> list[str]:
    """The ids of the events until the call waits for its gate; then the connection is closed."""
    content = json.dumps({"jsonrpc": "2.0", **message}).encode()
    async with served.http.stream("POST", served.url, content=content, headers=session.headers) as response:
        events = Events(response)
        ids = [(await events.next())["id"]]
        async with asyncio.timeout(PATIENCE):
            await served.gates.entered.wait()
        if message["params"]["name"] == "steps":
            ids.append((await events.next())["id"])
    return ids


async def test_a_lost_connection_does_not_cancel_and_the_rest_can_be_read() -> None:
    async with front() as served:
        session = await served.opened()
        first, second = await lost_stream(served, session, tool_call("steps", token="t", wait=True))
        served.gates.opened.set()
        for last, expected in ((second, [2, "done"]), (first, [1, 2, "done"])):
            headers = {**session.headers, "last-event-id": last}
            async with served.http.stream("GET", served.url, headers=headers) as response:
                assert response.status_code == 200
                messages = await Events(response).rest()
            assert [_gist(one) for one in messages] == expected


def _gist(message: JSON) -> Any:
    return message["params"]["progress"] if "params" in message else message["result"]["content"][0]["text"]


async def test_a_stream_can_be_resumed_before_its_response_is_there() -> None:
    async with front() as served:
        session = await served.opened()
        (first,) = await lost_stream(served, session, tool_call("wait"))
        headers = {**session.headers, "last-event-id": first}
        async with served.http.stream("GET", served.url, headers=headers) as response:
            served.gates.opened.set()
            assert _gist(await Events(response).message()) == "done"
        assert not served.gates.cancelled.is_set()


@pytest.mark.parametrize("event", ["9-1", "1-9", "x", "", "1-", "-1", "0-1", "1" * 5000 + "-1"])
async def test_an_event_that_was_never_sent_cannot_be_resumed(event: str) -> None:
    async with front() as served:
        session = await served.opened()
        headers = {**session.headers, "last-event-id": event}
        assert (await served.http.get(served.url, headers=headers)).status_code == 400


async def test_what_a_session_keeps_for_lost_connections_is_bounded() -> None:
    async with front(HttpLimits(replay_bytes=50_000)) as served:
        session = await served.opened()
        (first,) = await lost_stream(served, session, tool_call("wait"))
        served.gates.opened.set()
        headers = {**session.headers, "last-event-id": first}
        for _ in range(2):  # as often as one likes
            async with served.http.stream("GET", served.url, headers=headers) as response:
                assert _gist(await Events(response).message()) == "done"
        for _ in range(2):
            await session.post(tool_call("large", token="t", size=40_000, parts=1))
        assert (await served.http.get(served.url, headers=headers)).status_code == 400


async def test_a_response_may_be_larger_than_the_events_that_may_wait_on_a_stream() -> None:
    async with front(HttpLimits(backlog_bytes=45_000, replay_bytes=10_000)) as served:
        session = await served.opened()
        response = await session.post(tool_call("large", token="t", size=40_000, parts=1))
    last = json.loads(response.text.strip().rpartition("data: ")[2])
    assert _gist(last) == last["result"]["structuredContent"]["result"] == "x" * 40_000


async def test_what_belongs_to_no_request_comes_on_the_stream_of_the_session() -> None:
    async with front() as served:
        session = await served.opened()
        live = served.gateway.sessions.get(session.id, Principal(name="local"))
        assert live is not None
        live.notify("notifications/one")
        async with served.http.stream("GET", served.url, headers=session.headers) as response:
            events = Events(response)
            assert (await events.next())["retry"] == "1000"
            first = await events.message()
            live.notify("notifications/two")
            second = await events.message()
        assert [one["method"] for one in (first, second)] == ["notifications/one", "notifications/two"]
        headers = {**session.headers, "last-event-id": first["event"]}
        async with served.http.stream("GET", served.url, headers=headers) as response:
            assert (await Events(response).message())["method"] == "notifications/two"


async def test_a_second_stream_of_the_session_replaces_the_first() -> None:
    async with front() as served:
        session = await served.opened()
        live = served.gateway.sessions.get(session.id, Principal(name="local"))
        assert live is not None
        async with served.http.stream("GET", served.url, headers=session.headers) as old:
            events = Events(old)
            await events.next()
            async with served.http.stream("GET", served.url, headers=session.headers) as new:
                assert await events.rest() == []
                live.notify("notifications/one")
                assert (await Events(new).message())["method"] == "notifications/one"


async def test_the_end_of_a_session_ends_its_streams() -> None:
    async with front() as served:
        session = await served.opened()
        async with served.http.stream("GET", served.url, headers=session.headers) as response:
            events = Events(response)
            await events.next()
            await served.http.delete(served.url, headers=session.headers)
            assert await events.rest() == []


async def test_a_stream_ends_when_its_key_is_revoked() -> None:
    access = Names()
    async with front(HttpLimits(keepalive_seconds=0.05), access=access) as served:
        session = await served.opened()
        async with served.http.stream("GET", served.url, headers=session.headers) as response:
            events = Events(response)
            await events.next()
            assert await events.next() == {"comment": "keepalive"}
            access.revoked.add("nobody")
            with pytest.raises(httpx2.RemoteProtocolError):
                await events.rest()


async def test_a_client_cancels_a_request() -> None:
    async with front() as served:
        session = await served.opened()
        call = asyncio.create_task(session.call("wait"))
        async with asyncio.timeout(PATIENCE):
            await served.gates.entered.wait()
        params = {"requestId": 1, "reason": "enough"}
        cancelled = await session.post({"method": "notifications/cancelled", "params": params})
        assert cancelled.status_code == 202
        async with asyncio.timeout(PATIENCE):
            await served.gates.cancelled.wait()
            assert '"code":-32800' in (await call).text


async def test_a_question_comes_on_the_stream_of_the_call_and_its_answer_by_another_post() -> None:
    config: JSON = {"servers": {"ask": {"server": asking(), "era": "legacy", "prefix": ""}}}
    async with front(config=config) as served:
        session = await served.opened()
        content = json.dumps({"jsonrpc": "2.0", **tool_call("book", guest="Ann")}).encode()
        async with served.http.stream("POST", served.url, content=content, headers=session.headers) as stream:
            events = Events(stream)
            question = await events.message()
            assert question["method"] == "elicitation/create"
            answer = {"id": question["id"], "result": {"action": "decline"}}
            assert (await session.post(answer)).status_code == 202
            assert _gist(await events.message()) == "not booked: decline"
