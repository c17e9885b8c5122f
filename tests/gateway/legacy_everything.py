"""The everything server of the legacy era, on version 1 of the SDK, with the tasks that were part of it.

Run it with the Python of `.interop/legacy`: `python legacy_everything.py stdio`, or
`python legacy_everything.py http PORT_FILE [PORT]`.
"""

import asyncio
import contextlib
import socket
import sys
import warnings
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import mcp.types as types
import uvicorn
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import McpError
from mcp.shared.message import ServerMessageMetadata
from pydantic import AnyUrl, BaseModel, ConfigDict
from starlette.applications import Starlette
from starlette.routing import Route

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.gateway.everything_calls import Call, Handler, Json, Rejected, settled
from tests.gateway.everything_content import LATER_PROMPT, PROMPTS, RESOURCES, TEMPLATES, completion, read
from tests.gateway.everything_tools import LATER_TOOL, TOOLS
from tests.gateway.tasks_tools import TOOLS as TASK_TOOLS
from tests.gateway.tasks_tools import Work, task_support

LOCAL_ONLY = TransportSecuritySettings(
    enable_dns_rebinding_protection=True,
    allowed_hosts=["127.0.0.1:*", "localhost:*"],
    allowed_origins=["http://127.0.0.1:*", "http://localhost:*"],
)


class Answer(BaseModel):
    """Any result of a client."""

    model_config = ConfigDict(extra="allow")


class Announcing(Server[Any, Any]):
    """Declares that its lists can change and its resources be watched, over every transport."""

    def create_initialization_options(self, *given: Any, **named: Any) -> Any:
        changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        options = super().create_initialization_options(changes, *given[1:], **named)
        options.capabilities.resources.subscribe = True  # the SDK never does
        return options


class LegacyEverything:
    """The handlers of one server, with their shared state."""

    def __init__(self) -> None:
        self.server = Announcing("legacy-everything", "1.0", "Everything a server could do.")
        self.tools = {tool["name"]: (tool, handler) for tool, handler in TOOLS}
        self.prompts = {prompt["name"]: (prompt, handler) for prompt, handler in PROMPTS}
        self.watched: set[str] = set()
        self.server.experimental.enable_tasks()
        self.server.request_handlers |= {
            types.ListToolsRequest: self.list_tools,
            types.CallToolRequest: self.call_tool,
            types.ListPromptsRequest: self.list_prompts,
            types.GetPromptRequest: self.get_prompt,
            types.ListResourcesRequest: self.list_resources,
            types.ListResourceTemplatesRequest: self.list_templates,
            types.ReadResourceRequest: self.read_resource,
            types.SubscribeRequest: self.subscribe,
            types.UnsubscribeRequest: self.unsubscribe,
            types.CompleteRequest: self.complete,
            types.SetLevelRequest: self.set_level,
        }

    async def list_tools(self, request: types.ListToolsRequest) -> types.ServerResult:
        """All tools, of which some can become tasks."""
        named = [tool for tool, _ in (*self.tools.values(), *TASK_TOOLS.values())]
        return _result(types.ListToolsResult, {"tools": named})

    async def list_prompts(self, request: types.ListPromptsRequest) -> types.ServerResult:
        """All prompts."""
        return _result(types.ListPromptsResult, {"prompts": [prompt for prompt, _ in self.prompts.values()]})

    async def list_resources(self, request: types.ListResourcesRequest) -> types.ServerResult:
        """All resources."""
        return _result(types.ListResourcesResult, {"resources": RESOURCES})

    async def list_templates(self, request: types.ListResourceTemplatesRequest) -> types.ServerResult:
        """All templates."""
        return _result(types.ListResourceTemplatesResult, {"resourceTemplates": TEMPLATES})

    async def call_tool(self, request: types.CallToolRequest) -> types.ServerResult:
        """Run a tool, as a task if the client wants one."""
        name, arguments = request.params.name, dict(request.params.arguments or {})
        if name in TASK_TOOLS:
            return await self._task_tool(*TASK_TOOLS[name], arguments)
        if name not in self.tools:
            raise _rejected(Rejected(-32602, f"Unknown tool: {name}"))
        return _result(types.CallToolResult, await self._outcome(self.tools[name][1], arguments))

    async def _task_tool(self, tool: Json, work: Work, arguments: Json) -> types.ServerResult:
        context = self.server.request_context
        context.experimental.validate_task_mode(task_support(tool))
        if not context.experimental.is_task:
            return _result(types.CallToolResult, await _worked(work, arguments, self._ask))

        async def working(task: ServerTaskContext) -> types.CallToolResult:
            async def ask(method: str, params: Json) -> Json:
                return _dumped(await task.elicit(params["message"], params["requestedSchema"]))

            return types.CallToolResult.model_validate(await _worked(work, arguments, ask))

        return types.ServerResult(await context.experimental.run_task(working))

    async def get_prompt(self, request: types.GetPromptRequest) -> types.ServerResult:
        """Fill in a prompt."""
        name = request.params.name
        if name not in self.prompts:
            raise _rejected(Rejected(-32602, f"Unknown prompt: {name}"))
        given = dict(request.params.arguments or {})
        return _result(types.GetPromptResult, await self._outcome(self.prompts[name][1], given))

    async def read_resource(self, request: types.ReadResourceRequest) -> types.ServerResult:
        """The content of a resource."""
        uri = str(request.params.uri)
        if (content := read(uri)) is None:
            raise _rejected(Rejected(-32002, "Resource not found", {"uri": uri}))
        return _result(types.ReadResourceResult, {"contents": [content]})

    async def subscribe(self, request: types.SubscribeRequest) -> types.ServerResult:
        """Watch a resource."""
        self.watched.add(str(request.params.uri))
        return types.ServerResult(types.EmptyResult())

    async def unsubscribe(self, request: types.UnsubscribeRequest) -> types.ServerResult:
        """Watch it no longer."""
        self.watched.discard(str(request.params.uri))
        return types.ServerResult(types.EmptyResult())

    async def complete(self, request: types.CompleteRequest) -> types.ServerResult:
        """Suggestions for an argument."""
        return _result(types.CompleteResult, completion({"value": request.params.argument.value}))

    async def set_level(self, request: types.SetLevelRequest) -> types.ServerResult:
        """Take note of a level; all messages here have the same."""
        return types.ServerResult(types.EmptyResult())

    async def _outcome(self, handler: Handler, arguments: Json) -> Json:
        context = self.server.request_context
        client = context.session.client_params
        declared = frozenset(_dumped(client.capabilities)) if client else frozenset[str]()
        call = Call(wire=Wire(self, context), arguments=arguments, declared=declared)
        try:
            return await settled(handler, call, self._ask)
        except Rejected as error:
            raise _rejected(error) from None

    async def _ask(self, method: str, params: Json) -> Json:
        context = self.server.request_context
        request = types.ServerRequest.model_validate({"method": method, "params": params})
        metadata = ServerMessageMetadata(related_request_id=context.request_id)
        return _dumped(await context.session.send_request(request, Answer, metadata=metadata))


class Wire:
    """Messages that can be sent in the middle of a call."""

    def __init__(self, everything: LegacyEverything, context: Any) -> None:
        self._everything = everything
        self._context = context

    async def log(self, text: str) -> None:
        await self._context.session.send_log_message(
            "info", text, related_request_id=self._context.request_id
        )

    async def progress(self, done: int, total: int) -> None:
        if self._context.meta is not None and self._context.meta.progressToken is not None:
            await self._context.session.send_progress_notification(
                self._context.meta.progressToken,
                done,
                total,
                related_request_id=str(self._context.request_id),
            )

    async def changed(self, kind: str) -> None:
        session = self._context.session
        offered, later = self._everything.tools, LATER_TOOL
        announce = session.send_tool_list_changed
        if kind == "prompts":
            offered, later = self._everything.prompts, LATER_PROMPT
            announce = session.send_prompt_list_changed
        if offered.pop(later[0]["name"], None) is None:
            offered[later[0]["name"]] = later
        await announce()

    async def updated(self, uri: str) -> None:
        if uri in self._everything.watched:
            await self._context.session.send_resource_updated(AnyUrl(uri))

    async def close_stream(self) -> None:
        if self._context.close_sse_stream is not None:
            await self._context.close_sse_stream()


async def _worked(work: Work, arguments: Json, ask: Any) -> Json:
    async def ask_all(requests: dict[str, Json]) -> Mapping[str, Json]:
        return {key: await ask(one["method"], one["params"]) for key, one in requests.items()}

    try:
        return await work(arguments, ask_all)
    except Rejected as error:
        raise _rejected(error) from None


def _result(kind: type[BaseModel], values: Json) -> types.ServerResult:
    return types.ServerResult(kind.model_validate(values))


def _rejected(error: Rejected) -> McpError:
    return McpError(types.ErrorData(code=error.code, message=str(error), data=error.data))


def _dumped(answer: BaseModel) -> Json:
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


async def _serve_stdio() -> None:
    server = LegacyEverything().server
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


class Endpoint:
    """All methods at one path: for Starlette a function would be a handler of GET."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._manager.handle_request(scope, receive, send)


def _serve_http(port_file: str, port: int = 0) -> None:
    manager = StreamableHTTPSessionManager(LegacyEverything().server, security_settings=LOCAL_ONLY)

    @contextlib.asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    app = Starlette(routes=[Route("/mcp", Endpoint(manager))], lifespan=running)
    # The protocol is named, because asyncio sets TCP_NODELAY only on sockets that do.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen()
    partial = Path(port_file + ".partial")
    partial.write_text(str(listening.getsockname()[1]))
    partial.rename(port_file)
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    match sys.argv[1:]:
        case ["stdio"]:
            asyncio.run(_serve_stdio())
        case ["http", port_file]:
            _serve_http(port_file)
        case ["http", port_file, port]:
            _serve_http(port_file, int(port))
        case _:
            sys.exit(__doc__)
