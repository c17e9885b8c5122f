"""A server for the console: markup in every field, arguments of every kind, progress, pictures."""

import asyncio
import base64
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from tests.servers.everyday import PNG

PICTURE = "<img src=x onerror=alert(1)>"
HOSTILE = f"</pre></textarea><script>alert('1')</script>{PICTURE}\"'&"
KINDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "Any words.", "default": "a\nb"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "ratio": {"type": "number"},
        "loud": {"type": "boolean", "default": True},
        "size": {"enum": ["small", "large", 3]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "tags": {"$ref": "#/$defs/tags"},
        "more": {"type": "object"},
    },
    "$defs": {"tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["text", "size"],
    "additionalProperties": False,
}
MARKUP: dict[str, Any] = {
    "type": "object",
    "title": HOSTILE,
    "properties": {
        HOSTILE: {"type": "string", "title": HOSTILE, "description": HOSTILE, "default": HOSTILE},
        "choice": {"enum": [HOSTILE, "plain"], "description": HOSTILE},
        "json": {"type": "array", "default": [HOSTILE]},
    },
    "additionalProperties": {"description": HOSTILE},
}


class Showing:
    """The server, with what a test needs to hold its calls."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.was_canceled = asyncio.Event()
        self.server: Server[Any] = Server("showing", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        hints = types.ToolAnnotations(title=HOSTILE, read_only_hint=True)
        markup = types.Tool(
            name="markup", title=HOSTILE, description=HOSTILE, input_schema=MARKUP, annotations=hints
        )
        kinds = types.Tool(name="kinds", description="Takes all kinds of arguments.", input_schema=KINDS)
        slow = types.Tool(name="slow", description="Waits.", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[markup, kinds, slow])

    async def _call(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        given = params.arguments or {}
        if params.name == "slow":
            await ctx.session.report_progress(1, 4, f"at {HOSTILE}")
            try:
                await self.go_on.wait()
            except BaseException:
                self.was_canceled.set()
                raise
        if params.name == "markup":
            return types.CallToolResult(content=_blocks(), structured_content={HOSTILE: HOSTILE})
        return types.CallToolResult(content=[types.TextContent(text=f"got {given!r}")])


def _blocks() -> list[types.ContentBlock]:
    data = base64.b64encode(PNG).decode("ascii")
    resource = types.TextResourceContents(uri=f"memo://{HOSTILE}", text=HOSTILE)
    return [
        types.TextContent(text=HOSTILE),
        types.ImageContent(data=data, mime_type="image/png"),
        types.ImageContent(data=data, mime_type="image/svg+xml"),
        types.AudioContent(data=data, mime_type=HOSTILE),
        types.ResourceLink(uri="memo://x", name=HOSTILE),
        types.EmbeddedResource(resource=resource),
    ]
