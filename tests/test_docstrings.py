"""The entry points that users meet first have an example in their docstring, and it prints what it says."""

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import toolbus
from tests.codeblocks import Block, code_blocks
from tests.pages import run_python
from tests.test_docs import in_examples
from toolbus import Tool, Toolbus, ToolResult, View
from toolbus.adapters import anthropic
from toolbus.agent import Agent, Run
from toolbus.testing import ScriptedModel, ToolCall

ENTRY_POINTS = [
    Toolbus,
    Toolbus.call,
    Toolbus.tools,
    View.view,
    Toolbus.as_user,
    Toolbus.search,
    toolbus.connect_mcp,
    toolbus.SyncToolbus,
    Agent,
    Agent.send,
    Run,
    toolbus.Interactions,
    Tool.execute,
    ToolResult,
    anthropic.tools,
]
NOTES = {"servers": {"notes": {"command": "python", "args": ["notes.py"]}}}
PRINTED = re.compile(r"print\(.+\)  # (.+)$", re.MULTILINE)
"""A line of an example that says what it prints; for a loop, with commas."""


@pytest.mark.parametrize("entry", ENTRY_POINTS, ids=lambda entry: entry.__qualname__)
def test_the_example_of_an_entry_point_prints_what_it_says(
    entry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_examples(tmp_path, monkeypatch)
    [example] = code_blocks(inspect.cleandoc(entry.__doc__))
    with asyncio.Runner() as runner:
        printed = runner.run(opened()).printed(example, runner)
    assert ", ".join(printed.splitlines()) == ", ".join(PRINTED.findall(example.text))


async def opened() -> "Stage":
    """A bus with the notes of the examples, and an agent whose model follows a script."""
    bus = Toolbus(NOTES)
    await bus.start()
    return Stage(bus, ScriptedModel([ToolCall("notes_add", {"text": "buy tea"}), "Noted."]))


class Stage:
    """The names that an example may use."""

    def __init__(self, bus: Toolbus, model: ScriptedModel) -> None:
        self._bus, self._agent = bus, Agent(model, tools=[bus])
        self._names = {name: getattr(toolbus, name) for name in toolbus.__all__}
        self._names |= {"bus": bus, "model": model, "agent": self._agent, "Agent": Agent}

    def printed(self, example: Block, runner: asyncio.Runner) -> str:
        try:
            return run_python(Path("docstring"), example, self._names, runner)
        finally:
            runner.run(self._agent.close())
            runner.run(self._bus.stop())
