"""Requests of a server during a call pass the same guard and the same trail."""

from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS, sampled
from tests.policy.people import Person, lines
from tests.servers.asking import asking
from toolbus import Answer, Elicitation, InputNeeded, Interactions, ServerRejected, Toolbus
from toolbus.events import Event, InputAnswered, InputAsked, Warned
from toolbus.records import Sampling, SamplingResult, Text

pytestmark = pytest.mark.anyio


def elicit(question: Elicitation) -> Answer:
    fields = [field.name for field in question.form.fields]
    return question.accept({"date": "2026-12-24"} if "date" in fields else {"yes": True})


def sample(request: Sampling) -> SamplingResult:
    return SamplingResult(content=Text(text="Title"), model="m")


HANDLERS: dict[str, Any] = {"elicit": elicit, "sample": sample, "roots": ["/srv"]}


@pytest.fixture(params=sampled(["memory", "stdio", "legacy"], "memory", "legacy"))
def server(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "memory":
        return {"server": asking()}
    stdio = {"command": warm.python(), "args": [str(SERVERS / "asking.py"), "stdio"]}
    return stdio | ({"era": "legacy"} if request.param == "legacy" else {})


async def outcome(bus: Toolbus, name: str, arguments: dict[str, Any]) -> str:
    """The outcome of a call whose request is declined: the tool fails, or the call as a whole."""
    try:
        result = await bus.call(name, arguments)
    except ServerRejected as error:
        return str(error)
    assert result.is_error
    return result.text


class Watched:
    """A bus with one server that asks, its events and its trail."""

    def __init__(self, server: dict[str, Any], trail: Path, *rules: dict[str, Any], **handlers: Any) -> None:
        self.events: list[Event] = []
        self.trail = trail
        self.bus = Toolbus(
            {"servers": {"ask": server}, "policy": list(rules), "audit": str(trail)},
            interactions=Interactions(**HANDLERS | handlers),
            on_event=self.events.append,
        )

    @property
    def requests(self) -> list[tuple[Any, ...]]:
        """The lines about requests of the server."""
        return [
            (line["route"], line.get("decision") or line["outcome"], line.get("rule"), line.get("by"))
            for line in lines(self.trail)
            if line["route"] != "tools/call"
        ]

    @property
    def warnings(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Warned)]


async def test_requests_are_recorded_with_the_call_that_caused_them(
    server: dict[str, Any], tmp_path: Path
) -> None:
    watched = Watched(server, tmp_path / "audit.jsonl")
    async with watched.bus as bus:
        await bus.call("ask_book", {"guest": "Ann"})
        await bus.call("ask_title", {"about": "tea"})
        await bus.call("ask_folders")
    assert watched.requests == [
        ("elicitation/create", "allow", None, "default"),
        ("elicitation/create", "accept", None, None),
        ("sampling/createMessage", "allow", None, "default"),
        ("sampling/createMessage", "accept", None, None),
        ("roots/list", "allow", None, "default"),
        ("roots/list", "accept", None, None),
    ]
    decided = [line for line in lines(watched.trail) if line["event"] == "decided"]
    calls = [line["id"] for line in decided if "during" not in line]
    during = [line["during"] for line in decided if "during" in line]
    assert during == calls
    assert all(line["server"] == "ask" for line in lines(watched.trail))
    inputs = [event for event in watched.events if isinstance(event, InputAsked | InputAnswered)]
    assert [(type(event).__name__, event.kind) for event in inputs] == [
        (name, kind)
        for kind in ("elicitation", "sampling", "roots")
        for name in ("InputAsked", "InputAnswered")
    ]


async def test_denied_requests_are_declined(server: dict[str, Any], tmp_path: Path) -> None:
    rule = {"requests": "*/*", "do": "deny", "reason": "it asks too much"}
    watched = Watched(server, tmp_path / "audit.jsonl", rule)
    async with watched.bus as bus:
        assert (await bus.call("ask_book", {"guest": "Ann"})).text == "not booked: decline"
        for name, arguments in (("ask_title", {"about": "tea"}), ("ask_folders", {})):
            assert "declined" in await outcome(bus, name, arguments)
    denied = [(route, "deny", "policy[0]", "policy") for route in ROUTES]
    assert watched.requests == denied
    kinds = ("elicitation", "sampling", "roots")
    reason = "rule policy[0] denies it: it asks too much"
    assert watched.warnings == [f"its {kind} request was refused: {reason}" for kind in kinds]


ROUTES = ("elicitation/create", "sampling/createMessage", "roots/list")


async def test_a_person_approves_sampling_and_roots_and_is_asked_once_by_elicitation(
    server: dict[str, Any], tmp_path: Path
) -> None:
    person = Person("no", True)
    rule = {"requests": "ask/*", "do": "ask"}
    watched = Watched(server, tmp_path / "audit.jsonl", rule, approve=person)
    async with watched.bus as bus:
        assert (await bus.call("ask_book", {"guest": "Ann"})).text.startswith("Ann: 2026-12-24")
        assert person.asked == []
        assert "declined" in await outcome(bus, "ask_title", {"about": "tea"})
        assert (await bus.call("ask_title", {"about": "tea"})).text == "Title (m)"
        assert (await bus.call("ask_folders")).text == "file:///srv"
    assert [request.name for request in person.asked] == ["ask/sampling", "ask/sampling", "ask/roots"]
    assert person.asked[0].arguments["maxTokens"] == 50
    decided = [request for request in watched.requests if request[1] in ("allow", "deny")]
    assert decided == [
        ("elicitation/create", "allow", "policy[0]", "elicitation"),
        ("sampling/createMessage", "deny", "policy[0]", "function"),
        ("sampling/createMessage", "allow", "policy[0]", "function"),
        ("roots/list", "allow", "policy[0]", "function"),
    ]


async def test_without_anybody_to_ask_a_request_is_declined(server: dict[str, Any], tmp_path: Path) -> None:
    watched = Watched(server, tmp_path / "audit.jsonl", {"requests": "ask/sampling", "do": "ask"})
    async with watched.bus as bus:
        assert "declined" in await outcome(bus, "ask_title", {"about": "tea"})
    assert "nobody can be asked here" in watched.warnings[0]


@pytest.mark.parametrize("tool", ["book", "dig"])
async def test_a_denied_question_does_not_suspend_a_call(tool: str, tmp_path: Path) -> None:
    rule = {"requests": "ask/elicitation", "do": "deny"}
    watched = Watched({"server": asking()}, tmp_path / "audit.jsonl", rule, elicit=None)
    arguments = {"guest": "Ann"} if tool == "book" else {"depth": 1, "mode": "ask"}
    async with watched.bus as bus:
        result = await bus.call(f"ask_{tool}", arguments, on_input="suspend")
    assert result.pending is None
    assert "decline" in result.text
    assert {request[1] for request in watched.requests} == {"deny"}
    assert "denies it" in watched.warnings[0]


async def test_the_answer_to_a_suspended_question_is_recorded_and_guarded(tmp_path: Path) -> None:
    watched = Watched({"server": asking()}, tmp_path / "audit.jsonl", elicit=None)
    async with watched.bus as bus:
        result = await bus.call("ask_book", {"guest": "Ann"}, on_input="suspend")
        assert result.pending is not None
        [question] = result.pending.questions.values()
        answer = question.accept({"date": "2026-12-24"})
        assert (await bus.resume(result.pending, answer)).text.startswith("Ann: 2026-12-24")
        assert [request[1] for request in watched.requests] == ["allow", "pending", "allow", "accept"]
        await bus.reload(
            {
                "servers": {"ask": {"server": asking()}},
                "policy": [{"requests": "ask/elicitation", "do": "deny"}],
                "audit": str(watched.trail),
            }
        )
        assert (await bus.resume(result.pending, answer)).text == "not booked: decline"


async def test_a_denied_question_is_declined_where_nobody_could_be_asked(
    server: dict[str, Any], tmp_path: Path
) -> None:
    rule = {"requests": "ask/elicitation", "do": "deny", "reason": "no forms"}
    watched = Watched(server, tmp_path / "audit.jsonl", rule, elicit=None, declares_elicitation=True)
    async with watched.bus as bus:
        assert (await bus.call("ask_book", {"guest": "Ann"})).text == "not booked: decline"
    assert watched.requests == [("elicitation/create", "deny", "policy[0]", "policy")]
    assert watched.warnings == ["its elicitation request was refused: rule policy[0] denies it: no forms"]


async def test_an_allowed_question_still_needs_a_handler(server: dict[str, Any], tmp_path: Path) -> None:
    rule = {"requests": "ask/elicitation", "do": "allow"}
    watched = Watched(server, tmp_path / "audit.jsonl", rule, elicit=None, declares_elicitation=True)
    async with watched.bus as bus:
        with pytest.raises(InputNeeded, match="asks the user: "):
            await bus.call("ask_book", {"guest": "Ann"})


async def test_an_invalid_answer_is_recorded_as_it_is_sent(server: dict[str, Any], tmp_path: Path) -> None:
    def wrong(question: Elicitation) -> Answer:
        return Answer(action="accept", content={"date": 5})

    watched = Watched(server, tmp_path / "audit.jsonl", elicit=wrong)
    async with watched.bus as bus:
        assert (await bus.call("ask_book", {"guest": "Ann"})).text == "not booked: cancel"
    assert [outcome for _, outcome, _, _ in watched.requests] == ["allow", "cancel"]
