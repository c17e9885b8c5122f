"""An assistant with its own function and the tools of an MCP server.

Run it in examples/: python assistant.py
"""

import asyncio
import sys

from toolbus.agent import Agent, Run, TextDelta, ToolCalled, ToolReturned
from toolbus.testing import ScriptedModel, ToolCall

SERVERS = {"notes": {"command": sys.executable, "args": ["notes.py"]}}

# A scripted model, so that this runs without an API key. For a real one: MODEL = "anthropic:claude-sonnet-5"
MODEL = ScriptedModel(
    [
        ToolCall("notes_add", {"text": "buy tea"}),
        ToolCall("notes_add", {"text": "buy bread"}),
        "I wrote both down.",
        ToolCall("notes_search", {"word": "buy"}),
        lambda results: ToolCall("count_lines", {"text": results[-1]}),
        lambda results: f"There are {results[-1]} things on your list.",
    ]
)


def count_lines(text: str) -> int:
    """Count the lines of a text."""
    return len(text.splitlines())


async def show(run: Run[str]) -> None:
    """Print the events of a run."""
    async for event in run:
        match event:
            case TextDelta(text=text):
                print(text, end="", flush=True)
            case ToolCalled(name=name, arguments=arguments):
                print(f"  {name} {dict(arguments)}")
            case ToolReturned(text=text, is_error=is_error):
                print(f"  {'failed:' if is_error else 'returned'} {text!r}")
            case _:
                pass
    print()


async def main() -> None:
    async with Agent(MODEL, tools=[count_lines], mcp_servers=SERVERS, instructions="Be brief.") as agent:
        for prompt in ("I need tea and bread.", "How long is my list?"):
            print("you:", prompt)
            await show(agent.send(prompt))


if __name__ == "__main__":
    asyncio.run(main())
