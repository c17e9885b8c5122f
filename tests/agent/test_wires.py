"""The agent on every wire format, streamed, through the providers' own packages."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, get_args

import pytest
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel

from tests.agent.stage import Hanging, final, heard, talking, told
from tests.conftest import sampled
from tests.servers.everyday import PNG, everyday
from tests.wire import Asked, Fault, Say, ToolCall
from tests.wire.asked import Wire
from toolbus.agent import Agent, LimitReached, Limits, ModelFailed, Run, TextDelta, ToolCalled, ToolReturned
from toolbus.records import Image

pytestmark = pytest.mark.anyio

WIRES: tuple[Wire, ...] = get_args(Wire)
STREAMED = ("chat", "responses", "anthropic")
"""The wires on which arguments come as text, in pieces; Google sends an object."""
DONE = ["user: Go.", 'call: double {"number":4}', "result: 8"]


def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


def desk() -> dict[str, Any]:
    """A config with the everyday server as `desk`."""
    return {"desk": {"server": everyday()}}


@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_goes_on_over_several_sends(wire: Wire) -> None:
    script = [
        Say("Let me see.", [ToolCall("double", {"number": 4})]),
        "It is 8.",
        [ToolCall("desk_add", {"a": 8, "b": 1})],
        "Nine.",
    ]
    async with talking(wire, script, tools=[double], mcp_servers=desk(), instructions="Count.") as (
        agent,
        model,
    ):
        run = agent.send("Twice four?")
        events = await heard(run)
        assert (
            "".join(event.text for event in events if isinstance(event, TextDelta)) == "Let me see.It is 8."
        )
        calls = [event for event in events if isinstance(event, ToolCalled)]
        assert [(call.name, call.arguments, call.server) for call in calls] == [
            ("double", {"number": 4}, None)
        ]
        assert await final(agent.send("And one?")) == "Nine."
    assert all(asked.streamed and asked.wire == wire for asked in model.asked)
    assert [asked.prompt for asked in model.asked] == ["Twice four?"] * 2 + ["And one?"] * 2
    assert all("Count." in asked.system and "Be kind." in asked.system for asked in model.asked)
    first, second = model.asked[3].given
    assert (first.name, second.name, "8" in first.text, "9" in second.text) == (
        "double",
        "desk_add",
        True,
        True,
    )
    assert set(model.asked[0].tools) > {"double", "desk_add", "desk_echo"}


OPTIONS: dict[str, Any] = {
    "openai": {"function": {"strict": True}},
    "anthropic": {"cache_control": {"type": "ephemeral"}},
    "google": {"behavior": "BLOCKING", "grounding": False},
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("wrapped", [False, True])
async def test_options_of_a_tool_reach_the_request(wire: Wire, wrapped: bool) -> None:
    servers = {"desk": {"server": everyday(), "override": {"add": {"options": OPTIONS}}}}
    async with talking(wire, ["Done.", "Done."], mcp_servers=servers) as (agent, model):
        if wrapped:
            inner = FallbackModel(WrapperModel(agent.model))
            async with Agent(inner, mcp_servers=servers) as other:
                assert await final(other.send("Go.")) == "Done."
        else:
            assert await final(agent.send("Go.")) == "Done."
    form = model.asked[0].tools["desk_add"]
    form = form.get("function", form)
    expected = {
        "chat": {"strict": True},
        "responses": {"strict": True},
        "anthropic": {"cache_control": {"type": "ephemeral"}},
        "google": {"behavior": "BLOCKING"},
    }[wire]
    head = {"type", "name", "description", "parameters", "input_schema", "parameters_json_schema"}
    assert {key: value for key, value in form.items() if key not in head} == expected
    others = [tool for name, tool in model.asked[0].tools.items() if name != "desk_add"]
    assert all("cache_control" not in tool and "behavior" not in tool for tool in others)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_calls_of_one_turn_overlap(wire: Wire) -> None:
    calls = [
        ToolCall("desk_meet", {"mine": "a", "other": "b"}),
        ToolCall("desk_meet", {"mine": "b", "other": "a"}),
    ]
    async with talking(wire, [calls, "Met."], mcp_servers=desk()) as (agent, model):
        assert await final(agent.send("Go.")) == "Met."
    first, second = model.asked[1].new
    assert "a met b" in first.text
    assert "b met a" in second.text


@pytest.mark.parametrize("wire", WIRES)
async def test_what_fails_is_told_to_the_model(wire: Wire) -> None:
    def broken() -> str:
        raise OSError("no ink")

    calls = [ToolCall("desk_fail", {"reason": "dry"}), ToolCall("broken"), ToolCall("nowhere")]
    async with talking(wire, [calls, "Sorry."], tools=[broken], mcp_servers=desk()) as (agent, model):
        events = await heard(agent.send("Go."))
    returned = [event for event in events if isinstance(event, ToolReturned)]
    assert all(event.is_error for event in returned)
    texts = {given.name: given.text for given in model.asked[1].new}
    assert "Error executing tool fail: dry" in texts["desk_fail"]
    assert "OSError: no ink" in texts["broken"]
    assert "Unknown tool name: 'nowhere'" in texts["nowhere"]
    assert {given.is_error for given in model.asked[1].new} <= {True, None}


@pytest.mark.parametrize("wire", WIRES)
async def test_the_model_sees_pictures(wire: Wire) -> None:
    async with talking(wire, [[ToolCall("desk_many")], "Seen."], mcp_servers=desk()) as (agent, model):
        events = await heard(agent.send("Look."))
    [returned] = [event for event in events if isinstance(event, ToolReturned)]
    assert (returned.server, returned.images) == ("desk", (Image(data=PNG, mime_type="image/png"),))
    assert returned.structured == {"n": 7}
    assert PNG in (*model.asked[1].new[0].images, *model.asked[1].images)


@pytest.mark.parametrize("wire", STREAMED)
@pytest.mark.parametrize("name", ["double", "desk_add"])
async def test_arguments_that_are_no_json_are_told_to_the_model(wire: Wire, name: str) -> None:
    script = [[ToolCall(name, '{"a": 1, "b')], "I will stop.", "Hello again."]
    async with talking(wire, script, tools=[double], mcp_servers=desk()) as (agent, model):
        run = agent.send("Go.")
        assert await final(run) == "I will stop."
        assert run.result is not None
        assert [(call.name, call.is_error) for call in run.result.calls] == [(name, True)]
        assert "JSON" in model.asked[1].new[0].text
        assert await final(agent.send("Still there?")) == "Hello again."


FAULTS = {
    "429": (Fault(429, "slow down"), 429),
    "500": (Fault(500, "sorry"), 500),
    "broken": (Fault(breaks=True, text="Half a"), None),
}
FAILURES = [(wire, name) for name in FAULTS for wire in WIRES]
# Each wire breaks in its own way; a status is one on every wire.
SOME_FAILURES = [(wire, "broken") for wire in WIRES] + [("chat", "429"), ("anthropic", "500")]


@pytest.mark.parametrize("failure", sampled(FAILURES, *SOME_FAILURES), ids="-".join)
async def test_a_failure_in_mid_run_keeps_what_was_done(failure: tuple[Wire, str]) -> None:
    wire, (fault, status) = failure[0], FAULTS[failure[1]]
    script = [[ToolCall("double", {"number": 4})], fault, "It is 8.", "Bye."]
    async with talking(wire, script, tools=[double]) as (agent, model):
        run = agent.send("Go.")
        with pytest.raises(ModelFailed) as caught:
            await final(run)
        assert (caught.value.status, run.result) == (status, None)
        assert (fault.message in str(caught.value)) is (status is not None)
        assert told(agent.history) == DONE
        assert await final(agent.send()) == "It is 8."
        assert await final(agent.send("Thanks.")) == "Bye."
        assert told(agent.history) == [*DONE, "model: It is 8.", "user: Thanks.", "model: Bye."]
    assert ["8" in given.text for given in model.asked[2].given] == [True]


@pytest.mark.parametrize(
    "failure",
    sampled([case for case in FAILURES if case[1] != "429"], *SOME_FAILURES[:4], SOME_FAILURES[5]),
    ids="-".join,
)
async def test_a_failure_before_any_answer_leaves_the_conversation_as_it_was(
    failure: tuple[Wire, str],
) -> None:
    wire, (fault, _) = failure[0], FAULTS[failure[1]]
    async with talking(wire, ["Hello.", fault, "Read."]) as (agent, model):
        await final(agent.send("Hi."))
        agent.add_file(b"buy tea", name="list.txt")
        with pytest.raises(ModelFailed):
            await final(agent.send("Read."))
        assert told(agent.history) == ["user: Hi.", "model: Hello."]
        assert await final(agent.send("Read.")) == "Read."
    assert "buy tea" in str(model.asked[2].body)


async def stopped_by_the_run(agent: Agent, run: Run[str]) -> None:
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run.final


async def stopped_by_whoever_waits(agent: Agent, run: Run[str]) -> None:
    waiting = asyncio.create_task(heard(run))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(asyncio.CancelledError):
        await run.final


async def stopped_with_the_agent(agent: Agent, run: Run[str]) -> None:
    await agent.close()
    with pytest.raises(asyncio.CancelledError):
        await run.final


Stop = Callable[[Agent, Run[str]], Awaitable[None]]


STOPS: list[tuple[Wire, Stop]] = [
    *((wire, stopped_by_the_run) for wire in WIRES),
    ("chat", stopped_by_whoever_waits),
    ("chat", stopped_with_the_agent),
]


@pytest.mark.parametrize(("wire", "stop"), STOPS)
async def test_a_run_can_be_stopped_while_the_model_is_silent(wire: Wire, stop: Stop) -> None:
    silent = Hanging.here()
    async with talking(wire, silent) as (agent, _):
        run = agent.send("Hello?")
        await silent.asked.wait()
        await stop(agent, run)
        assert (run.result, agent.history) == (None, [])


@pytest.mark.parametrize("wire", WIRES)
async def test_silence_ends_at_the_limit_and_the_agent_goes_on(wire: Wire) -> None:
    def script(asked: Asked) -> Fault | str:
        return Fault(hangs=True) if asked.prompt == "Hello?" else "Here."

    async with talking(wire, script) as (agent, _):
        with pytest.raises(LimitReached) as caught:
            await final(agent.send("Hello?", limits=Limits(seconds=0.3)))
        assert (caught.value.limit, caught.value.allowed) == ("seconds", 0.3)
        assert await final(agent.send("And now?")) == "Here."
