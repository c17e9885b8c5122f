"""The adapter for smolagents, with an agent that writes code."""

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from smolagents import CodeAgent, LogLevel, OpenAIModel  # pyright: ignore[reportMissingTypeStubs]  it has none

from tests.adapters.contract import Contract, Harness, Point, Stage
from tests.adapters.speech import Coded, SpokenHarness, SpokenStage, spoken
from tests.adapters.test_smolagents import Said, ran
from tests.wire import Provider
from toolbus import Toolbus
from toolbus.adapters.smolagents import ToolFailed, live, messages, tools
from toolbus.records import PromptResult


def coder(toolbox: list[Any] | None = None) -> Any:
    """An agent that prints nothing."""
    return CodeAgent(toolbox or [], OpenAIModel("gpt-5.1"), verbosity_level=LogLevel.OFF)


class Coder(SpokenHarness):
    name = "smolagents"
    speech = Coded()
    cannot: ClassVar[Mapping[Point, str]] = {
        "parallel": "code runs line by line",
        "document": "its messages hold text and pictures",
    }

    async def run(self, bus: Toolbus, prompt: str) -> str:
        return await ran(live(coder(), bus), prompt)

    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        return await ran(live(coder(), bus), "Answer.", Said(messages(prompt)))


@pytest.fixture
async def stage(stage: Stage) -> SpokenStage:
    return spoken(stage)


@pytest.fixture
async def own_stage(own_stage: Stage) -> SpokenStage:
    return spoken(own_stage)


async def observed(stage: Stage, *code: str) -> str:
    """The model's observations of the code that it wrote."""
    lines = "\n".join(code)
    with Provider([f"<code>\n{lines}\n</code>", "<code>\nfinal_answer('Done.')\n</code>"]) as provider:
        for name, value in provider.environment.items():
            stage.monkeypatch.setenv(name, value)
        assert await ran(live(coder(), stage.bus), "Go.") == "Done."
    return provider.asked[1].prompt


class TestSmolagentsCode(Contract):
    harness: ClassVar[Harness] = Coder()

    async def test_code_uses_structured_content(self, stage: Stage) -> None:
        assert "\n5\n" in await observed(stage, "print(desk_add(1, b=2)['result'] + 2)")
        assert "the sum is 3" in await observed(stage, "print(f'the sum is {desk_add(a=1, b=2)}')")

    async def test_code_can_catch_what_fails(self, stage: Stage) -> None:
        code = ["try:", "    desk_fail('no ink')", "except Exception as e:", "    print('caught', e)"]
        assert "caught Error executing tool fail: no ink" in await observed(stage, *code)

    async def test_what_was_printed_before_a_failure_is_not_lost(self, stage: Stage) -> None:
        said = await observed(stage, "print(desk_echo('hello'))", "desk_echo(1, 2)")
        assert "hello" in said
        assert "ToolFailed: desk_echo takes at most 1 arguments, not 2" in said

    async def test_the_model_reads_whole_schemas(self, stage: Stage) -> None:
        made = {tool.name: tool for tool in tools(stage.bus)}
        assert made["desk_add"].to_code_prompt() == (
            "def desk_add(a: integer, b: integer) -> dict:\n"
            '    """Add two numbers.\n'
            "    \n"
            '    a: {"type": "integer"}\n'
            '    b: {"type": "integer"}\n'
            "    \n"
            "    JSON output schema of the dict that it returns (it prints as text): "
            '{"properties": {"result": {"title": "Result", "type": "integer"}}, '
            '"required": ["result"], "title": "addOutput", "type": "object"}\n'
            '    """'
        )

    async def test_a_tool_cannot_go_to_another_machine(self, stage: Stage) -> None:
        tool = tools(stage.bus)[0]
        with pytest.raises(ValueError, match="executor_type='local'"):
            tool.to_dict()

    async def test_a_tool_is_a_function_for_code_of_your_own(self, stage: Stage) -> None:
        made = {tool.name: tool for tool in tools(stage.bus)}
        assert await asyncio.to_thread(made["desk_echo"], "hello") == "hello"
        with pytest.raises(ToolFailed, match="no ink"):
            await asyncio.to_thread(made["desk_fail"], reason="no ink")
