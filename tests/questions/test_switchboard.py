"""One bus for several people: each is asked what their own calls need."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.gateway.driving import client_of, text_of
from tests.inside.core import ApprovalRequest, QuestionRouter, QuestionRouting
from tests.inside.gateway import Gateway
from tests.patience import PATIENCE
from tests.servers.asking import asking
from toolbus import Answer, CallDenied, Caller, Elicitation, Interactions, Toolbus

pytestmark = pytest.mark.anyio
ERAS = ("modern", "legacy")
GUEST = {"guest": "Ann"}


@pytest.fixture(params=ERAS)
def config(request: pytest.FixtureRequest) -> dict[str, object]:
    return {"servers": {"ask": {"server": asking(), "era": request.param, "prefix": ""}}}


def _seats(count: int) -> Interactions:
    def fill(question: Elicitation) -> Answer:
        return question.accept({"date": "2026-12-24", "seats": count, "place": "inside"})

    return Interactions(elicit=fill)


async def _book(bus: Toolbus, session: str) -> str:
    return (await bus.view(caller=Caller(face="test", session=session)).call("book", GUEST)).text


async def _waiting(board: QuestionRouter, count: int = 1) -> None:
    async with asyncio.timeout(PATIENCE):
        came = asyncio.Event()
        end = board.watch(came.set)
        while len(board.waiting) != count:
            came.clear()
            await came.wait()
        end()


async def test_each_session_is_asked_about_its_own_calls(config: dict[str, object]) -> None:
    board = QuestionRouter()
    async with Toolbus(config, interactions=board.interactions(Interactions())) as bus:
        with board.session("one", _seats(1)), board.session("two", _seats(2)):
            assert await _book(bus, "one") == "Ann: 2026-12-24, 1, inside, quiet False"
            assert await _book(bus, "two") == "Ann: 2026-12-24, 2, inside, quiet False"
        assert await _book(bus, "two") == "not booked: cancel", "its handlers are gone"
        assert not board.waiting


async def test_who_watches_may_answer_first(config: dict[str, object]) -> None:
    board, stopped = QuestionRouter(), asyncio.Event()

    async def never(question: Elicitation) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError("unreachable")

    async with Toolbus(config, interactions=board.interactions(Interactions())) as bus:
        with board.session("one", Interactions(elicit=never)):
            booking = asyncio.create_task(_book(bus, "one"))
            await _waiting(board)
            (waiting,) = board.waiting.values()
            assert (waiting.kind, waiting.session, waiting.is_asked) == ("elicitation", "one", True)
            assert isinstance(waiting.question, Elicitation)
            answer = waiting.question.accept({"date": "2026-12-24", "seats": 5, "place": "inside"})
            assert board.reply(waiting.number, answer)
            assert not board.reply(waiting.number, answer), "only one answer counts"
            assert "5, inside" in await booking
            assert stopped.is_set(), "the session is not asked any longer"
            assert not board.reply(waiting.number, answer)


async def test_nobody_waits_for_a_session_without_people(config: dict[str, object]) -> None:
    board = QuestionRouter()
    async with Toolbus(config, interactions=board.interactions(Interactions())) as bus:
        assert await _book(bus, "") == "not booked: cancel"
        board.is_watched = True
        booking = asyncio.create_task(_book(bus, ""))
        await _waiting(board)
        (waiting,) = board.waiting.values()
        assert not waiting.is_asked
        assert isinstance(waiting.question, Elicitation)
        board.reply(waiting.number, waiting.question.decline())
        assert await booking == "not booked: decline"


async def test_a_call_that_ends_takes_its_question_with_it(config: dict[str, object]) -> None:
    board = QuestionRouter()
    board.is_watched = True
    async with Toolbus(config, interactions=board.interactions(Interactions())) as bus:
        booking = asyncio.create_task(_book(bus, "one"))
        await _waiting(board)
        booking.cancel()
        await _waiting(board, 0)
        assert booking.cancelling()


async def test_approvals_go_to_the_session(config: dict[str, object]) -> None:
    board, asked = QuestionRouter(), list[ApprovalRequest]()

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    policy = [{"tools": "ask/book", "do": "ask"}]
    handlers = board.interactions(Interactions())
    async with Toolbus({**config, "policy": policy}, interactions=handlers) as bus:
        with board.session("one", Interactions(elicit=_seats(1).elicit, approve=approve)):
            assert "1, inside" in await _book(bus, "one")
        assert [(request.session, request.name) for request in asked] == [("one", "book")]
        with pytest.raises(CallDenied, match="nobody can be asked"):
            await _book(bus, "two")


@pytest.mark.parametrize("answer", ["once", "session", "always", "no"])
@pytest.mark.parametrize("who", ["terminal", "console"])
async def test_the_trail_says_where_an_approval_was_given(
    who: str, answer: str, config: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    board, trail, asked = QuestionRouter(), tmp_path / "audit.jsonl", asyncio.Event()
    board.is_watched = True

    async def approve(request: ApprovalRequest) -> str:
        asked.set()
        if who == "console":
            await asyncio.Event().wait()  # the terminal has the question as well
        return answer

    settings = {"policy": [{"tools": "ask/tell", "do": "ask"}], "audit": str(trail)}
    handlers = board.interactions(Interactions(_routing=QuestionRouting(approver="terminal")))
    async with Toolbus({**config, **settings}, interactions=handlers) as bus:
        with board.session("one", Interactions(approve=approve)):
            call = asyncio.create_task(bus.view(caller=Caller(session="one")).call("tell", {"text": "x"}))
            async with asyncio.timeout(PATIENCE):
                await asked.wait()
            if who == "console":
                assert [board.reply(number, answer) for number in board.waiting] == [True]
            await asyncio.gather(call, return_exceptions=True)
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    assert [(line["decision"], line["by"]) for line in lines if line["event"] == "decided"] == [
        ("deny" if answer == "no" else "allow", who)
    ]


@pytest.mark.parametrize("client_era", ERAS)
async def test_clients_of_a_gateway_are_asked_beside_them(config: dict[str, object], client_era: str) -> None:
    """Questions of a client's call go to that client, questions of our own to the session."""
    board = QuestionRouter()
    handlers = board.interactions(Interactions(_routing=QuestionRouting(forwards=True)))
    async with (
        Toolbus(config, interactions=handlers) as bus,
        Gateway(bus) as gateway,
    ):
        accept = {"action": "accept", "content": {"date": "2026-12-24", "seats": 7, "place": "inside"}}
        client = await client_of(client_era, gateway, {"elicitation/create": lambda _: accept})  # pyright: ignore[reportArgumentType]
        with board.session("one", _seats(3)):
            for _ in range(2):
                result = await client.request("tools/call", {"name": "book", "arguments": GUEST})
                assert "7, inside" in text_of(result)
                assert "3, inside" in await _book(bus, "one")
        assert len(client.asked) == 2
