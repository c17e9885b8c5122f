"""The end of `toolbus demo`: an agent calls tools and answers. A script plays the model, the rest is real."""

import asyncio
import json
import os
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.output.screen import Screen, one_line
from toolbus.core.errors import ExtraMissing
from toolbus.core.records import JSON

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

PATIENCE = 30.0
"""Seconds that the agent may take."""
PROMPT = "What do I have to buy, and how does rain.txt begin?"


async def played(screen: Screen, bus: "Toolbus") -> list[JSON]:
    """Run the agent and show it; gives its calls, for `--json`. Without pydantic-ai, says what to install."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    try:
        with screen.moving("loading the agent"):
            from toolbus.agent import Agent, ToolCalled, ToolReturned
            from toolbus.testing import ScriptedModel, ToolCall
    except ExtraMissing:
        screen.print(Text('  skipped: it needs pydantic-ai; pip install "toolbus[agent]"', style="yellow"))
        return []
    from toolbus.cli.chat.view import shown_call

    search = ToolCall("notes_search", {"words": "buy", "limit": 1})
    model = ScriptedModel([search, ToolCall("files_read", {"path": "rain.txt"}), _answer])
    screen.print(Text(f"you: {PROMPT}"))
    calls: list[JSON] = []
    async with asyncio.timeout(PATIENCE), Agent(model, tools=[bus]) as agent:
        run = agent.send(PROMPT)
        async for event in run:
            if isinstance(event, ToolCalled):
                screen.print(Text(f"  {shown_call(event.name, event.arguments)}", style="cyan"))
            elif isinstance(event, ToolReturned):
                content = [{"type": "text", "text": event.text}]
                facts = {"name": event.name, "is_error": event.is_error, "text": event.text}
                calls.append({**facts, "content": content, "progress": 0})
        screen.print(Text(f"agent: {await run.final}"))
    return calls


def _answer(told: list[str]) -> str:
    """What a model would make of the results; it has seen no other."""
    found, poem = told
    return f"Your note says {json.loads(found)['notes'][0]['text']!r}. The file begins {one_line(poem)!r}."
