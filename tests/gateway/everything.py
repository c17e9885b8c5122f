"""A server with all that the MCP conformance suite asks of one, in both eras, on the SDK.

Run it: `python everything.py stdio`, or `python everything.py http PORT_FILE [PORT]` (it writes its port to
the file). In the legacy era its questions are requests to the client, in the modern era results.
"""

import asyncio
import sys
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ConfigDict, TypeAdapter

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script, too
from tests.gateway.everything_calls import Call, Handler, Json, Questions, Rejected, settled
from tests.gateway.everything_content import LATER_PROMPT, PROMPTS, RESOURCES, TEMPLATES, completion, read
from tests.gateway.everything_tools import LATER_TOOL, TOOLS
from tests.servers.everyday import serve_app

Context = ServerRequestContext[Any, Any]
KEY = b"the same in every process, so that a call can be resumed in another one"
SERVER_REQUEST: TypeAdapter[types.ServerRequest] = TypeAdapter(types.ServerRequest)
PARSER = "h11"
"""The other parser leaves the spaces after a header's value, which the suite sends and the SDK compares."""
CACHED = CacheHint(ttl_ms=60_000, scope="public")
CACHEABLE = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")


class Answer(BaseModel):
    """Any result of a client."""

    model_config = ConfigDict(extra="allow")


class Memory(EventStore):
    """The events of all streams, so that a client can come back to one."""

    def __init__(self) -> None:
        self.events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        """Keep one; its place in the list is its id."""
        self.events.append((stream_id, message))
        return str(len(self.events) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what the stream of an event had after it."""
        last = int(last_event_id)
        stream = self.events[last][0]
        for number, (its_stream, message) in enumerate(self.events):
            if number > last and its_stream == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Everything:
    """The handlers of one server, with their shared state."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.codec = AESGCMRequestStateCodec([KEY])
        self.tools = {tool["name"]: (tool, handler) for tool, handler in TOOLS}
        self.prompts = {prompt["name"]: (prompt, handler) for prompt, handler in PROMPTS}
        self.watched: set[str] = set()

    async def list_tools(self, ctx: Context, params: Any) -> Any:
        """All tools."""
        return _complete(ctx, {"tools": [tool for tool, _ in self.tools.values()]})

    async def list_prompts(self, ctx: Context, params: Any) -> Any:
        """All prompts."""
        return _complete(ctx, {"prompts": [prompt for prompt, _ in self.prompts.values()]})

    async def list_resources(self, ctx: Context, params: Any) -> Any:
        """All resources."""
        return _complete(ctx, {"resources": RESOURCES})

    async def list_templates(self, ctx: Context, params: Any) -> Any:
        """All templates."""
        return _complete(ctx, {"resourceTemplates": TEMPLATES})

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        """Run a tool, or ask what it needs."""
        if params.name not in self.tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await self._outcome(ctx, self.tools[params.name][1], params)

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> Any:
        """Fill in a prompt, or ask what it needs."""
        if params.name not in self.prompts:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        return await self._outcome(ctx, self.prompts[params.name][1], params)

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        """The content of a resource."""
        if (content := read(params.uri)) is None:
            code = -32002 if _is_legacy(ctx) else types.INVALID_PARAMS
            raise MCPError(code, "Resource not found", {"uri": params.uri})
        return _complete(ctx, {"contents": [content]})

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> Any:
        """Suggestions for an argument."""
        return _complete(ctx, completion({"value": params.argument.value}))

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Watch a resource, in the legacy era."""
        self.watched.add(params.uri)
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Watch it no longer."""
        self.watched.discard(params.uri)
        return types.EmptyResult()

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Take note of a level; all messages here have the same."""
        return types.EmptyResult()

    async def _outcome(
        self,
        ctx: Context,
        handler: Handler,
        params: types.CallToolRequestParams | types.GetPromptRequestParams,
    ) -> Json:
        declared = ctx.session.client_capabilities or types.ClientCapabilities()
        call = Call(
            wire=_Wire(ctx, self),
            arguments=dict(params.arguments or {}),
            answers={key: _dumped(answer) for key, answer in (params.input_responses or {}).items()},
            state=self._opened(params.request_state),
            declared=frozenset(declared.model_dump(exclude_none=True)),
        )
        try:
            if _is_legacy(ctx):
                return await settled(handler, call, _asker(ctx))
            outcome = await handler(call)
        except Rejected as error:
            raise MCPError(error.code, str(error), error.data) from None
        if not isinstance(outcome, Questions):
            return _complete(ctx, outcome)
        state = {"requestState": self.codec.seal(outcome.state.encode())} if outcome.state else {}
        return {"resultType": "input_required", "inputRequests": outcome.requests, **state}

    def _opened(self, state: str | None) -> str:
        try:
            return self.codec.unseal(state).decode() if state else ""
        except InvalidRequestState:
            raise MCPError(types.INVALID_PARAMS, "the request state was tampered with") from None


class _Wire:
    def __init__(self, ctx: Context, everything: Everything) -> None:
        self._ctx = ctx
        self._everything = everything

    async def log(self, text: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated, and still what servers do
            send: Callable[..., Awaitable[None]] = self._ctx.session.send_log_message  # pyright: ignore[reportDeprecated]
            await send("info", text, related_request_id=self._ctx.request_id)

    async def progress(self, done: int, total: int) -> None:
        await self._ctx.session.report_progress(done, total)

    async def changed(self, kind: str) -> None:
        """The later tool or prompt comes, or goes again."""
        if kind == "tools":
            _toggle(self._everything.tools, LATER_TOOL)
            await self._everything.bus.publish(ToolsListChanged())
        else:
            _toggle(self._everything.prompts, LATER_PROMPT)
            await self._everything.bus.publish(PromptsListChanged())
        if _is_legacy(self._ctx):
            session = self._ctx.session
            announce = session.send_tool_list_changed if kind == "tools" else session.send_prompt_list_changed
            await announce()

    async def updated(self, uri: str) -> None:
        await self._everything.bus.publish(ResourceUpdated(uri=uri))
        if _is_legacy(self._ctx) and uri in self._everything.watched:
            await self._ctx.session.send_resource_updated(uri)

    async def close_stream(self) -> None:
        if self._ctx.close_sse_stream is not None:
            await self._ctx.close_sse_stream()


def _toggle(offered: dict[str, tuple[Json, Handler]], later: tuple[Json, Handler]) -> None:
    if offered.pop(later[0]["name"], None) is None:
        offered[later[0]["name"]] = later


def _asker(ctx: Context) -> Callable[[str, Json], Awaitable[Json]]:
    async def ask(method: str, params: Json) -> Json:
        request = SERVER_REQUEST.validate_python({"method": method, "params": params})
        # On the stream of the request, not on that of the session.
        metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
        return _dumped(await ctx.session.send_request(request, Answer, metadata=metadata))

    return ask


def _dumped(answer: BaseModel) -> Json:
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def _complete(ctx: Context, result: Json) -> Json:
    return result if _is_legacy(ctx) else {"resultType": "complete", **result}


def _is_legacy(ctx: Context) -> bool:
    return ctx.protocol_version < "2026"


class _Announcing(Server[Any]):
    """Declares that its lists can change, in the legacy era and over every transport."""

    def create_initialization_options(self, *given: Any, **named: Any) -> InitializationOptions:
        changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(changes, *given[1:], **named)


def everything(name: str = "everything") -> Server[Any]:
    """A fresh server; each has its own state."""
    own = Everything()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the log level is deprecated, and still what servers have
        return _Announcing(  # pyright: ignore[reportDeprecated]
            name,
            version="1.0",
            instructions="Everything a server can do.",
            cache_hints=dict.fromkeys(CACHEABLE, CACHED),
            on_list_tools=own.list_tools,
            on_call_tool=own.call_tool,
            on_list_prompts=own.list_prompts,
            on_get_prompt=own.get_prompt,
            on_list_resources=own.list_resources,
            on_list_resource_templates=own.list_templates,
            on_read_resource=own.read_resource,
            on_subscribe_resource=own.subscribe,
            on_unsubscribe_resource=own.unsubscribe,
            on_subscriptions_listen=ListenHandler(own.bus),
            on_completion=own.complete,
            on_set_logging_level=own.set_level,
        )


async def _serve_stdio() -> None:
    server = everything()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def app() -> Any:
    """The server as an ASGI application at /mcp."""
    return everything().streamable_http_app(event_store=Memory(), retry_interval=100)


def main(arguments: list[str]) -> None:
    """Serve, as the first argument says."""
    match arguments:
        case ["stdio"]:
            asyncio.run(_serve_stdio())
        case ["http", port_file]:
            serve_app(app(), port_file, parser=PARSER)
        case ["http", port_file, port]:
            serve_app(app(), port_file, int(port), PARSER)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
