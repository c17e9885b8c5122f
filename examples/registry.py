"""A bot with a tool registry, where tools of MCP servers are entries like any other.

Run it in examples/: python registry.py
"""

import asyncio
import sys
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolbus import Toolbus, ToolResult
from toolbus.records import Text

SETTINGS: dict[str, Any] = {
    "tools": {
        "mcp_servers": {
            "notes": {"transport": "stdio", "command": sys.executable, "args": ["notes.py"]},
            "weather": {"transport": "stdio", "command": "no-such-program"},
        }
    }
}


class ToolPort(Protocol):
    """The interface of a tool for the bot. `toolbus.Tool` fits it without inheriting."""

    name: str
    description: str
    parameters: dict[str, Any]

    async def execute(self, **kwargs: Any) -> ToolResult: ...


class CountWords:
    """One of the bot's own tools."""

    def __init__(self) -> None:
        self.name = "count_words"
        self.description = "Count the words of a text."
        self.parameters: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}

    async def execute(self, **kwargs: Any) -> ToolResult:
        return ToolResult(content=(Text(text=str(len(kwargs["text"].split()))),))


@dataclass
class ToolRegistry:
    """The bot's tools by name."""

    tools: dict[str, ToolPort] = field(default_factory=dict[str, ToolPort])

    def add_tool(self, tool: ToolPort) -> None:
        self.tools[tool.name] = tool

    def remove_tool(self, name: str) -> None:
        del self.tools[name]


class ScriptedModel:
    """A fake language model: makes the calls of a script, then quotes the last result."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = list(calls)

    def answer(self, history: list[str]) -> str | tuple[str, dict[str, Any]]:
        return self._calls.pop(0) if self._calls else f"The last tool said: {history[-1]}"


@dataclass
class AgentLoop:
    """Runs the tools that the model calls, until it returns text."""

    model: ScriptedModel
    registry: ToolRegistry

    async def reply(self, message: str) -> str:
        history = [message]
        while True:
            answer = self.model.answer(history)
            if isinstance(answer, str):
                return answer
            name, arguments = answer
            result = await self.registry.tools[name].execute(**arguments)
            print(f"{name}: {result.text}{' (an error)' if result.is_error else ''}")
            history.append(result.text)


async def gateway() -> None:
    registry = ToolRegistry()
    registry.add_tool(CountWords())
    async with Toolbus(SETTINGS) as bus:
        bus.register_into(registry)
        for server, error in bus.failures.items():
            print(f"skipped {server}: {error}")
        print("tools:", ", ".join(registry.tools))
        model = ScriptedModel(
            ("notes_add", {"text": "buy tea"}),
            ("notes_search", {"world": "tea"}),
            ("notes_search", {"word": "tea"}),
            ("count_words", {"text": "buy tea"}),
        )
        print("bot:", await AgentLoop(model, registry).reply("What did I want to buy?"))
    print("tools after the shutdown:", ", ".join(registry.tools))


if __name__ == "__main__":
    asyncio.run(gateway())
