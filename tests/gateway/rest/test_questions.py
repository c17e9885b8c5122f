"""Calls that have no result yet: they ask something, wait for an approval, or were not waited for."""

import asyncio

import pytest

from tests.gateway.driving import JSON
from tests.gateway.front import front
from tests.gateway.rest.desk import Desk, served_desk
from tests.inside.bus import tenant_of
from tests.inside.config import Serve
from tests.inside.gateway import AccessControl, GatewayLimits, Principal
from tests.servers.in_calls import in_calls

pytestmark = pytest.mark.anyio
ASKS = {"policy": [{"tools": "desk/add", "do": "ask"}]}


async def asked(desk: Desk, tool: str = "book", **arguments: int) -> tuple[str, str]:
    """The URL of a call that asks something, and the name of its question."""
    response = await desk.call(tool, **arguments)
    state = response.json()
    assert (response.status_code, state["status"]) == (202, "input_required"), state
    assert response.headers["location"] == f"/calls/{state['id']}"
    (name,) = state["questions"]
    return response.headers["location"], name


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_question_is_answered_and_the_call_goes_on(era: str) -> None:
    async with served_desk(era=era) as desk:
        place, name = await asked(desk)
        question = (await desk.get(place)).json()["questions"][name]
        answered = await desk.answer(place, **{name: {"action": "accept", "content": {"row": 4}}})
        later = (await desk.get(place)).json()
    assert (question["kind"], question["message"]) == ("form", "Which row?")
    assert question["schema"]["properties"]["row"]["type"] == "integer"
    assert answered.status_code == 200
    assert answered.json() == later
    assert (later["status"], later["result"]) == ("completed", {"result": "row 4"})


async def test_a_server_of_both_eras_asks_in_the_middle_of_a_call() -> None:
    shown = Serve(rest=True)
    config = {"servers": {"s": {"server": in_calls()}}, "naming": "{tool}"}
    access = AccessControl(shown, servers=("s",))
    async with front(None, access, None, config, serve=shown) as served:
        base = served.url.removesuffix("/mcp")
        waiting = await served.http.post(f"{base}/tools/ask", json={"about": "winter"})
        assert waiting.status_code == 202, waiting.text
        place, (name,) = waiting.headers["location"], waiting.json()["questions"]
        answers = {name: {"action": "accept", "content": {"word": "snow"}}}
        done = (await served.http.post(f"{base}{place}", json={"answers": answers})).json()
        assert done["result"]["content"][0]["text"] == "winter: snow"
        second_links = tenant_of(served.gateway.bus).engine.second_links
        assert len(second_links) == 1
    assert len(second_links) == 0


async def test_nobody_waits_for_news_while_the_gateway_stops() -> None:
    async with served_desk() as desk:
        place = (await desk.call("wait", {"prefer": "respond-async"})).headers["location"]
        await desk.gates.entered.wait()
        polled = asyncio.create_task(desk.get(place, prefer="wait=60"))
        for _ in range(20):  # the gateway has the request
            await asyncio.sleep(0.01)
        desk.gateway.drain()
        state = (await polled).json()
        assert state["status"] == "working"


async def test_each_mistake_of_an_answer_is_named() -> None:
    async with served_desk(ASKS) as desk:
        place, name = await asked(desk, "add", a=1, b=2)
        answered = await desk.answer(place, **{name: {"action": "accept", "content": {"answer": 1}}})
    assert (answered.status_code, answered.json()["code"]) == (400, "invalid_answer")
    errors = answered.json()["errors"]
    assert [one["place"] for one in errors] == ["answer", "answer"]  # its type, and the choices
    assert all(one["detail"] in answered.json()["detail"] for one in errors)


async def test_a_url_to_visit() -> None:
    async with served_desk(era="legacy") as desk:
        place, name = await asked(desk, "pay")
        question = (await desk.get(place)).json()["questions"][name]
        paid = (await desk.answer(place, **{name: {"action": "accept"}})).json()
    assert question == {"kind": "url", "message": "Pay there.", "url": "https://pay.example/1"}
    assert paid["result"] == {"result": "paid: accept"}


async def test_an_approved_call_is_made_once_and_a_declined_one_is_not() -> None:
    async with served_desk(ASKS) as desk:
        place, name = await asked(desk, "add", a=1, b=2)
        assert desk.made == []
        yes = {"action": "accept", "content": {"answer": "once"}}
        made = (await desk.answer(place, **{name: yes})).json()
        again = await desk.answer(place, **{name: yes})
        other, name = await asked(desk, "add", a=3, b=4)
        declined = (await desk.answer(other, **{name: {"action": "decline"}})).json()
        assert desk.made == ["1+2"]
    assert (made["status"], made["result"]) == ("completed", {"result": 3})
    assert (again.status_code, again.json()["code"]) == (409, "not_asked")
    assert (declined["status"], declined["problem"]["code"]) == ("failed", "denied")
    assert (declined["problem"]["status"], declined["problem"]["sent"]) == (403, False)


async def test_who_polls_learns_that_somebody_else_has_answered() -> None:
    async with served_desk() as desk:
        place, name = await asked(desk)
        polled = asyncio.create_task(desk.get(place, prefer="wait=60"))
        await asyncio.sleep(0)
        await desk.answer(place, **{name: {"action": "accept", "content": {"row": 1}}})
        state = (await polled).json()
    assert (state["status"], state["result"]) == ("completed", {"result": "row 1"})


async def test_answers_that_fit_no_question() -> None:
    async with served_desk() as desk:
        place, name = await asked(desk)
        bad: list[JSON] = [
            {},
            {"answers": []},
            {"answers": {name: "yes"}},
            {"answers": {name: {"action": "maybe"}}},
        ]
        refused = [await desk.http.post(f"{desk.base}{place}", json=body) for body in bad]
        other = await desk.answer(place, other={"action": "accept"})
        state = (await desk.get(place)).json()
    assert {one.status_code for one in refused} == {400}
    assert other.status_code == 409
    assert name in other.json()["detail"]
    assert state["status"] == "input_required"


async def test_a_cancelled_call_ends_at_its_server_and_has_no_place_any_more() -> None:
    async with served_desk() as desk:
        started = await desk.call("wait", {"prefer": "respond-async"})
        place = started.headers["location"]
        await desk.gates.entered.wait()
        gone = await desk.http.delete(f"{desk.base}{place}")
        await desk.gates.cancelled.wait()
        later = await desk.get(place)
    assert (started.status_code, started.json()["status"]) == (202, "working")
    assert (gone.status_code, gone.content) == (204, b"")
    assert "content-length" not in gone.headers
    assert (later.status_code, later.json()["code"]) == (404, "unknown_call")


async def test_a_cancelled_call_makes_room_for_another() -> None:
    async with served_desk(settings=GatewayLimits(max_parked=2)) as desk:
        place, _ = await asked(desk)
        full = await desk.call("wait", {"prefer": "respond-async"})
        await desk.http.delete(f"{desk.base}{place}")
        free = await desk.call("wait", {"prefer": "respond-async"})
    assert (full.status_code, full.json()["code"]) == (429, "busy")
    assert "max_tasks" in full.json()["detail"]
    assert free.status_code == 202


async def test_a_call_that_was_not_waited_for() -> None:
    async with served_desk() as desk:
        fast = await desk.call("add", {"prefer": "respond-async, wait=30"}, a=1, b=2)
        slow = await desk.call("wait", {"prefer": "wait=0"})
        failing = await desk.call("fail", {"prefer": "respond-async"})
        desk.gates.opened.set()
        states = [await desk.ended(one.headers["location"]) for one in (slow, failing)]
    assert (fast.status_code, fast.json()) == (200, {"result": 3})
    assert (slow.status_code, failing.status_code) == (202, 202)
    assert [state["status"] for state in states] == ["completed", "failed"]
    assert (states[1]["problem"]["code"], states[1]["problem"]["status"]) == ("tool_error", 422)


async def test_a_call_goes_on_when_its_client_leaves_after_202() -> None:
    async with served_desk() as desk:
        call = asyncio.create_task(desk.call("wait", {"prefer": "wait=60"}))
        await desk.gates.entered.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        desk.gates.opened.set()
        await desk.call("add", a=1, b=2)
    assert not desk.gates.cancelled.is_set()


async def test_questions_that_nobody_answers_end_the_call() -> None:
    async with served_desk(era="legacy", settings=GatewayLimits(answer_within=0.05)) as desk:
        place, _ = await asked(desk)
        async with asyncio.timeout(20):
            while (state := (await desk.get(place)).json())["status"] != "failed":  # noqa: ASYNC110 - clients poll
                await asyncio.sleep(0.02)
    assert "did not answer" in str(state["problem"]) or state["problem"]["status"] >= 400


async def test_a_script_asks_in_the_middle() -> None:
    async with served_desk({**ASKS, "expose": "code"}) as desk:
        place, name = await asked_by_script(desk)
        state = (
            await desk.answer(place, **{name: {"action": "accept", "content": {"answer": "once"}}})
        ).json()
    assert state["status"] == "completed", state
    assert "7" in str(state["result"])


async def asked_by_script(desk: Desk) -> tuple[str, str]:
    """The call of a script that needs an approval, and the name of the question."""
    paths = (await desk.get("/openapi.json")).json()["paths"]
    assert "/tools/run_code" in paths
    response = await desk.call("run_code", script="await add(a=3, b=4)")
    assert response.status_code == 202, response.text
    (name,) = response.json()["questions"]
    return response.headers["location"], name


async def test_views_and_owners_keep_calls_apart() -> None:
    """An id alone opens nothing: it is somebody's."""
    async with served_desk() as desk:
        place, _ = await asked(desk)
        name = place.rpartition("/")[2]
        parked = desk.gateway._parked  # pyright: ignore[reportPrivateUsage]
        assert parked.get(name, Principal(kind="key", name="ann", key="a" * 64).owner) is None
