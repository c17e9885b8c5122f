"""As python_sdk.py, with the client of FastMCP."""

import asyncio
import json
import sys
from typing import Any

from fastmcp.client import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

ANSWER = {"username": "ada", "email": "ada@example.org"}


async def elicited(message: str, response_type: Any, params: Any, context: Any) -> Any:
    """Fill in every form with the same."""
    return ANSWER


async def sampled(messages: Any, params: Any, context: Any) -> str:
    """Be a model of one sentence."""
    return "Indeed."


async def main(era: str, target: list[str]) -> dict[str, Any]:
    """List, call, read, get and answer."""
    is_url = len(target) == 1
    transport: Any = StreamableHttpTransport(target[0]) if is_url else StdioTransport(target[0], target[1:])
    mode: Any = "legacy" if era == "legacy" else "2026-07-28"
    progress: list[float] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)

    made: Any = Client(transport, mode=mode, elicitation_handler=elicited, sampling_handler=sampled)
    async with made as client:
        tools = await client.list_tools()
        simple = await client.call_tool("test_simple_text", {})
        await client.call_tool("test_tool_with_progress", {}, progress_handler=on_progress)
        resource = await client.read_resource("test://static-text")
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "x", "arg2": "y"})
        asked = await client.call_tool("test_elicitation", {"message": "Who?"})
        sample = await client.call_tool("test_sampling", {"prompt": "Really?"})
        return {
            "version": client.session.protocol_version,
            "tools": sorted(tool.name for tool in tools),
            "call": simple.content[0].text,
            "progress": progress,
            "resource": resource[0].text,
            "prompt": prompt.messages[0].content.text,
            "elicitation": asked.content[0].text,
            "sampling": sample.content[0].text,
        }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2:]))))
