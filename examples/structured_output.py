"""Structured output: the agent uses the tools of an MCP server, and returns an object.

Run it in examples/: python structured_output.py
"""

import asyncio
import sys

from pydantic import BaseModel, Field

from toolbus.agent import generate
from toolbus.testing import ScriptedModel, ToolCall

SERVERS = {"notes": {"command": sys.executable, "args": ["notes.py"]}}


class Shopping(BaseModel):
    """A shopping list."""

    items: list[str]
    shops: int = Field(ge=1, description="How many shops it takes.")


# A scripted model, so that this runs without an API key. For a real one: MODEL = "openai:gpt-5.1"
# A model returns an object by calling `final_result`. The first one is invalid, so the model is asked again.
MODEL = ScriptedModel(
    [
        [ToolCall("notes_add", {"text": "buy tea"}), ToolCall("notes_add", {"text": "buy bread"})],
        ToolCall("notes_search", {"word": "buy"}),
        ToolCall("final_result", {"items": ["tea", "bread"], "shops": 0}),
        ToolCall("final_result", {"items": ["tea", "bread"], "shops": 1}),
    ]
)


async def main() -> None:
    shopping = await generate(MODEL, "I need tea and bread. Plan it.", output=Shopping, mcp_servers=SERVERS)
    print(f"{len(shopping.items)} things in {shopping.shops} shop: {', '.join(shopping.items)}")
    print(shopping.model_dump_json())


if __name__ == "__main__":
    asyncio.run(main())
