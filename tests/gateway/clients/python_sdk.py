"""A client on the installed SDK: `python python_sdk.py legacy|modern URL`, or a command instead of the URL.

Prints as JSON what it got. The other programs of this folder do the same, each with another SDK.
"""

import asyncio
import json
import sys
from typing import Any

import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

ANSWER: dict[str, Any] = {"username": "ada", "email": "ada@example.org"}


async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Fill in every form with the same."""
    return types.ElicitResult(action="accept", content=ANSWER)


async def sampled(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    """Be a model of one sentence."""
    return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Indeed."), model="m")


def text(block: Any) -> str:
    """The text of a block of content."""
    return block.text


async def main(era: str, target: list[str]) -> dict[str, Any]:
    """List, call, read, get and answer."""
    server: Any = target[0] if len(target) == 1 else StdioServerParameters(command=target[0], args=target[1:])
    mode: Any = "legacy" if era == "legacy" else "2026-07-28"
    reported: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reported.append(progress)

    async with Client(server, mode=mode, elicitation_callback=elicited, sampling_callback=sampled) as client:
        tools = await client.list_tools()
        simple = await client.call_tool("test_simple_text", {})
        await client.call_tool("test_tool_with_progress", {}, progress_callback=on_progress)
        resource = await client.read_resource("test://static-text")
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "x", "arg2": "y"})
        asked = await client.call_tool("test_elicitation", {"message": "Who?"})
        sample = await client.call_tool("test_sampling", {"prompt": "Really?"})
        return {
            "version": client.session.protocol_version,
            "tools": sorted(tool.name for tool in tools.tools),
            "call": text(simple.content[0]),
            "progress": reported,
            "resource": text(resource.contents[0]),
            "prompt": text(prompt.messages[0].content),
            "elicitation": text(asked.content[0]),
            "sampling": text(sample.content[0]),
        }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2:]))))
