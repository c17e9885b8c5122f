"""Servers that ask in bad faith, or badly; and people, handlers and links that go away in the midst of it."""

import asyncio
import json
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS, Place, sampled
from tests.inside.core import NO_HANDLERS
from tests.patience import PATIENCE, until
from toolbus import (
    Answer,
    CallTimeout,
    Elicitation,
    InputNeeded,
    Interactions,
    Pending,
    ServerRejected,
    Toolbus,
    ToolbusError,
    ToolResult,
)
from toolbus.call import Next, Operation

pytestmark = pytest.mark.anyio

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
EVIL = "\x1b[31mred\u202e"


def bus_of(era: str, interactions: Interactions = NO_HANDLERS, config: Any = None, **script: Any) -> Toolbus:
    server: dict[str, Any] = {
        "command": warm.python(),
        "args": [str(SERVERS / "scripted.py"), era, json.dumps(script)],
        "era": era,
        **(config or {}),
    }
    return Toolbus({"servers": {"odd": server}}, interactions=interactions)


def asks(**params: Any) -> dict[str, Any]:
    """The answer of a modern server that asks."""
    request = {"method": "elicitation/create", "params": params}
    return {"resultType": "input_required", "inputRequests": {"q": request}, "requestState": "s"}


def task(**more: Any) -> dict[str, Any]:
    """A task, as a server describes it."""
    times = {"createdAt": "2026-11-15T10:00:00Z", "lastUpdatedAt": "2026-11-15T10:00:00Z"}
    return {"taskId": "t1", "status": "working", "ttlMs": None, "pollIntervalMs": 20, **times, **more}


STARTED = {"resultType": "task", **task()}
DONE = task(status="completed", result={"content": []})

UNSAFE = [
    "http://evil.example/",
    "javascript:alert(1)",
    "http://evil.example\\@localhost/",
    "https:evil.example",
    "https://",
    "https://google.com@evil.example/",
    "https://exa\nmple.com/",
    "https://example.com/\x1b[2J",
    "https://example.com/a b",
    "https://ex\u202eample.com/",
    "https://\u0435xample.com/",
]


@pytest.mark.parametrize("url", UNSAFE)
async def test_no_unsafe_address_is_ever_shown(url: str) -> None:
    assert Elicitation(server="odd", message="?", url=url).fault is not None


@pytest.mark.parametrize("url", ["https://example.com/pay?id=1", "http://localhost:8000/x", "http://[::1]/"])
async def test_a_safe_address_is_shown(url: str) -> None:
    assert Elicitation(server="odd", message="?", url=url).fault is None


@pytest.mark.parametrize("on_input", ["ask", "suspend"])
async def test_what_must_not_be_shown_is_not_shown_later_either(on_input: Any) -> None:
    shown: list[Elicitation] = []

    def elicit(question: Elicitation) -> Answer:
        shown.append(question)
        return question.decline()

    nested = {"type": "object", "properties": {"all": {"type": "object"}}}
    for params in (
        {"mode": "url", "message": "?", "url": UNSAFE[0]},
        {"message": "?", "requestedSchema": nested},
    ):
        async with bus_of("modern", Interactions(elicit=elicit), call=[asks(**params)]) as bus:
            with pytest.raises(ServerRejected, match=r"the URL|the form is invalid"):
                await bus.call("odd_act", on_input=on_input)
    assert shown == []
    request = {"method": "elicitation/create", "params": {"message": "?", "url": UNSAFE[1], "mode": "url"}}
    tampered = Pending(server="odd", tool="act", arguments={}, requests={"q": request})
    async with bus_of("modern") as bus:
        with pytest.raises(ValueError, match="neither https"):
            await bus.resume(tampered, Answer(action="accept"))


async def test_texts_for_people_are_clean_and_values_are_left_alone() -> None:
    schema = {
        "type": "object",
        "properties": {
            "pick": {"title": EVIL, "description": EVIL, "oneOf": [{"const": "a\u200b", "title": EVIL}]}
        },
    }
    asked = asks(message=EVIL, requestedSchema=schema)
    async with bus_of("modern", call=[asked]) as bus:
        result = await bus.call("odd_act", on_input="suspend")
    assert result.pending is not None
    [question] = result.pending.questions.values()
    [field] = question.form.fields
    shown = [result.text, str(result.pending), question.message, field.title, field.description]
    assert not [text for text in [*shown, *field.choices.values()] if "\x1b" in text or "\u202e" in text]
    assert list(field.choices) == ["a\u200b"]


ODD_FORMS: list[Any] = [
    {"type": "object", "properties": {"n": {"type": "integer", "default": 1e400}}},
    {"type": "object", "properties": {}, "required": [{}]},
    {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(20_000)}},
]
ODD_ERRORS: list[Any] = [
    {"code": -32042, "message": "visit", "data": {"elicitations": [1]}},
    {"code": -32042, "message": "visit", "data": 5},
    {"code": -32021, "message": "ask", "data": {"requiredCapabilities": 5}},
]
ODD_TASKS: list[Any] = [
    {"status": "lost"},
    {"taskId": 5},
    {"status": "failed", "error": "x"},
    {"status": "completed", "result": {"content": 5}},
    {"status": "input_required", "inputRequests": {"a": "x"}},
    {"status": "input_required", "inputRequests": {"a": {"method": "odd/method"}}},
    {"status": "input_required", "inputRequests": {"a": {"method": "elicitation/create"}}},
    {"pollIntervalMs": float("nan")},
]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_odd_errors_and_forms_are_errors_of_ours(era: str) -> None:
    handler = Interactions(elicit=lambda question: question.decline())
    for error in ODD_ERRORS:
        async with bus_of(era, handler, error=error) as bus:
            with pytest.raises(ToolbusError):
                await bus.call("odd_act")
    for schema in ODD_FORMS[:2]:
        asked = {"message": "?", "requestedSchema": schema}
        async with bus_of(
            era, handler, call=[asks(**asked)], **({"ask": asked} if era == "legacy" else {})
        ) as bus:
            if era == "modern":
                with pytest.raises(ServerRejected):
                    await bus.call("odd_act")
            else:
                assert "valid" in (await bus.call("odd_act")).text


async def test_a_huge_form_is_refused_at_once() -> None:
    question = Elicitation.asked("odd", None, "?", ODD_FORMS[2])
    assert question.fault == "the form is invalid: it has 20,000 fields, more than 200"


@pytest.mark.parametrize("on_input", ["ask", "suspend"])
async def test_odd_tasks_are_errors_of_ours(on_input: Any) -> None:
    for odd in ODD_TASKS:
        async with bus_of("modern", call=[STARTED], task=[task(**odd)]) as bus:
            with pytest.raises(ToolbusError):
                await bus.call("odd_act", timeout=5, on_input=on_input)


async def test_an_odd_block_in_the_result_of_a_task_is_kept_as_text() -> None:
    done = task(status="completed", result={"content": [{"type": "hologram", "size": 3}]})
    async with bus_of("modern", call=[STARTED], task=[done]) as bus:
        assert (await bus.call("odd_act")).text == '{"type":"hologram","size":3}'


async def test_a_task_that_nobody_wants_any_more_is_cancelled() -> None:
    asked = {"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": FORM}}}
    waiting = task(status="input_required", inputRequests=asked)
    async with bus_of("modern", call=[STARTED], task=[waiting]) as bus:
        with pytest.raises(InputNeeded):
            await bus.call("odd_act")
        assert "tasks/cancel" in (await bus.call("odd_log")).text

    def broken(done: float, total: float | None, message: str | None) -> None:
        raise RuntimeError("the bar fell")

    states = [
        task(statusMessage="one"),
        task(statusMessage="two"),
        task(status="completed", result={"content": []}),
    ]
    async with bus_of("modern", call=[{**STARTED, "statusMessage": "zero"}], task=states) as bus:
        assert (await bus.call("odd_act", on_progress=broken)).is_error is False


async def test_a_task_that_never_ends_is_given_up_in_the_time_of_a_call_and_cancelled() -> None:
    limited = {"timeouts": {"call": 1}}
    async with bus_of("modern", config=limited, call=[STARTED], task=[task()]) as bus:
        with pytest.raises(CallTimeout, match="timed out after 1 s"):
            await bus.call("odd_act")
        assert "tasks/cancel" in (await bus.call("odd_log", timeout=PATIENCE)).text


async def test_the_messages_of_a_task_extend_its_time_up_to_the_longest() -> None:
    states = [task(statusMessage=f"step {n}") for n in range(400)]
    async with bus_of("modern", call=[STARTED], task=states) as bus:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(CallTimeout):
            await bus.call("odd_act", timeout=1, max_timeout=2.5)
        assert loop.time() - began >= 2.5


async def test_a_question_of_a_task_is_asked_once_though_the_link_sleeps() -> None:
    asked: list[str] = []

    async def elicit(question: Elicitation) -> Answer:
        asked.append(question.message)
        await asyncio.sleep(1.5)
        return question.accept({"name": "Ann"})

    request = {"q": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}}}
    states = [
        task(status="input_required", inputRequests=request),
        task(status="completed", result={"content": []}),
    ]
    async with bus_of(
        "modern", Interactions(elicit=elicit), {"idle_timeout": 0.5}, call=[STARTED], task=states
    ) as bus:
        await bus.call("odd_act")
    assert asked == ["Who?"]


# In the midst of it


async def test_a_call_that_is_cancelled_takes_its_question_back(asking_ports: dict[str, int]) -> None:
    thinking: set[str] = set()

    async def elicit(question: Elicitation) -> Answer:
        thinking.add(question.message)
        try:
            await asyncio.sleep(60)
        finally:
            thinking.discard(question.message)
        return question.decline()

    for era in ("modern", "legacy"):
        for transport in ("http", "stdio"):
            asker = Place(transport, era, asking_ports, "asking.py")
            config = {"servers": {"ask": asker.config()}}
            async with Toolbus(config, interactions=Interactions(elicit=elicit)) as bus:
                calls = [asyncio.create_task(bus.call("ask_book", {"guest": str(n)})) for n in range(5)]
                await until(lambda: len(thinking) == 5)
                for call in calls:
                    call.cancel()
                await asyncio.wait(calls)
                await until(lambda: not thinking)
                # And no clock stands still because of it.
                with pytest.raises(CallTimeout):
                    await bus.call("ask_tick", {"times": 1, "seconds": 5}, timeout=0.3)


async def test_what_is_typed_after_the_call_has_ended_is_not_sent() -> None:
    ended = asyncio.Event()

    async def elicit(question: Elicitation) -> Answer:
        await ended.wait()
        await asyncio.sleep(0.1)
        return question.accept({"name": "secret"})

    asked = {"message": "?", "requestedSchema": FORM}
    async with bus_of("legacy", Interactions(elicit=elicit), ask=asked, at_once=True) as bus:
        assert (await bus.call("odd_act")).text == "done at once"
        ended.set()
        await asyncio.sleep(0.4)
        log = (await bus.call("odd_log")).text
    assert "secret" not in log
    assert '"action": "cancel"' in log


@pytest.mark.parametrize("era", sampled(["modern", "legacy"], "legacy"))
async def test_a_call_that_begins_while_someone_thinks_has_its_time_afterwards(era: str) -> None:
    thinks = asyncio.Event()

    async def elicit(question: Elicitation) -> Answer:
        thinks.set()
        await asyncio.sleep(5)
        return question.decline()

    asked = {"message": "?", "requestedSchema": FORM}
    answers: list[Any] = [asks(**asked), {"content": []}]
    script: Any = {"ask": asked} if era == "legacy" else {"call": answers}
    async with bus_of(era, Interactions(elicit=elicit), slow=4, **script) as bus:
        first = asyncio.create_task(bus.call("odd_act"))
        await thinks.wait()
        assert (await bus.call("odd_wait", timeout=3)).text == "waited"
        await first


async def test_the_bus_stops_and_the_link_is_lost_while_someone_thinks(asking_ports: dict[str, int]) -> None:
    thinks, gave_up = asyncio.Event(), asyncio.Event()

    async def elicit(question: Elicitation) -> Answer:
        thinks.set()
        try:
            await asyncio.sleep(60)
        finally:
            gave_up.set()
        return question.decline()

    for era in ("modern", "legacy"):
        for end in ("stop", "lose"):
            thinks.clear()
            gave_up.clear()
            config = {"servers": {"ask": Place("stdio", era, asking_ports, "asking.py").config()}}
            async with (
                asyncio.timeout(PATIENCE),
                Toolbus(config, interactions=Interactions(elicit=elicit)) as bus,
            ):
                call = asyncio.create_task(bus.call("ask_book", {"guest": "Ann"}))
                await thinks.wait()
                await (bus.stop() if end == "stop" else bus.remove_server("ask"))
                with pytest.raises(ToolbusError):
                    await call
                await gave_up.wait()


async def test_questions_in_a_resource_have_a_limit_too() -> None:
    asked: list[Elicitation] = []

    def elicit(question: Elicitation) -> Answer:
        asked.append(question)
        return question.accept({"name": "Ann"})

    about = {"message": "?", "requestedSchema": FORM}
    async with bus_of("legacy", Interactions(elicit=elicit, rounds=3), ask=about, times=50) as bus:
        await bus.read_resource("odd", "x://a")
    assert [question.tool for question in asked] == [None] * 3


async def test_many_short_calls_beside_a_long_one_may_all_ask() -> None:
    handler = Interactions(elicit=lambda question: question.accept({"name": "Ann"}), rounds=3)
    asked = {"message": "?", "requestedSchema": FORM}
    async with bus_of("legacy", handler, ask=asked, slow=4) as bus:
        long = asyncio.create_task(bus.call("odd_wait"))
        for _ in range(12):
            assert '"accept"' in (await bus.call("odd_act")).text
        await long


async def test_hooks_and_overrides_see_the_same_call_when_it_is_resumed(asking_ports: dict[str, int]) -> None:
    seen: list[Any] = []

    async def watch(call: Operation, following: Next) -> ToolResult:
        seen.append(dict(call.arguments))
        return await following(call)

    renamed = {"book": {"arguments": {"guest": {"name": "who"}}}}
    asker = Place("http", "modern", asking_ports, "asking.py")
    config = {"servers": {"ask": asker.config(override=renamed)}}
    async with Toolbus(config, hooks=[watch]) as bus:
        result = await bus.call("ask_book", {"who": "Ann"}, on_input="suspend")
        assert result.pending is not None
        done = await bus.resume(result.pending, Answer(action="accept", content={"date": "2026-12-24"}))
    assert done.text.startswith("Ann: 2026-12-24")
    assert seen == [{"who": "Ann"}, {"who": "Ann"}]


async def test_a_legacy_server_that_asks_undeclared_is_told_so_and_so_is_the_caller() -> None:
    asked = {"message": "Who?", "requestedSchema": FORM}
    async with bus_of("legacy", ask=asked) as bus:
        assert (
            "nobody can answer here: run it on a terminal" in (await bus.call("odd_act")).text
        )  # it goes on all the same
    async with bus_of("legacy", ask=asked, fails_unanswered=True) as bus:
        with pytest.raises(InputNeeded, match=r"tool 'act' asks the user: Who\?; nobody can answer"):
            await bus.call("odd_act")


async def test_wrong_types_are_named() -> None:
    with pytest.raises(TypeError, match="interactions must be Interactions"):
        Toolbus({"servers": {}}, interactions=print)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="elicit must be a function, not str"):
        Interactions(elicit="yes")  # pyright: ignore[reportArgumentType]
    async with bus_of("modern", call=[asks(message="?", requestedSchema=FORM)]) as bus:
        result = await bus.call("odd_act", on_input="suspend")
        assert result.pending is not None
        with pytest.raises(TypeError, match="the answer to 'q' must be an Answer"):
            await bus.resume(result.pending, {"q": {"name": "Ann"}})  # pyright: ignore[reportArgumentType]


async def test_a_word_that_means_nothing_is_refused() -> None:
    async with bus_of("modern") as bus:
        with pytest.raises(ValueError, match="on_input must be one of ask, suspend, not 'suspended'"):
            await bus.call("odd_act", on_input="suspended")  # pyright: ignore[reportArgumentType]


async def test_a_link_that_dies_of_a_subscription_leaves_nothing_behind() -> None:
    async with bus_of("legacy", dies_of=["resources/subscribe"]) as bus:
        with pytest.raises(ToolbusError):
            await bus.subscribe("odd", "x://a")
        assert (await bus.call("odd_act")).text == "done"
    left = [
        task for task in asyncio.all_tasks() if "Discovery" in repr(task) or "Subscriptions" in repr(task)
    ]
    assert left == []


async def test_the_tools_of_a_server_are_its_own(asking_ports: dict[str, int]) -> None:
    asker = Place("http", "modern", asking_ports, "asking.py")
    config = {"servers": {"a": asker.config(), "b": asker.config()}, "resource_tools": True}
    async with Toolbus(config) as bus:
        assert {tool.server for tool in bus.tools("a")} == {"a"}
        assert {"list_resources", "read_resource"} < {tool.name for tool in bus.tools()}
