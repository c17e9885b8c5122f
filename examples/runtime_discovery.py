"""An engine that discovers the tools of a server when a component needs them, and transforms them.

Run it in examples/: python runtime_discovery.py
"""

import asyncio
import json
import sys
from dataclasses import replace
from typing import Any

from toolbus import Tool, Toolbus, ToolbusError, ToolSpec
from toolbus.extension import discover_and_register

NOTES_CONFIG: dict[str, Any] = {
    "serverName": "notes-mcp",
    "transport": "stdio",
    "connection": {"command": sys.executable, "args": ["notes.py"]},
}
BROKEN_CONFIG: dict[str, Any] = {
    "serverName": "broken-mcp",
    "transport": "stdio",
    "connection": {"command": "no-such-program"},
}


class ContextObjectModel:
    """The model's input: here only the tools."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}

    def add_tool(self, tool: Tool) -> None:
        self.tools[tool.name] = tool

    def remove_tool(self, name: str) -> None:
        del self.tools[name]

    def to_input(self) -> list[dict[str, Any]]:
        """The definitions in the provider's format."""
        return [tool.definition("openai") for tool in self.tools.values()]


class ScriptedModel:
    """A fake language model: one call per tick, until the script ends."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = list(calls)

    def tick(self, tools: list[dict[str, Any]]) -> tuple[str, dict[str, Any]] | None:
        return self._calls.pop(0) if tools and self._calls else None


class Engine:
    """Each tick, the model sees the context and calls a tool, whose content blocks are added to it."""

    def __init__(self, model: ScriptedModel, com: ContextObjectModel) -> None:
        self._model = model
        self._com = com

    async def run(self) -> None:
        while call := self._model.tick(self._com.to_input()):
            name, arguments = call
            tool = self._com.tools[name]
            result = await tool.execute(**arguments)
            print(
                f"{name} of {tool.server}: {[type(block).__name__ for block in result.content]} {result.text}"
            )


def renamed(tool: ToolSpec) -> ToolSpec | None:
    """Change the name and description, and set an option for one provider; None would drop the tool."""
    return replace(
        tool,
        name=f"mcp_{tool.origin.tool}",
        description=f"[Notes MCP] {tool.description}",
        options={"openai": {"strict": True}},
    )


async def main() -> None:
    com = ContextObjectModel()
    async with Toolbus({"mcpServers": {}}) as bus:
        await discover_and_register(bus, com, NOTES_CONFIG, transform=renamed)
        try:
            await discover_and_register(bus, com, BROKEN_CONFIG)
        except ToolbusError as error:
            print("not registered:", error)
        for definition in com.to_input():
            print(json.dumps(definition))
        model = ScriptedModel(("mcp_add", {"text": "buy tea"}), ("mcp_search", {"word": "tea"}))
        await Engine(model, com).run()
        await bus.remove_server("notes-mcp")
        print("tools without the server:", len(com.tools))


if __name__ == "__main__":
    asyncio.run(main())
