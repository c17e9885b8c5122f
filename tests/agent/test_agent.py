"""An agent and its tools, on a scripted model."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelRequest

from tests.agent.stage import changes, final, heard, provided, scripted, talking, told
from tests.patience import PATIENCE
from tests.servers.everyday import PNG, everyday
from tests.wire import Say
from tests.wire import ToolCall as WireCall
from toolbus import BusClosed, Toolbus
from toolbus.agent import (
    Agent,
    Limits,
    ModelFailed,
    NameClash,
    TextDelta,
    ToolCalled,
    ToolReturned,
    generate,
    stream,
)
from toolbus.errors import ConfigError, ServerNotFound
from toolbus.records import Image, Text, ToolResult
from toolbus.sync import SyncToolbus
from toolbus.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio


def desk(alias: str = "desk") -> dict[str, Any]:
    """A config with the everyday server."""
    return {alias: {"server": everyday()}}


class Sum(BaseModel):
    """A sum."""

    total: int


async def test_functions_are_tools_whether_plain_or_async() -> None:
    threads: list[int] = []

    def plain(word: str, times: int = 2) -> str:
        """Repeat a word.

        Args:
            word: What to repeat.
            times: How often.
        """
        threads.append(threading.get_ident())
        return word * times

    async def waiting(word: str) -> dict[str, str]:
        """Turn a word."""
        return {"turned": word[::-1]}

    calls = [ToolCall("plain", {"word": "ab"}), ToolCall("waiting", {"word": "ab"})]
    agent = Agent(ScriptedModel([calls, "Done."]), tools=[plain, waiting])
    run = agent.send("Go.")
    events = await heard(run)
    texts = {event.name: event.text for event in events if isinstance(event, ToolReturned)}
    assert texts == {"plain": "abab", "waiting": '{"turned":"ba"}'}
    assert threads != [threading.get_ident()], "a plain function may block, so it has a thread"
    assert scripted(agent).offered == [["plain", "waiting"]] * 2
    assert run.result is not None
    assert (run.result.output, run.result.text, run.result.usage.requests) == ("Done.", "Done.", 2)
    assert told(run.result.messages) == told(agent.history)


async def test_a_function_is_described_by_its_docstring() -> None:
    def weigh(thing: str) -> float:
        """Weigh a thing.

        Args:
            thing: Its name.
        """
        return len(thing)

    async with talking("chat", ["Hm."], tools=[weigh]) as (agent, model):
        await final(agent.send("Go."))
    tool = model.asked[0].tools["weigh"]["function"]
    assert tool["description"] == "Weigh a thing."
    assert tool["parameters"]["properties"]["thing"]["description"] == "Its name."


async def test_a_function_that_raises_is_told_to_the_model_however_often() -> None:
    def broken() -> str:
        """Never works."""
        raise LookupError("nothing there")

    script = [*[ToolCall("broken")] * 4, "I give up."]
    run = Agent(ScriptedModel(script), tools=[broken]).send("Go.")
    assert await final(run) == "I give up."
    assert run.result is not None
    said = [(call.text, call.is_error) for call in run.result.calls]
    assert said == [("LookupError: nothing there", True)] * 4


async def test_wrong_names_and_arguments_are_told_to_the_model_however_often() -> None:
    def double(number: int) -> int:
        return 2 * number

    wrong = [ToolCall("dubble"), ToolCall("double", {"number": "four"}), ToolCall("double", "{")]
    run = Agent(ScriptedModel([*wrong, *wrong, "I give up."]), tools=[double]).send("Go.")
    assert await final(run) == "I give up."
    assert run.result is not None
    assert [call.is_error for call in run.result.calls] == [True] * 6
    assert run.result.calls[0].text == "Unknown tool name: 'dubble'. Available tools: 'double'"


class Scales:
    """A tool as other programs have them: nothing of ours, and nothing to inherit."""

    name = "weigh"
    description = "Weigh a thing."
    parameters: dict[str, Any] = {  # noqa: RUF012  plain attributes, as protocols ask for them
        "type": "object",
        "properties": {"self": {"type": "string"}, "unit": {"type": "string"}},
        "required": ["self"],
    }

    async def execute(self, /, **arguments: str) -> ToolResult:
        """Weigh it, in grams."""
        if arguments.get("unit", "g") != "g":
            return ToolResult.failure("only grams")
        return ToolResult(content=(Text(text=f"{len(arguments['self'])} g"),), structured={"grams": 3})


async def test_an_object_that_is_shaped_as_a_tool_is_one() -> None:
    calls = [ToolCall("weigh", {"self": "tea"}), ToolCall("weigh", {"self": "tea", "unit": "oz"})]
    broken = [ToolCall("weigh", "[1]"), ToolCall("weigh", {"unit": "g"})]
    agent = Agent(ScriptedModel([*calls, *broken, "Done."]), tools=[Scales()])
    events = await heard(agent.send("Go."))
    returned = [event for event in events if isinstance(event, ToolReturned)]
    assert [(event.text, event.is_error, event.structured) for event in returned[:2]] == [
        ("3 g", False, {"grams": 3}),
        ("MCP error: only grams", True, None),
    ]
    assert [event.is_error for event in returned[2:]] == [True, True]


async def test_an_object_that_is_shaped_as_a_tool_is_declared_as_it_says() -> None:
    async with talking("chat", ["Hm."], tools=[Scales()]) as (agent, model):
        await final(agent.send("Go."))
    function = model.asked[0].tools["weigh"]["function"]
    assert (function["description"], function["parameters"]) == (Scales.description, Scales.parameters)


async def test_a_tool_of_another_program_may_have_a_result_of_its_own() -> None:
    @dataclass
    class Outcome:
        content: str
        is_error: bool = False

    class Port(Scales):
        def __init__(self, outcome: Outcome) -> None:
            self.outcome = outcome

        async def execute(self, /, **arguments: str) -> Any:
            return self.outcome

    for outcome in (Outcome("fine"), Outcome("MCP error: away", is_error=True)):
        run = Agent(ScriptedModel([ToolCall("weigh"), "Done."]), tools=[Port(outcome)]).send("Go.")
        assert await final(run) == "Done."
        assert run.result is not None
        [call] = run.result.calls
        assert (call.text, call.is_error) == (outcome.content, outcome.is_error)


async def test_a_function_may_return_a_result() -> None:
    def look(at: str) -> ToolResult:
        """Look at a thing."""
        if at == "sun":
            return ToolResult.failure("too bright")
        return ToolResult(content=(Text(text="a cat"), Image(data=PNG, mime_type="image/png")))

    calls = [ToolCall("look", {"at": "cat"}), ToolCall("look", {"at": "sun"})]
    events = await heard(Agent(ScriptedModel([*calls, "Done."]), tools=[look]).send("Go."))
    returned = [event for event in events if isinstance(event, ToolReturned)]
    assert [(event.text, event.is_error) for event in returned] == [
        ("a cat", False),
        ("MCP error: too bright", True),
    ]
    assert returned[0].images == (Image(data=PNG, mime_type="image/png"),)


async def test_what_is_no_tool_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="not a dict") as caught:
        Agent(ScriptedModel([]), tools=[{"name": "weigh"}])  # pyright: ignore[reportArgumentType]  the point
    assert "name, description, parameters and execute" in str(caught.value)


async def test_tools_of_a_bus_without_a_loop_are_tools() -> None:
    with SyncToolbus({"servers": desk()}) as bus:
        run = Agent(ScriptedModel([ToolCall("desk_add", {"a": 1, "b": 2}), "3."]), tools=bus.tools()).send(
            "Go."
        )
        assert await final(run) == "3."
    assert run.result is not None
    assert [(call.text, call.server) for call in run.result.calls] == [("3", "desk")]


def test_two_functions_of_one_name_are_an_error_at_once() -> None:
    def look() -> str:
        return "one"

    def other() -> str:
        return "two"

    other.__name__ = "look"
    with pytest.raises(NameClash) as caught:
        Agent(ScriptedModel([]), tools=[look, other])
    assert caught.value.name == "look"
    assert "<locals>.look and the function" in str(caught.value)
    assert "<locals>.other" in str(caught.value)


async def test_a_function_and_a_chosen_tool_of_one_name_are_an_error_at_once() -> None:
    def desk_add() -> str:
        return "mine"

    async with Toolbus({"servers": desk()}) as bus:
        with pytest.raises(NameClash) as caught:
            Agent(ScriptedModel([]), tools=[desk_add, *bus.tools()])
    assert "desk_add and 'add' of server 'desk'" in str(caught.value)


async def test_a_function_and_a_tool_of_a_server_of_one_name_are_an_error_when_the_run_begins() -> None:
    def desk_add() -> str:
        return "mine"

    async with Agent(ScriptedModel(["Never."]), tools=[desk_add], mcp_servers=desk()) as agent:
        run = agent.send("Go.")
        with pytest.raises(NameClash) as caught:
            await final(run)
        assert "the function" in str(caught.value)
        assert "'add' of server 'desk'" in str(caught.value)
        assert agent.history == []


async def test_a_newcomer_of_a_name_that_is_taken_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def desk_late() -> str:
        """Was here first."""
        return "mine"

    script = [ToolCall("desk_grow", {"name": "late"}), ToolCall("changed"), ToolCall("desk_late"), "Done."]
    async with Toolbus({"servers": desk()}) as bus:
        with changes(bus) as changed:
            run = Agent(ScriptedModel(script), tools=[desk_late, changed, bus]).send("Go.")
            assert await final(run) == "Done."
        assert "desk_late" in bus.catalog
    assert run.result is not None
    assert [call.text for call in run.result.calls] == ["grew late", "changed", "mine"]
    assert "two tools are named 'desk_late'" in caplog.text


async def test_the_instructions_of_servers_are_in_the_system_prompt_and_stay_the_same() -> None:
    async with Agent(ScriptedModel(["One.", "Two."]), mcp_servers=desk(), instructions="Be brief.") as agent:
        await final(agent.send("Go."))
        await final(agent.send("On."))
    system = [instructions(agent, turn) for turn in range(2)]
    assert system == ["Be brief.\n\nHow to use the tools of 'desk':\nBe kind."] * 2


async def test_the_instructions_of_servers_can_be_left_out() -> None:
    async with Agent(ScriptedModel(["One."]), mcp_servers=desk(), server_instructions=False) as agent:
        await final(agent.send("Go."))
    assert instructions(agent, 0) is None


async def test_a_server_whose_tools_were_not_given_does_not_instruct() -> None:
    async with Toolbus({"servers": desk("one") | desk("two")}) as bus:
        agent = Agent(ScriptedModel(["Done."]), tools=bus.tools("two"))
        await final(agent.send("Go."))
    assert instructions(agent, 0) == "How to use the tools of 'two':\nBe kind."


def instructions(agent: Agent, turn: int) -> str | None:
    """The system prompt of a turn."""
    last = scripted(agent).requests[turn][-1]
    assert isinstance(last, ModelRequest)
    return last.instructions


async def test_sends_of_one_agent_follow_each_other() -> None:
    first_may_end = asyncio.Event()

    async def wait() -> str:
        await first_may_end.wait()
        return "waited"

    agent = Agent(ScriptedModel([ToolCall("wait"), "One.", "Two."]), tools=[wait])
    first, second = agent.send("First."), agent.send("Second.")
    async with asyncio.timeout(PATIENCE):
        async for event in first:
            if isinstance(event, ToolCalled):
                break
    assert len(scripted(agent).requests) == 1
    first_may_end.set()
    assert [await final(first), await final(second)] == ["One.", "Two."]
    assert told(agent.history) == [
        *["user: First.", "call: wait {}", "result: waited", "model: One."],
        *["user: Second.", "model: Two."],
    ]


async def test_a_send_that_waits_can_be_cancelled_alone() -> None:
    may_end = asyncio.Event()

    async def wait() -> str:
        await may_end.wait()
        return "waited"

    agent = Agent(ScriptedModel([ToolCall("wait"), "One.", "Three."]), tools=[wait])
    first, second, third = (agent.send(word) for word in ("1", "2", "3"))
    second.cancel()
    may_end.set()
    assert [await final(first), await final(third)] == ["One.", "Three."]
    with pytest.raises(asyncio.CancelledError):
        await second.final


async def test_an_answer_can_be_an_object() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    script = [ToolCall("add", {"a": 1, "b": 2}), ToolCall("final_result", {"total": 3}), "Bye."]
    agent = Agent(ScriptedModel(script), tools=[add])
    run = agent.send("Add.", output=Sum)
    events = await heard(run)
    assert [event.name for event in events if isinstance(event, ToolCalled)] == ["add"]
    assert await final(run) == Sum(total=3)
    assert await final(agent.send("Thanks.")) == "Bye."


async def test_an_object_that_is_none_is_asked_for_again_and_then_given_up() -> None:
    wrong, right = ToolCall("final_result", {"total": "three"}), ToolCall("final_result", {"total": 3})
    assert await generate(ScriptedModel([wrong, "Three.", right]), "Add.", output=Sum) == Sum(total=3)
    with pytest.raises(ModelFailed, match="retries"):
        await generate(ScriptedModel([wrong] * 5), "Add.", output=Sum)


async def test_what_is_said_before_and_after_a_call_is_parted_in_a_stream() -> None:
    def look() -> str:
        return "seen"

    with provided([Say("Let me see.", [WireCall("look")]), "Seen."]):
        pieces = [piece async for piece in stream("openai-chat:gpt-5.1", "Go.", tools=[look])]
    assert "".join(pieces) == "Let me see.\n\nSeen."


async def test_events_can_be_gone_through_twice_and_late() -> None:
    agent = Agent(ScriptedModel(["One two."]))
    run = agent.send("Go.")
    assert await final(run) == "One two."
    assert await heard(run) == [TextDelta(text="One"), TextDelta(text=" two.")]
    assert await heard(run) == []


async def test_a_closed_agent_says_so() -> None:
    agent = Agent(ScriptedModel(["One."]))
    await agent.close()
    await agent.close()
    with pytest.raises(BusClosed, match="the agent is closed"):
        agent.send("Go.")


async def test_nothing_to_send_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing to send"):
        Agent(ScriptedModel(["One."])).send()


async def test_servers_may_be_given_as_a_config_is_written() -> None:
    for config in (desk(), {"servers": desk()}, {"mcpServers": desk()}):
        async with Agent(ScriptedModel(["One."]), mcp_servers=config) as agent:
            await final(agent.send("Go."))
            assert "desk_add" in scripted(agent).offered[0]
    with pytest.raises(ConfigError):
        Agent(ScriptedModel([]), mcp_servers={"servers": {"desk": {"command": 3}}})


async def test_a_server_that_is_not_there_is_named() -> None:
    async with Agent(ScriptedModel([]), mcp_servers=desk()) as agent:
        with pytest.raises(ServerNotFound, match="did you mean 'desk'"):
            await agent.add_resource("disk", "memo://greeting")


async def test_limits_of_a_send_are_its_own() -> None:
    def again() -> str:
        return "again"

    agent = Agent(ScriptedModel([ToolCall("again"), "Done."]), tools=[again], limits=Limits(turns=1))
    assert await final(agent.send("Go.", limits=Limits(turns=2))) == "Done."


async def test_one_script_serves_two_agents_at_once() -> None:
    met = asyncio.Barrier(2)

    async def meet(who: str) -> str:
        await met.wait()
        return who

    model = ScriptedModel(
        [
            ToolCall("meet", {"who": "first"}),
            lambda results: results[-1],
            lambda results: f"again {results[-1]}",
        ]
    )
    agents = [Agent(model, tools=[meet]) for _ in range(2)]
    async with asyncio.timeout(PATIENCE):
        assert await asyncio.gather(*(agent.send("Go.").final for agent in agents)) == ["first", "first"]
        assert [await agent.send("Go on.").final for agent in agents] == ["again first", "again first"]
    assert len(model.requests) == 6
    with pytest.raises(AssertionError, match="the script has 3 turns"):
        await final(agents[0].send("And now?"))


async def test_runs_of_pydantic_ai_have_their_own_places_in_a_script() -> None:
    model = ScriptedModel(["One.", "Two."])
    said = [await PydanticAgent(model).run(prompt) for prompt in ("A", "B")]
    assert [one.output for one in said] == ["One.", "One."]
    assert (await PydanticAgent(model).run("C", message_history=said[0].all_messages())).output == "Two."
