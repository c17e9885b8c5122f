"""A server that asks in the middle of a call, which only the legacy era can carry.

Run it: `python in_calls.py stdio`, or `python in_calls.py http PORT_FILE`.
"""

import asyncio
import os
import sys
from pathlib import Path

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script, too
from tests.servers.everyday import serve_http


class Word(BaseModel):
    """A form with one field."""

    word: str


def in_calls() -> MCPServer:
    """A fresh server."""
    server: MCPServer = MCPServer("in_calls")

    @server.tool(structured_output=False)
    async def ask(ctx: Context, about: str) -> str:
        """Asks the user for a word."""
        try:
            answer = await ctx.elicit(f"A word about {about}?", Word)
        except Exception as error:
            return f"not asked: {error}"
        return f"{about}: {answer.data.word if answer.action == 'accept' else answer.action}"

    @server.tool(structured_output=False)
    async def here(ctx: Context) -> str:
        """Its process, and the era of the request."""
        return f"{os.getpid()} {'legacy' if (ctx.protocol_version or '') < '2026' else 'modern'}"

    @server.tool(structured_output=False)
    async def returns_its_question(ctx: Context) -> str:
        """Asks by returning the question, in the legacy era as well, where that is no result."""
        given = (ctx.input_responses or {}).get("word")
        if isinstance(given, types.ElicitResult):
            return f"given: {(given.content or {})['word']}"
        asked = types.ElicitRequestFormParams(message="A word?", requested_schema=Word.model_json_schema())
        return types.InputRequiredResult(  # type: ignore[return-value]
            input_requests={"word": types.ElicitRequest(params=asked)}
        )

    @server.tool(structured_output=False)
    async def grow(ctx: Context) -> str:
        """Adds a tool, and says so."""
        server.add_tool(lambda: "grown", name="grown", description="A later tool.")
        await ctx.notify_tools_changed()
        return "grown"

    return server


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            asyncio.run(in_calls().run_stdio_async())
        case ["http", port_file]:
            serve_http(in_calls(), "http", port_file)
        case _:
            sys.exit(__doc__)
