"""As python_sdk.py, on version 1 of the SDK, which has the legacy era only; `.interop/legacy` runs it."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

ANSWER = {"username": "ada", "email": "ada@example.org"}


async def elicited(context: Any, params: Any) -> types.ElicitResult:
    """Fill in every form with the same."""
    return types.ElicitResult(action="accept", content=ANSWER)


async def sampled(context: Any, params: Any) -> types.CreateMessageResult:
    """Be a model of one sentence."""
    said = types.TextContent(type="text", text="Indeed.")
    return types.CreateMessageResult(role="assistant", content=said, model="m")


async def main(target: list[str]) -> dict[str, Any]:
    """List, call, read, get and answer."""
    progress: list[float] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)

    async with AsyncExitStack() as stack:
        if len(target) == 1:
            reading, writing, _ = await stack.enter_async_context(streamablehttp_client(target[0]))
        else:
            command = StdioServerParameters(command=target[0], args=target[1:])
            reading, writing = await stack.enter_async_context(stdio_client(command))
        session = ClientSession(reading, writing, elicitation_callback=elicited, sampling_callback=sampled)
        await stack.enter_async_context(session)
        hello = await session.initialize()
        tools = await session.list_tools()
        simple = await session.call_tool("test_simple_text", {})
        await session.call_tool("test_tool_with_progress", {}, progress_callback=on_progress)
        resource = await session.read_resource(AnyUrl("test://static-text"))
        prompt = await session.get_prompt("test_prompt_with_arguments", {"arg1": "x", "arg2": "y"})
        asked = await session.call_tool("test_elicitation", {"message": "Who?"})
        sample = await session.call_tool("test_sampling", {"prompt": "Really?"})
        return {
            "version": hello.protocolVersion,
            "tools": sorted(tool.name for tool in tools.tools),
            "call": simple.content[0].text,
            "progress": progress,
            "resource": resource.contents[0].text,
            "prompt": prompt.messages[0].content.text,
            "elicitation": asked.content[0].text,
            "sampling": sample.content[0].text,
        }


if __name__ == "__main__":
    assert sys.argv[1] == "legacy"
    print(json.dumps(asyncio.run(main(sys.argv[2:]))))
