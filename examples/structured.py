"""An answer that is an object: the agent uses the tools of an MCP server, and fills in a form.

Run it in examples/: python structured.py
"""

import asyncio
import sys

from pydantic import BaseModel, Field

from toolbus.agent import generate
from toolbus.testing import ScriptedModel, ToolCall

SERVERS = {"notes": {"command": sys.executable, "args": ["notes.py"]}}


class Shopping(BaseModel):
    """What to buy."""

    items: list[str]
    shops: int = Field(ge=1, description="How many shops it takes.")


# No model, but a script, so that this runs without a key. For a real one: MODEL = "openai:gpt-5.1"
# A model that fills in a form calls `final_result`. The first try is wrong, and the second is asked for.
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
