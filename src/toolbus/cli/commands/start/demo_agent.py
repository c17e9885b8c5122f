"""The last part of `toolbus demo`: an agent with a scripted model calls real tools."""

import asyncio
import json
import os
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.output.screen import Screen, one_line
from toolbus.core.values.errors import ExtraMissing
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

TIMEOUT = 30.0
"""Time limit for the agent, in seconds."""
PROMPT = "What do I have to buy, and how does rain.txt begin?"


async def run_agent(screen: Screen, bus: "Toolbus") -> list[JSON]:
    """Run the agent and print its steps; returns its calls. Prints a hint if pydantic-ai is missing."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    try:
        with screen.spinner("loading the agent"):
            from toolbus.agent import Agent, ToolCalled, ToolReturned
            from toolbus.testing import ScriptedModel, ToolCall
    except ExtraMissing:
        screen.print(Text('  skipped: it needs pydantic-ai; pip install "toolbus[agent]"', style="yellow"))
        return []
    from toolbus.cli.chat.view import call_summary

    search = ToolCall("notes_search", {"words": "buy", "limit": 1})
    model = ScriptedModel([search, ToolCall("files_read", {"path": "rain.txt"}), _answer])
    screen.print(Text(f"you: {PROMPT}"))
    calls: list[JSON] = []
    async with asyncio.timeout(TIMEOUT), Agent(model, tools=[bus]) as agent:
        run = agent.send(PROMPT)
        async for event in run:
            if isinstance(event, ToolCalled):
                screen.print(Text(f"  {call_summary(event.name, event.arguments)}", style="cyan"))
            elif isinstance(event, ToolReturned):
                content = [{"type": "text", "text": event.text}]
                facts = {"name": event.name, "is_error": event.is_error, "text": event.text}
                calls.append({**facts, "content": content, "progress": 0})
        screen.print(Text(f"agent: {await run.final}"))
    return calls


def _answer(results: list[str]) -> str:
    """The answer that the scripted model composes from the tool results."""
    found, poem = results
    return f"Your note says {json.loads(found)['notes'][0]['text']!r}. The file begins {one_line(poem)!r}."
