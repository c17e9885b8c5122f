"""A server that treats every user differently: its lists, results and resources name who asks.

The user is the bearer token of an HTTP request; over stdio, the variable WHO.
Run it: `python personal.py stdio`, or `python personal.py http PORT_FILE [PORT]`.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourceUpdated
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script, too

from tests.servers.everyday import serve_app

Context = ServerRequestContext[Any, Any]
OBJECT = {"type": "object"}


def subject(ctx: Context) -> str:
    """The user who asks."""
    headers = getattr(ctx.request, "headers", None)
    if headers is None:
        return os.environ.get("WHO", "(nobody)")
    return headers.get("authorization", "(nobody)").removeprefix("Bearer ")


class Personal:
    """The server, and who subscribed to what."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._subscribed: set[tuple[str, ServerSession]] = set()
        self.server: Server[Any] = Announcing(
            "personal",
            on_list_tools=self._tools,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_read_resource=self._read,
            on_list_prompts=self._prompts,
            on_get_prompt=self._prompt,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=ListenHandler(self._bus),
        )

    async def _tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        names = ("whoami", "log", "long", "touch", "hang", "process", f"only_{subject(ctx)}")
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=OBJECT) for name in names])

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        who, arguments = subject(ctx), params.arguments or {}
        text = f"{who} {arguments.get('n', '')}".strip()
        match params.name:
            case "log":
                text = f"log of {who}"
                await ctx.session.send_log_message("info", text, related_request_id=ctx.request_id)  # pyright: ignore[reportDeprecated]  as servers do
            case "long":
                text = f"{who} " * 20_000
            case "touch":
                await self._changed(arguments["uri"])
            case "hang":
                await asyncio.Event().wait()
            case "process":
                text = str(os.getpid())
            case _:
                pass
        return types.CallToolResult(content=[types.TextContent(text=text)])

    async def _changed(self, uri: str) -> None:
        await self._bus.publish(ResourceUpdated(uri=uri))
        for known, session in tuple(self._subscribed):
            if known == uri:
                await session.send_resource_updated(uri)

    async def _resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        uris = ("me://profile", f"me://{subject(ctx)}")
        return types.ListResourcesResult(resources=[types.Resource(uri=uri, name=uri) for uri in uris])

    async def _read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        text = f"profile of {subject(ctx)}"
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=str(params.uri), text=text)])

    async def _prompts(self, ctx: Context, params: Any) -> types.ListPromptsResult:
        names = ("greet", f"greet_{subject(ctx)}")
        return types.ListPromptsResult(prompts=[types.Prompt(name=name) for name in names])

    async def _prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        text = types.TextContent(text=f"I am {subject(ctx)}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._subscribed.add((str(params.uri), ctx.session))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._subscribed.discard((str(params.uri), ctx.session))
        return types.EmptyResult()


class Announcing(Server[Any]):
    """Declares in the legacy era that its lists change."""

    def create_initialization_options(self, *args: Any, **more: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(tools_changed=True))


class Guarded:
    """Lets nobody in without a token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = scope["type"] != "http" or any(name == b"authorization" for name, _ in scope["headers"])
        refused = Response(status_code=401, headers={"www-authenticate": "Bearer"})
        await (self._app if named else refused)(scope, receive, send)


async def _stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            asyncio.run(_stdio(Personal().server))
        case ["http", port_file]:
            serve_app(Guarded(Personal().server.streamable_http_app()), port_file)
        case ["http", port_file, port]:
            serve_app(Guarded(Personal().server.streamable_http_app()), port_file, int(port))
        case _:
            sys.exit(__doc__)
