"""A server that asks back, in both eras: forms, addresses, a model, folders; with prompts, resources, a log.

Run it: `python asking.py stdio`, or `python asking.py http|sse PORT_FILE [PORT]`.
"""

import asyncio
import base64
import contextlib
import os
import sys
import warnings
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import (
    Context,
    Elicit,
    ElicitationResult,
    ListRoots,
    MCPServer,
    RequestStateSecurity,
    Resolve,
    Sample,
)
from mcp.server.mcpserver.prompts.base import Message
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script, too
from tests.servers.everyday import PNG, serve_http

KEY = b"the same in every process, so that a call can be resumed in another one"
TASKS = "io.modelcontextprotocol/tasks"


class Booking(BaseModel):
    """A form with a default, a choice, a number and a yes or no."""

    date: str = Field(description="Which day?", json_schema_extra={"format": "date"})
    seats: int = Field(default=2, ge=1, le=8, description="For how many?")
    place: Literal["inside", "terrace"] = "inside"
    quiet: bool = False


class Sure(BaseModel):
    """A yes or no."""

    yes: bool


def asking(name: str = "asking") -> MCPServer:
    """A fresh server; each has its own state."""
    security = RequestStateSecurity(keys=[KEY], audience="asking")
    server: MCPServer = MCPServer(
        name,
        instructions="Ask before you book.",
        extensions=[Working()],
        request_state_security=security,
    )
    for part in (_asking_tools, _nagging_tools, _client_tools, _other_tools, _telling_tools):
        part(server)
    _content(server)
    _legacy_subscriptions(server)
    return server


def _asking_tools(server: MCPServer) -> None:
    def which_day(guest: str) -> Elicit[Booking]:
        return Elicit(f"When does {guest} come?", Booking)

    @server.tool(structured_output=False)
    async def book(guest: str, booking: Annotated[ElicitationResult[Booking], Resolve(which_day)]) -> str:
        """Book a table; asks for the rest."""
        if booking.action != "accept":
            return f"not booked: {booking.action}"
        given = booking.data
        return f"{guest}: {given.date}, {given.seats}, {given.place}, quiet {given.quiet}"

    def sure(guest: str) -> Elicit[Sure]:
        return Elicit(f"Is {guest} sure?", Sure)

    @server.tool(structured_output=False)
    async def twice(
        guest: str,
        booking: Annotated[Booking, Resolve(which_day)],
        word: Annotated[Sure, Resolve(sure)],
    ) -> str:
        """Asks two questions."""
        return f"{guest}: {booking.date}, sure {word.yes}"


def _nagging_tools(server: MCPServer) -> None:
    numbers = count(1)

    def endless() -> Elicit[Sure]:
        return Elicit(f"Are you sure, {next(numbers)}?", Sure)

    @server.tool(structured_output=False)
    async def nag(word: Annotated[Sure, Resolve(endless)]) -> str:
        """In the modern era the question is another one every time, so it is asked without end."""
        return "at last"

    @server.tool(structured_output=False)
    async def nag_back(ctx: Context) -> str:
        """The same in the legacy era: asks until it is refused."""
        for number in range(100):
            answer = await ctx.elicit(f"Are you sure, {number}?", Sure)
            if answer.action != "accept":
                return f"stopped at {number} by {answer.action}"
        return "asked a hundred times"


def _client_tools(server: MCPServer) -> None:
    def suggest(about: str) -> Sample:
        text = types.TextContent(text=f"A title about {about}?")
        return Sample(
            [types.SamplingMessage(role="user", content=text)],
            max_tokens=50,
            system_prompt="Be brief.",
            temperature=0.5,
        )

    @server.tool(structured_output=False)
    async def title(about: str, made: Annotated[types.CreateMessageResult, Resolve(suggest)]) -> str:
        """Has a model write a title."""
        said = made.content.text if isinstance(made.content, types.TextContent) else "?"
        return f"{said} ({made.model})"

    @server.tool(structured_output=False)
    async def folders(roots: Annotated[types.ListRootsResult, Resolve(lambda: ListRoots())]) -> str:
        """Which folders it may look at."""
        return " ".join(str(root.uri) for root in roots.roots)


def _is_legacy(ctx: Context) -> bool:
    return (ctx.protocol_version or "") < "2026"


def _other_tools(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def pay(ctx: Context, url: str = "https://pay.example/1") -> str:
        """Sends the user to an address; in the modern era by returning the question itself."""
        if _is_legacy(ctx):
            answer = await ctx.elicit_url("Pay there.", url, "payment-1")
            return f"payment: {answer.action}"
        given = (ctx.input_responses or {}).get("pay")
        if isinstance(given, types.ElicitResult):
            return f"payment: {given.action}"
        question = types.ElicitRequest(params=types.ElicitRequestURLParams(message="Pay there.", url=url))
        return types.InputRequiredResult(input_requests={"pay": question})  # type: ignore[return-value]

    @server.tool(structured_output=False)
    async def odd_form(ctx: Context) -> str:
        """Asks with a form that is none."""
        schema = {"type": "object", "properties": {"all": {"type": "object"}}}
        params = types.ElicitRequestFormParams(message="Everything?", requested_schema=schema)
        if _is_legacy(ctx):
            try:
                answer = await ctx.session.elicit_form("Everything?", schema)
            except Exception as error:
                return f"refused: {error}"
            return f"odd: {answer.action}"
        return types.InputRequiredResult(  # type: ignore[return-value]
            input_requests={"odd": types.ElicitRequest(params=params)}
        )


def _telling_tools(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def tell(ctx: Context, text: str, steps: int = 2) -> str:
        """Logs and reports, then gives the text back."""
        for step in range(steps):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # deprecated, and still what servers do
                await ctx.log("warning", f"{text} {step}")  # pyright: ignore[reportDeprecated]
            await ctx.report_progress(step + 1, steps, text)
            await asyncio.sleep(0.05)
        return text

    @server.tool(structured_output=False)
    async def tick(ctx: Context, times: int, seconds: float) -> str:
        """Reports every so many seconds, then ends."""
        for step in range(times):
            await asyncio.sleep(seconds)
            await ctx.report_progress(step + 1, times)
        return "done"

    @server.tool(structured_output=False)
    async def leave() -> str:
        """Ends the process in the middle of the call."""
        os._exit(3)

    @server.tool(structured_output=False)
    async def dig(depth: int, mode: str = "work") -> str:
        """Becomes a task, where the client can have one."""
        return f"dug {depth}"

    @server.tool(structured_output=False)
    async def write(text: str, ctx: Context) -> str:
        """Changes the board, and says so to whoever listens."""
        BOARD["now"] = text
        await ctx.notify_resource_updated("board://now")
        for session, uri in LISTENERS:
            with contextlib.suppress(Exception):  # one that has left
                await session.send_resource_updated(uri)
        return "written"


BOARD = {"now": "empty"}
LANGUAGES = ["go", "javascript", "python", "rust", "typescript"]


def _content(server: MCPServer) -> None:
    @server.resource("board://now", mime_type="text/plain")
    def board() -> str:
        """What is written there now."""
        return BOARD["now"]

    @server.resource("blob://big", mime_type="application/octet-stream")
    def big() -> bytes:
        """More than a kilobyte."""
        return bytes(2_000)

    @server.resource("code://{language}/{+path}")
    def code(language: str, path: str) -> str:
        """A file."""
        return f"{language} at {path}"

    @server.prompt()
    def review(language: str, code: str = "") -> list[Message]:
        """Review a piece of code."""
        text = types.TextResourceContents(uri="code://guide", text="Be kind.", mime_type="text/plain")
        return [
            Message(role="user", content=types.TextContent(text=f"Review this {language}: {code}")),
            Message(role="user", content=types.ImageContent(data=_base64(PNG), mime_type="image/png")),
            Message(role="user", content=types.EmbeddedResource(resource=text)),
            Message(role="assistant", content=types.TextContent(text="Gladly.")),
        ]

    @server.completion()
    async def complete(
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: types.CompletionArgument,
        context: types.CompletionContext | None,
    ) -> types.Completion | None:
        if argument.name == "language":
            return types.Completion(values=[name for name in LANGUAGES if name.startswith(argument.value)])
        if argument.name == "path" and context is not None:
            return types.Completion(values=[f"src/main.{(context.arguments or {}).get('language')}"])
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _legacy_subscriptions(server: MCPServer) -> None:
    """The SDK's server has them in the modern era only."""
    low: Any = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]

    async def subscribe(ctx: ServerRequestContext[Any, Any], params: types.SubscribeRequestParams) -> Any:
        LISTENERS.append((ctx.session, params.uri))
        return types.EmptyResult()

    async def unsubscribe(ctx: ServerRequestContext[Any, Any], params: types.UnsubscribeRequestParams) -> Any:
        LISTENERS[:] = [listener for listener in LISTENERS if listener[1] != params.uri]
        return types.EmptyResult()

    low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)


LISTENERS: list[tuple[Any, str]] = []


class TaskParams(types.RequestParams):
    """The parameters of requests about a task."""

    task_id: str
    input_responses: dict[str, Any] | None = None


class Task:
    """One call of `dig` as a task."""

    def __init__(self, number: int, depth: int, mode: str) -> None:
        self.id = f"task-{number}"
        self.depth = depth
        self.mode = mode
        self.looks = 0
        self.cancelled = False
        self.answers: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        """As the extension spells it; it moves on with every look."""
        self.looks += 1
        shown: dict[str, Any] = {
            "taskId": self.id,
            "status": "working",
            "statusMessage": f"at {self.looks}",
            "createdAt": "2026-11-15T10:00:00Z",
            "lastUpdatedAt": "2026-11-15T10:00:00Z",
            "ttlMs": 60_000,
            "pollIntervalMs": 50,
        }
        if self.cancelled:
            return shown | {"status": "cancelled"}
        if self.mode == "fail":
            return shown | {"status": "failed", "error": {"code": -32000, "message": "the ground is rock"}}
        if self.mode == "ask" and "sure" not in self.answers:
            params = {
                "mode": "form",
                "message": f"Dig {self.depth} deep?",
                "requestedSchema": Sure.model_json_schema(),
            }
            asked = {"sure": {"method": "elicitation/create", "params": params}}
            return shown | {"status": "input_required", "inputRequests": asked}
        if self.looks <= self.depth:
            return shown
        said = f", sure {self.answers['sure']}" if self.answers else ""
        content = [{"type": "text", "text": f"dug {self.depth} as a task{said}"}]
        return shown | {"status": "completed", "result": {"content": content}}


class Working(Extension):
    """Makes a task of every call of `dig`, if the client knows tasks."""

    identifier = TASKS

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """A task instead of a result."""
        declared = ctx.session.client_capabilities
        if params.name != "dig" or declared is None or TASKS not in (declared.extensions or {}):
            return await call_next(ctx)
        given = params.arguments or {}
        task = Task(len(TASK_STORE) + 1, given["depth"], given.get("mode", "work"))
        TASK_STORE[task.id] = task
        return {"resultType": "task", **task.state()}

    def methods(self) -> Sequence[MethodBinding]:
        """The three methods of the extension."""
        return [
            MethodBinding("tasks/get", TaskParams, self._get),
            MethodBinding("tasks/update", TaskParams, self._update),
            MethodBinding("tasks/cancel", TaskParams, self._cancel),
        ]

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        return {"resultType": "complete", **_task(params).state()}

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        _task(params).answers.update(params.input_responses or {})
        return {"resultType": "complete"}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        _task(params).cancelled = True
        return {"resultType": "complete"}


TASK_STORE: dict[str, Task] = {}


def _task(params: TaskParams) -> Task:
    if params.task_id not in TASK_STORE:
        raise MCPError(types.INVALID_PARAMS, f"there is no task {params.task_id!r}")
    return TASK_STORE[params.task_id]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            asking().run("stdio")
        case [("http" | "sse") as kind, port_file]:
            serve_http(asking(), kind, port_file)
        case [("http" | "sse") as kind, port_file, port]:
            serve_http(asking(), kind, port_file, int(port))
        case _:
            sys.exit(__doc__)
