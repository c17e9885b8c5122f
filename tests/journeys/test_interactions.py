"""A server asks in the middle of a call: the same for its users over every transport and in both eras."""

import asyncio
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context

from tests import warm
from tests.conftest import PLACES, SERVERS, Place, sampled
from tests.inside.core import NO_HANDLERS
from tests.patience import PATIENCE
from tests.servers.everyday import everyday
from toolbus import (
    Answer,
    Elicitation,
    InputNeeded,
    Interactions,
    Pending,
    ServerRejected,
    Toolbus,
    ToolResult,
)
from toolbus.events import Event, InputAnswered, InputAsked, Logged, Progressed, Warned
from toolbus.records import Sampling, SamplingResult, Text

pytestmark = pytest.mark.anyio

DAY = {"date": "2026-12-24"}


@pytest.fixture(params=["modern", "legacy"])
def either(request: pytest.FixtureRequest, asking_ports: dict[str, int]) -> Place:
    """One transport, for tests that do not depend on transports."""
    return Place("http", request.param, asking_ports, "asking.py")


def says_yes(question: Elicitation) -> Answer:
    """A user who fills in every form."""
    fields = [field.name for field in question.form.fields]
    return question.accept(DAY if "date" in fields else {"yes": True} if fields else None)


def asking_bus(asker: Place, interactions: Interactions = NO_HANDLERS, **more: Any) -> Toolbus:
    return Toolbus({"servers": {"ask": asker.config(**more)}}, interactions=interactions)


async def test_a_form_is_filled_in_and_the_defaults_with_it(asker: Place) -> None:
    asked: list[Elicitation] = []

    async def elicit(question: Elicitation) -> Answer:
        asked.append(question)
        return question.accept({**DAY, "place": "terrace"})

    async with asking_bus(asker, Interactions(elicit=elicit)) as bus:
        first = await bus.call("ask_book", {"guest": "Ann"})
        again = await bus.call("ask_book", {"guest": "Bob"})
    assert (first.text, first.is_error) == ("Ann: 2026-12-24, 2, terrace, quiet False", False)
    assert again.text == "Bob: 2026-12-24, 2, terrace, quiet False"
    assert [(one.server, one.tool, one.message) for one in asked] == [
        ("ask", "book", "When does Ann come?"),
        ("ask", "book", "When does Bob come?"),
    ]
    [date, seats, place, quiet] = asked[0].form.fields
    assert (date.kind, date.required, date.format) == ("text", True, "date")
    assert (seats.kind, seats.default, seats.least, seats.most) == ("integer", 2, 1, 8)
    assert (place.kind, list(place.choices), quiet.kind) == ("choice", ["inside", "terrace"], "yes or no")


async def test_two_questions_in_one_call(asker: Place) -> None:
    async with asking_bus(asker, Interactions(elicit=says_yes)) as bus:
        result = await bus.call("ask_twice", {"guest": "Ann"})
    assert result.text == "Ann: 2026-12-24, sure True"


async def test_two_calls_that_ask_at_once_get_their_own_answers(asker: Place) -> None:
    both = asyncio.Event()
    waiting: list[str] = []

    async def elicit(question: Elicitation) -> Answer:
        waiting.append(question.message)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return question.accept({"date": "2026-01-01" if "Ann" in question.message else "2026-02-02"})

    async with asking_bus(asker, Interactions(elicit=elicit)) as bus:
        async with asyncio.timeout(PATIENCE):
            ann, bob = await asyncio.gather(
                bus.call("ask_book", {"guest": "Ann"}), bus.call("ask_book", {"guest": "Bob"})
            )
    assert ann.text == "Ann: 2026-01-01, 2, inside, quiet False"
    assert bob.text == "Bob: 2026-02-02, 2, inside, quiet False"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_who_does_not_answer_is_a_result_of_the_tool(asker: Place, action: str) -> None:
    heard: list[Event] = []
    handler = Interactions(elicit=lambda question: getattr(question, action)())
    async with asking_bus(asker, handler) as bus:
        off = bus.on_event(heard.append)
        result = await bus.call("ask_book", {"guest": "Ann"})
        off()
        again = await bus.call("ask_book", {"guest": "Ann"})
    assert result.text == again.text == f"not booked: {action}"
    assert [(type(event), event.kind, event.tool) for event in heard if isinstance(event, InputAsked)] == [
        (InputAsked, "elicitation", "book")
    ]
    assert [event.action for event in heard if isinstance(event, InputAnswered)] == [action]


@pytest.mark.parametrize("place", sampled(PLACES, ("stdio", "modern")))
async def test_a_person_may_think_longer_than_the_call_may_take(
    place: tuple[str, str], asking_ports: dict[str, int]
) -> None:
    async def elicit(question: Elicitation) -> Answer:
        await asyncio.sleep(6)
        return says_yes(question)

    async with asking_bus(Place(*place, asking_ports, "asking.py"), Interactions(elicit=elicit)) as bus:
        result = await bus.call("ask_book", {"guest": "Ann"}, timeout=5)
    assert result.text == "Ann: 2026-12-24, 2, inside, quiet False"


async def test_nobody_answers_in_time(asker: Place) -> None:
    async def elicit(question: Elicitation) -> Answer:
        await asyncio.sleep(30)
        return question.decline()

    heard: list[Event] = []
    async with asking_bus(asker, Interactions(elicit=elicit, answer_within=0.2)) as bus:
        bus.on_event(heard.append)
        result = await bus.call("ask_book", {"guest": "Ann"})
    assert result.text == "not booked: cancel"
    assert [e.message for e in heard if isinstance(e, Warned)] == [
        "no answer within 0.2 s: When does Ann come?"
    ]


async def test_without_a_handler_nothing_is_declared_and_the_model_can_read_why(asker: Place) -> None:
    async with asking_bus(asker) as bus:
        with pytest.raises(InputNeeded) as caught:
            await bus.call("ask_book", {"guest": "Ann"})
        [tool] = [tool for tool in bus.tools() if tool.name == "ask_book"]
        result = await tool.execute(guest="Ann")
        with pytest.raises(InputNeeded) as sampling:
            await bus.call("ask_title", {"about": "tea"})
        with pytest.raises(InputNeeded) as roots:
            await bus.call("ask_folders")
    assert str(caught.value) == (
        "server 'ask': tool 'book' has to ask the user something; nobody can answer "
        "here: run it on a terminal, or pass Toolbus(..., interactions=...)"
    )
    assert (result.is_error, result.text) == (True, f"MCP error: {caught.value}")
    assert "wants a model to write something" in str(sampling.value)
    assert "which folders" in str(roots.value)


async def test_a_server_that_asks_all_the_same_is_not_answered(modern_asker: Place) -> None:
    async with asking_bus(modern_asker) as bus:
        with pytest.raises(InputNeeded, match="tool 'pay' asks the user: Pay there"):
            await bus.call("ask_pay")


async def test_an_address_is_shown_and_never_filled_in(asker: Place) -> None:
    asked: list[Elicitation] = []

    def elicit(question: Elicitation) -> Answer:
        asked.append(question)
        with pytest.raises(ValueError, match="has no form"):
            question.accept({"card": "4111"})
        return question.accept()

    async with asking_bus(asker, Interactions(elicit=elicit)) as bus:
        result = await bus.call("ask_pay")
        local = await bus.call("ask_pay", {"url": "http://localhost:8000/pay"})
    assert result.text == local.text == "payment: accept"
    assert [(one.url, one.schema) for one in asked] == [
        ("https://pay.example/1", None),
        ("http://localhost:8000/pay", None),
    ]


@pytest.mark.parametrize(
    "url", ["http://pay.example/1", "javascript:alert(1)", "file:///etc/passwd", "https//[", "ftp://x/y"]
)
async def test_an_address_that_is_not_safe_is_never_shown(either: Place, url: str) -> None:
    def elicit(question: Elicitation) -> Answer:
        raise AssertionError("nobody must see it")

    async with asking_bus(either, Interactions(elicit=elicit)) as bus:
        with pytest.raises(ServerRejected, match="neither https nor on this machine"):
            await bus.call("ask_pay", {"url": url})


async def test_a_form_that_is_none_is_never_shown(asker: Place) -> None:
    def elicit(question: Elicitation) -> Answer:
        raise AssertionError("nobody must see it")

    async with asking_bus(asker, Interactions(elicit=elicit)) as bus:
        if asker.era == "legacy":
            said = (await bus.call("ask_odd_form")).text
        else:
            with pytest.raises(ServerRejected) as caught:
                await bus.call("ask_odd_form")
            said = str(caught.value)
    assert "the form is invalid: 'all' is of type 'object', which a form does not support" in said


async def test_a_server_that_asks_without_end_is_stopped(asker: Place) -> None:
    asked: list[str] = []

    def elicit(question: Elicitation) -> Answer:
        asked.append(question.message)
        return question.accept({"yes": True})

    tool = "ask_nag" if asker.era == "modern" else "ask_nag_back"
    async with asking_bus(asker, Interactions(elicit=elicit, rounds=4)) as bus:
        with pytest.raises(ServerRejected, match="asked"):
            await bus.call(tool)
        assert len(asked) == 4
        assert (await bus.call("ask_tell", {"text": "still there"})).text == "still there"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(action="accept", content={"date": "tomorrow"}),
        Answer(action="accept", content={"date": "2026-12-24", "seats": 99}),
        Answer(action="accept", content={"date": "2026-12-24", "colour": "red"}),
        {"date": "2026-12-24"},
        ValueError("lost the form"),
    ],
)
async def test_what_a_handler_gets_wrong_is_told_and_not_sent(either: Place, answer: Any) -> None:
    def elicit(question: Elicitation) -> Answer:
        if isinstance(answer, Exception):
            raise answer
        return answer

    heard: list[Event] = []
    async with asking_bus(either, Interactions(elicit=elicit)) as bus:
        bus.on_event(heard.append)
        result = await bus.call("ask_book", {"guest": "Ann"})
    assert result.text == "not booked: cancel"
    assert len([event for event in heard if isinstance(event, Warned)]) == 1


async def test_a_model_writes_for_a_server(asker: Place) -> None:
    asked: list[Sampling] = []

    async def sample(sampling: Sampling) -> SamplingResult:
        asked.append(sampling)
        return SamplingResult(content=Text(text="Leaves"), model="small")

    async with asking_bus(asker, Interactions(sample=sample)) as bus:
        result = await bus.call("ask_title", {"about": "tea"})
    assert result.text == "Leaves (small)"
    [one] = asked
    assert (one.server, one.tool, one.max_tokens, one.system, one.temperature) == (
        "ask",
        "title",
        50,
        "Be brief.",
        0.5,
    )
    assert [(m.role, m.content) for m in one.messages] == [("user", Text(text="A title about tea?"))]


async def test_sampling_that_is_declined_fails_the_call_and_nothing_else(asker: Place) -> None:
    async with asking_bus(asker, Interactions(sample=lambda sampling: None)) as bus:
        try:
            result = await bus.call("ask_title", {"about": "tea"})
            said = result.text
        except ServerRejected as error:
            said = str(error)
        assert "sampling was declined" in said
        assert (await bus.call("ask_tell", {"text": "still there"})).text == "still there"


async def test_folders_come_from_the_handler_or_from_the_config(asker: Place, tmp_path: Path) -> None:
    async with asking_bus(asker, Interactions(roots=[tmp_path, "file:///shared"])) as bus:
        assert (await bus.call("ask_folders")).text == f"{tmp_path.as_uri()} file:///shared"
    config = {"servers": {"ask": asker.config()}, "roots": [str(tmp_path)]}
    async with Toolbus(config) as bus:
        assert (await bus.call("ask_folders")).text == tmp_path.as_uri()


async def test_a_reload_changes_the_folders_that_servers_are_told_of(asker: Place, tmp_path: Path) -> None:
    config: dict[str, Any] = {"servers": {"ask": asker.config()}, "roots": [str(tmp_path / "old")]}
    async with Toolbus(config) as bus:
        since = bus.servers["ask"].since
        await bus.reload(config | {"roots": [str(tmp_path)]})
        assert (await bus.call("ask_folders")).text == tmp_path.as_uri()
        assert bus.servers["ask"].since == since
        await bus.reload(config | {"roots": []})
        with pytest.raises(InputNeeded, match="which folders"):
            await bus.call("ask_folders")
        await bus.reload(config)
        assert (await bus.call("ask_folders")).text == (tmp_path / "old").as_uri()


async def test_a_server_of_the_legacy_era_is_notified_of_other_folders() -> None:
    entry = {"command": warm.python(), "args": [str(SERVERS / "scripted.py"), "legacy", "{}"]}
    config: dict[str, Any] = {"servers": {"a": entry}, "roots": ["one"]}
    async with Toolbus(config) as bus:
        await bus.reload(config)
        await bus.reload(config | {"roots": ["two"]})
        sent = json.loads((await bus.call("a_log")).text)
    assert sent.count("notifications/roots/list_changed") == 1


# A call that waits


async def test_a_call_is_suspended_by_a_question_and_resumed(asker: Place) -> None:
    async with asking_bus(asker) as bus:
        if asker.era == "legacy":
            with pytest.raises(InputNeeded, match="has to ask the user something"):
                await bus.call("ask_book", {"guest": "Ann"}, on_input="suspend")
            return
        result = await bus.call("ask_book", {"guest": "Ann"}, on_input="suspend")
        pending = result.pending
        assert pending is not None
        assert result.text == "server 'ask' waits for an answer: When does Ann come?"
        [(key, question)] = pending.questions.items()
        with pytest.raises(ValueError, match=f"there is no answer to '{key}'"):
            await bus.resume(pending)
        with pytest.raises(ValueError, match="'date' is required"):
            await bus.resume(pending, Answer(action="accept"))
        stored = Pending.from_json(pending.to_json())
        done = await bus.resume(stored, question.accept(DAY))
        declined = await bus.resume(pending, {key: question.decline()})
    assert done.text == "Ann: 2026-12-24, 2, inside, quiet False"
    assert declined.text == "not booked: decline"


RESUMING = """
import asyncio, json, sys
from toolbus import Pending, Toolbus

async def main():
    config, stored, values = json.loads(sys.stdin.read())
    pending = Pending.from_json(stored)
    async with Toolbus(config) as bus:
        answers = {key: asked.accept(values) for key, asked in pending.questions.items()}
        print((await bus.resume(pending, answers)).text)

asyncio.run(main())
"""


@pytest.mark.parametrize("transport", sampled(["stdio", "http"], "http"))
async def test_a_suspended_call_is_resumed_in_a_new_process(
    transport: str, asking_ports: dict[str, int]
) -> None:
    config = {"servers": {"ask": Place(transport, "modern", asking_ports, "asking.py").config()}}
    async with Toolbus(config) as bus:
        result = await bus.call("ask_book", {"guest": "Ann"}, on_input="suspend")
    assert result.pending is not None
    process = await asyncio.create_subprocess_exec(
        *(warm.python(), "-c", RESUMING),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=SERVERS.parents[1],
    )
    said, _ = await process.communicate(json.dumps([config, result.pending.to_json(), DAY]).encode())
    assert said.decode().strip() == "Ann: 2026-12-24, 2, inside, quiet False"


async def test_a_call_that_asks_twice_is_suspended_again_and_a_server_without_end_is_stopped(
    asking_ports: dict[str, int],
) -> None:
    asker = Place("http", "modern", asking_ports, "asking.py")
    async with asking_bus(asker, Interactions(rounds=3)) as bus:
        result = await bus.call("ask_nag", on_input="suspend")
        yes = Answer(action="accept", content={"yes": True})
        for _ in range(2):
            assert result.pending is not None
            result = await bus.resume(result.pending, yes)
        assert result.pending is not None
        assert result.pending.rounds == 3
        with pytest.raises(ServerRejected, match="asked more than 3 times in one call"):
            await bus.resume(result.pending, yes)


def test_what_is_no_pending_call_is_refused() -> None:
    for text in ("", "{}", "[1]", '{"toolbus": 1, "pending": {"server": "x"}}'):
        with pytest.raises(ValueError, match="not a pending call"):
            Pending.from_json(text)


# Progress and logs


async def test_progress_and_log_belong_to_their_call(asker: Place) -> None:
    heard: list[Event] = []
    logged: dict[str, list[Logged]] = {"one": [], "two": []}
    async with asking_bus(asker) as bus:
        bus.on_event(heard.append)
        for text in logged:
            steps: list[Any] = []
            result = await bus.call(
                "ask_tell",
                {"text": text},
                on_log=logged[text].append,
                on_progress=lambda done, total, message, steps=steps: steps.append((done, total, message)),
            )
            assert result.text == text
            assert steps == [(1, 2, text), (2, 2, text)]
    for text, lines in logged.items():
        assert [(line.level, line.data, line.tool) for line in lines] == [
            ("warning", f"{text} 0", "tell"),
            ("warning", f"{text} 1", "tell"),
        ]
    ids = [event.id for event in heard if isinstance(event, Logged)]
    assert ids == [event.id for event in heard if isinstance(event, Progressed)]
    assert len(set(ids)) == 2


async def test_the_log_level_is_said_per_server(asker: Place) -> None:
    heard: list[Event] = []
    for level in ("error", "off", "debug"):
        async with asking_bus(asker, log_level=level) as bus:
            bus.on_event(heard.append)
            await bus.call("ask_tell", {"text": level})
    assert {event.data for event in heard if isinstance(event, Logged)} >= {"debug 0", "debug 1"}
    assert not [e for e in heard if isinstance(e, Logged) and str(e.data).startswith("off")]
    if asker.era == "modern":  # in the legacy era the SDK's server logs what it likes
        assert not [e for e in heard if isinstance(e, Logged) and str(e.data).startswith("error")]


@pytest.mark.full
async def test_progress_gives_a_call_more_time_over_every_wire(asker: Place) -> None:
    async with asking_bus(asker) as bus:
        call = ("ask_tick", {"times": 4, "seconds": 1})
        assert (await bus.call(*call, timeout=3.5, max_timeout=60)).text == "done"


async def test_instructions_are_in_the_catalog(asker: Place) -> None:
    async with asking_bus(asker) as bus:
        assert bus.catalog.instructions == bus.instructions == {"ask": "Ask before you book."}


async def test_a_result_says_whether_it_is_pending() -> None:
    assert ToolResult().pending is None


async def test_a_log_message_survives_that_its_server_has_a_short_secret() -> None:
    server = everyday()

    @server.tool(structured_output=False)
    async def report(ctx: Context) -> str:
        """Log where it listens."""
        with warnings.catch_warnings(action="ignore"):  # deprecated, and used by servers all the same
            await ctx.info({"port": 8080, "url": "http://127.0.0.1:8080/"})  # pyright: ignore[reportDeprecated]  the same
        return "logged"

    heard: list[Event] = []
    config = {"server": server, "env": {"PIN_TOKEN": "8080"}, "log_level": "info"}
    async with Toolbus({"servers": {"day": config}}, on_event=heard.append) as bus:
        await bus.call("day_report")

    [logged] = [event for event in heard if isinstance(event, Logged)]
    assert logged.data == {"port": 8080, "url": "http://127.0.0.1:***/"}
