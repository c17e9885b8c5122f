"""A server with the tasks extension, with the tools that the MCP conformance suite asks for.

Run it: `python tasks_server.py stdio`, or `python tasks_server.py http PORT_FILE [PORT]`. A client that
declares the extension gets tasks; for others a tool runs at once, asks through its result, or needs the
extension.
"""

import asyncio
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER
from pydantic import Field

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script, too
from tests.gateway.everything_calls import Json, Questions, Rejected
from tests.gateway.tasks_tools import ASKS_FIRST, TOOLS, Work, task_support
from tests.servers.everyday import serve_app

Context = ServerRequestContext[Any, Any]
EXTENSION = "io.modelcontextprotocol/tasks"
TTL = 300_000
POLL = 100
"""Both in milliseconds."""


class TaskParams(types.RequestParams):
    """The parameters of requests about a task."""

    task_id: str
    input_responses: dict[str, Any] = Field(default_factory=dict[str, Any])


class Task:
    """Work that goes on after its call was answered."""

    def __init__(self, work: Work, arguments: Json, answers: Mapping[str, Json]) -> None:
        self.id = f"task-{uuid4().hex}"
        self._created = self._changed = _now()
        self._end: Json | None = None
        self._asked: dict[str, Json] = {}
        self._given: dict[str, Json] = dict(answers)
        self._answered = asyncio.Event()
        self._running = asyncio.create_task(self._run(work, arguments))

    async def _run(self, work: Work, arguments: Json) -> None:
        try:
            self._finish("completed", result=await work(arguments, self._ask))
        except Rejected as error:
            self._finish("failed", error={"code": error.code, "message": str(error)})

    def _finish(self, status: str, **more: Json) -> None:
        self._end = {"status": status, **more}
        self._changed = _now()

    async def _ask(self, requests: dict[str, Json]) -> Mapping[str, Json]:
        self._asked = {key: request for key, request in requests.items() if key not in self._given}
        while self._asked:
            self._answered.clear()
            await self._answered.wait()
        return {key: self._given[key] for key in requests}

    def update(self, answers: Mapping[str, Json]) -> None:
        """Take the answers that were asked for; the task goes on once it has all."""
        for key in self._asked.keys() & answers.keys():
            self._given[key] = answers[key]
            del self._asked[key]
            self._changed = _now()
        self._answered.set()

    def cancel(self) -> None:
        """End it, unless it has ended."""
        if self._end is None:
            self._running.cancel()
            self._finish("cancelled")

    def summary(self) -> Json:
        """The immediate facts: no result, no questions."""
        status = "input_required" if self._asked else "working"
        return {
            "taskId": self.id,
            "status": status if self._end is None else self._end["status"],
            "createdAt": self._created,
            "lastUpdatedAt": self._changed,
            "ttlMs": TTL,
            "pollIntervalMs": POLL,
        }

    def details(self) -> Json:
        """All there is to know."""
        if self._end is not None:
            return self.summary() | self._end
        return self.summary() | ({"inputRequests": self._asked} if self._asked else {})


def _now() -> str:
    return datetime.now(UTC).isoformat()


class Tasks:
    """The handlers of one server, and its tasks."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    async def list_tools(self, ctx: Context, params: Any) -> Any:
        """All tools."""
        return {"tools": [tool for tool, _ in TOOLS.values()], **_complete(ctx)}

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        """Run a tool, ask what it needs, or make a task of it."""
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        tool, work = TOOLS[params.name]
        support, declared = task_support(tool), _declares_tasks(ctx)
        if support == "required" and not declared:
            raise _needs_extension()
        answers = {key: _dumped(answer) for key, answer in (params.input_responses or {}).items()}
        becomes_task = support is not None and declared
        if not becomes_task or (params.name == ASKS_FIRST and not answers):
            return await _at_once(ctx, work, dict(params.arguments or {}), answers)
        task = Task(work, dict(params.arguments or {}), answers)
        self._tasks[task.id] = task
        return {"resultType": "task", **task.summary()}

    async def get(self, ctx: Context, params: TaskParams) -> Json:
        """The state of a task."""
        return {"resultType": "complete", **self._task(ctx, params).details()}

    async def update(self, ctx: Context, params: TaskParams) -> Json:
        """Answer what a task asked for."""
        self._task(ctx, params).update(params.input_responses)
        return {"resultType": "complete"}

    async def cancel(self, ctx: Context, params: TaskParams) -> Json:
        """Stop a task."""
        self._task(ctx, params).cancel()
        return {"resultType": "complete"}

    def _task(self, ctx: Context, params: TaskParams) -> Task:
        if not _declares_tasks(ctx):
            raise _needs_extension()
        if ctx.request is not None and ctx.request.headers.get(MCP_NAME_HEADER) != params.task_id:
            raise MCPError(types.HEADER_MISMATCH, "the Mcp-Name header is not the id of the task")
        if params.task_id not in self._tasks:
            raise MCPError(types.INVALID_PARAMS, f"Unknown task: {params.task_id}")
        return self._tasks[params.task_id]


async def _at_once(ctx: Context, work: Work, arguments: Json, answers: Mapping[str, Json]) -> Json:
    """The result, or the questions to answer first."""

    async def ask(requests: dict[str, Json]) -> Mapping[str, Json]:
        if missing := {key: request for key, request in requests.items() if key not in answers}:
            raise _Unanswered(Questions(requests=missing))
        return answers

    try:
        return {**_complete(ctx), **await work(arguments, ask)}
    except _Unanswered as error:
        return {"resultType": "input_required", "inputRequests": error.questions.requests}
    except Rejected as error:
        raise MCPError(error.code, str(error)) from None


class _Unanswered(Exception):
    def __init__(self, questions: Questions) -> None:
        super().__init__("questions are open")
        self.questions = questions


def _declares_tasks(ctx: Context) -> bool:
    declared = ctx.session.client_capabilities
    is_modern = ctx.protocol_version >= "2026"
    return is_modern and declared is not None and EXTENSION in (declared.extensions or {})


def _needs_extension() -> MCPError:
    needed: Json = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs the tasks extension.", needed)


def _complete(ctx: Context) -> Json:
    return {"resultType": "complete"} if ctx.protocol_version >= "2026" else {}


def _dumped(answer: Any) -> Json:
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def tasks_server(name: str = "tasks") -> Server[Any]:
    """A fresh server; each has its own tasks."""
    own = Tasks()
    server: Server[Any] = Server(
        name,
        version="1.0",
        cache_hints={"tools/list": CacheHint(ttl_ms=60_000)},
        on_list_tools=own.list_tools,
        on_call_tool=own.call_tool,
    )
    server.extensions = {EXTENSION: {}}
    server.add_request_handler("tasks/get", TaskParams, own.get)
    server.add_request_handler("tasks/update", TaskParams, own.update)
    server.add_request_handler("tasks/cancel", TaskParams, own.cancel)
    return server


async def _serve_stdio() -> None:
    server = tasks_server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            asyncio.run(_serve_stdio())
        case ["http", port_file]:
            serve_app(tasks_server().streamable_http_app(), port_file, parser="h11")
        case ["http", port_file, port]:
            serve_app(tasks_server().streamable_http_app(), port_file, int(port), "h11")
        case _:
            sys.exit(__doc__)
