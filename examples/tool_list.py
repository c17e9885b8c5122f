"""A library's agent: tools of MCP servers and local functions in one list.

Run it in examples/: python tool_list.py
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolbus import BusClosed, ToolResult, connect_mcp
from toolbus.records import Text


class AnyTool(Protocol):
    """The interface of a tool for the agent."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]: ...

    async def execute(self, **arguments: Any) -> ToolResult: ...


class Shout:
    """A local tool."""

    name = "shout"
    parameters: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}

    async def execute(self, **arguments: Any) -> ToolResult:
        return ToolResult(content=(Text(text=arguments["text"].upper()),))


class ScriptedModel:
    """A fake language model: the calls of each turn, then the final text."""

    def __init__(self, *turns: list[tuple[str, dict[str, Any]]] | str) -> None:
        self._turns = list(turns)

    def generate(self) -> list[tuple[str, dict[str, Any]]] | str:
        return self._turns.pop(0)


@dataclass
class Agent:
    """Runs the calls of a turn concurrently, until the model returns text."""

    model: ScriptedModel
    tools: Sequence[AnyTool]

    async def send(self, message: str) -> str:
        print("user:", message)
        by_name = {tool.name: tool for tool in self.tools}
        while not isinstance(turn := self.model.generate(), str):
            results = await asyncio.gather(*(by_name[name].execute(**arguments) for name, arguments in turn))
            for (name, _), result in zip(turn, results, strict=True):
                print(f"{name}: {result.text}")
        return turn


async def main() -> None:
    notes: dict[str, Any] = {"transport": "stdio", "command": sys.executable, "args": ["notes.py"]}
    work = await connect_mcp(notes)
    home = await connect_mcp(**notes)
    agent = Agent(
        model=ScriptedModel(
            [("work_add", {"text": "call Ann"}), ("home_add", {"text": "buy tea"})],
            [("home_search", {"word": "tea"}), ("shout", {"text": "tea"})],
            "You wanted to buy tea.",
        ),
        tools=[Shout(), *await work.list_tools(prefix="work"), *await home.list_tools(prefix="home")],
    )
    print("tools:", ", ".join(tool.name for tool in agent.tools))
    print("agent:", await agent.send("What is on my list at home?"))

    await work.close()
    await home.close()
    try:
        await home.list_tools()
    except BusClosed as error:
        print("closed:", error)
    print((await agent.tools[-1].execute(word="tea")).text)


if __name__ == "__main__":
    asyncio.run(main())
