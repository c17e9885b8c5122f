"""A server has a model of the user write something: with consent, within bounds, and without an error."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any, get_args

import pytest
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from tests.agent.stage import MODELS, final, provided
from tests.patience import PATIENCE
from tests.servers.asking import asking
from tests.servers.everyday import PNG, WAV
from tests.wire import Fault, Provider
from tests.wire.asked import Wire
from toolbus import Interactions, ServerRejected, Toolbus
from toolbus.agent import Agent, ModelFailed, Sampler
from toolbus.records import Audio, Image, PromptMessage, Sampling, Text
from toolbus.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio

eras = pytest.mark.parametrize("era", ["modern", "legacy"])
WIRES: tuple[Wire, ...] = get_args(Wire)
ONCE: Any = {"max_retries": 0}


def user(content: Any) -> PromptMessage:
    return PromptMessage(role="user", content=Text(text=content) if isinstance(content, str) else content)


def wanted(*contents: Any, **more: Any) -> Sampling:
    said: dict[str, Any] = {"messages": tuple(map(user, contents or ("Hi.",))), "max_tokens": 50, **more}
    return Sampling(server="asking", **said)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    with provided(["Tea for two", "Two for tea"]) as provider:
        yield provider


def bus_of(era: str, sampler: Sampler) -> Toolbus:
    servers = {"asking": {"server": asking(), "era": era}}
    return Toolbus({"servers": servers}, interactions=Interactions(sample=sampler))


@eras
async def test_a_server_gets_what_the_model_wrote(era: str, provider: Provider) -> None:
    seen: list[Sampling] = []

    async def consent(wanted: Sampling) -> bool:
        seen.append(wanted)
        return True

    async with (
        Sampler("openai-chat:gpt-5.1", consent=consent, settings=ONCE) as sampler,
        bus_of(era, sampler) as bus,
    ):
        assert (await bus.call("asking_title", {"about": "tea"})).text == "Tea for two (gpt-5.1)"
    [asked] = provider.asked
    assert (asked.system, asked.prompt, asked.tools) == ("Be brief.", "A title about tea?", {})
    assert (asked.body["temperature"], asked.body["max_completion_tokens"]) == (0.5, 50)
    assert [(one.server, one.messages) for one in seen] == [("asking", (user("A title about tea?"),))]
    assert sampler.used > 0


@eras
async def test_without_consent_the_model_is_not_asked_and_the_server_is_told(
    era: str, provider: Provider
) -> None:
    async with (
        Sampler("openai-chat:gpt-5.1", consent=lambda wanted: False) as sampler,
        bus_of(era, sampler) as bus,
    ):
        with pytest.raises(ServerRejected, match="sampling was declined"):
            await bus.call("asking_title", {"about": "tea"})
    assert (provider.asked, sampler.used) == ([], 0)


@eras
async def test_the_servers_of_an_agent_may_ask_another_model(era: str, provider: Provider) -> None:
    model = ScriptedModel([ToolCall("asking_title", {"about": "tea"}), lambda results: results[-1]])
    async with (
        Sampler("openai-chat:gpt-5.1", consent="always", settings=ONCE) as sampler,
        Agent(
            model,
            mcp_servers={"asking": {"server": asking(), "era": era}},
            interactions=Interactions(sample=sampler),
        ) as agent,
    ):
        assert await final(agent.send("Go.")) == "Tea for two (gpt-5.1)"
    assert len(provider.asked) == 1


async def test_interactions_of_an_agent_without_servers_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="pass them to your bus"):
        Agent(ScriptedModel([]), interactions=Interactions(roots=["."]))


@eras
@pytest.mark.parametrize(
    ("fault", "about"),
    [(Fault(401, "wrong key sk-abc123"), "HTTP 401"), (Fault(breaks=True), "ModelAPIError")],
    ids=["401", "broken"],
)
async def test_a_provider_that_fails_is_a_no_without_what_it_said(
    era: str, fault: Fault, about: str, log: pytest.LogCaptureFixture
) -> None:
    with provided([fault]):
        async with (
            Sampler("openai-chat:gpt-5.1", consent="always", settings=ONCE) as sampler,
            bus_of(era, sampler) as bus,
        ):
            with pytest.raises(ServerRejected, match="sampling was declined"):
                await bus.call("asking_title", {"about": "tea"})
    ours = [record.getMessage() for record in log.records if record.name == "toolbus"]
    [line] = [line for line in ours if "declined" in line]
    assert line.startswith("server 'asking': sampling was declined: model 'gpt-5.1' failed: ")
    assert not any("sk-abc123" in line for line in ours)


@pytest.mark.parametrize("wire", WIRES)
async def test_every_provider_gets_the_pictures_and_answers(wire: Wire) -> None:
    with provided(["A dot."]) as provider:
        async with Sampler(MODELS[wire], consent="always", settings=ONCE) as sampler:
            said = await sampler(wanted("What is this?", Image(data=PNG, mime_type="image/png")))
    assert said is not None
    assert (said.content, said.stop_reason) == (Text(text="A dot."), "endTurn")
    assert (provider.asked[0].images, provider.asked[0].prompt) == ((PNG,), "What is this?")


async def test_sound_goes_to_a_model_that_hears() -> None:
    with provided(["A bell."]) as provider:
        async with Sampler("openai-chat:gpt-audio", consent="always", settings=ONCE) as sampler:
            said = await sampler(wanted(Audio(data=WAV, mime_type="audio/wav")))
    assert said is not None
    assert "input_audio" in str(provider.asked[0].body["messages"])


async def test_a_talk_keeps_its_sides() -> None:
    model = ScriptedModel(["Yes."])
    said = (user("Tea?"), PromptMessage(role="assistant", content=Text(text="Green?")), user("Black."))
    assert await Sampler(model, consent="always")(wanted(messages=said, system="Be brief.")) is not None
    [messages] = model.requests
    assert [type(message) for message in messages] == [ModelRequest, ModelResponse, ModelRequest]
    assert isinstance(messages[-1], ModelRequest)
    assert messages[-1].instructions == "Be brief."


async def test_a_person_and_the_model_see_the_same() -> None:
    model, seen = ScriptedModel(["Yes."]), list[Sampling]()
    sampler = Sampler(model, consent=lambda wanted: seen.append(wanted) is None)
    await sampler(wanted("Te\u200ba?", system="Be\u202e brief."))
    assert (seen[0].messages, seen[0].system) == ((user("Tea?"),), "Be brief.")
    assert "Tea?" in str(model.requests)
    assert "\\u200b" not in str(model.requests)


@pytest.mark.parametrize(("asked", "most", "given"), [(50, 1_000, 50), (9_000, 1_000, 1_000), (50, 20, 20)])
async def test_the_answer_is_no_longer_than_both_allow(asked: int, most: int, given: int) -> None:
    with provided(["Yes."]) as provider:
        async with Sampler(
            "openai-chat:gpt-5.1", consent="always", max_tokens=most, settings=ONCE
        ) as sampler:
            await sampler(wanted(max_tokens=asked))
    assert provider.asked[0].body["max_completion_tokens"] == given


async def test_when_the_budget_is_used_up_nobody_is_asked_any_more(log: pytest.LogCaptureFixture) -> None:
    asked: list[Sampling] = []
    model = ScriptedModel(["word " * 40] * 9)
    sampler = Sampler(model, consent=lambda wanted: asked.append(wanted) is None, budget=200)
    answers = [await sampler(wanted(max_tokens=60)) for _ in range(9)]
    given = [answer is not None for answer in answers]
    assert given == sorted(given, reverse=True)
    assert 0 < sum(given) < 9
    assert len(asked) == sum(given) == len(model.requests)
    assert f"{sampler.used:,} of 200 tokens are used" in log.text


async def test_a_question_that_is_longer_than_the_budget_is_not_sent(log: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel([])
    assert await Sampler(model, consent="always", budget=500)(wanted("tea " * 5_000)) is None
    assert model.requests == []
    assert "it exceeds the remaining budget: 0 of 500 tokens are used" in log.text


async def test_requests_at_the_same_time_share_one_budget() -> None:
    began, go = asyncio.Semaphore(0), asyncio.Event()

    async def slow(messages: Any, info: Any) -> ModelResponse:
        began.release()
        await go.wait()
        return ModelResponse([])

    sampler = Sampler(FunctionModel(slow), consent="always", max_tokens=100, budget=250)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        tasks = [group.create_task(sampler(wanted(max_tokens=100))) for _ in range(5)]
        for _ in range(3):
            await began.acquire()  # the third has what the first two left
        await asyncio.wait(tasks, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        go.set()
    assert began.locked()


def raising(wanted: Sampling) -> bool:
    raise OSError("nobody at home")


UNCLEAR: dict[str, Any] = {"raises": raising, "text": str, "nothing": dict[Any, Any]().get}


@pytest.mark.parametrize("consent", UNCLEAR.values(), ids=UNCLEAR)
async def test_only_true_is_consent(consent: Any) -> None:
    model = ScriptedModel([])
    assert await Sampler(model, consent=consent)(wanted()) is None
    assert model.requests == []


async def test_what_is_no_question_and_what_is_no_answer_are_declined(log: pytest.LogCaptureFixture) -> None:
    sampler = Sampler(ScriptedModel([""]), consent="always")
    assert await sampler(wanted(messages=())) is None
    assert (
        await sampler(wanted(messages=(PromptMessage(role="assistant", content=Text(text="Tea")),))) is None
    )
    assert await sampler(wanted(max_tokens=0)) is None
    assert await sampler(wanted()) is None
    assert "there is no user message to answer" in log.text
    assert "model 'scripted' returned no content" in log.text


async def test_who_waits_in_vain_is_let_go() -> None:
    async def silent(messages: Any, info: Any) -> ModelResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    sampler = Sampler(FunctionModel(silent), consent="always")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await sampler(wanted())
    assert sampler.used > 0, "it may have cost something"


async def test_a_sampler_that_could_never_work_is_refused_at_once() -> None:
    model = ScriptedModel([])
    for wrong in (
        {"consent": "never"},
        {"consent": "always", "budget": 0},
        {"consent": "always", "max_tokens": 0},
    ):
        with pytest.raises(ValueError, match=r"consent|budget|max_tokens"):
            Sampler(model, **wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="consent"):
        Sampler(model)  # type: ignore[call-arg]
    with pytest.raises(ModelFailed):
        Sampler("no-such:model", consent="always")


@pytest.mark.parametrize(
    ("why", "told"), [("length", "maxTokens"), ("content_filter", "content_filter"), (None, None)]
)
async def test_the_server_is_told_why_the_text_ends(why: Any, told: str | None) -> None:
    model = FunctionModel(lambda messages, info: ModelResponse([TextPart("Tea")], finish_reason=why))
    said = await Sampler(model, consent="always")(wanted())
    assert said is not None
    assert said.stop_reason == told
