"""A fake server: a real MCP server in this process, made of functions, that fails when it is told to."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias, cast

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ServerEvent, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from toolbus.core.values.elicitation import Answer
from toolbus.core.values.errors import ToolNotFound
from toolbus.core.values.records import JSONObject
from toolbus.testing.calls import ToolCall

Function: TypeAlias = Callable[..., Any]
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_QUESTION = "question"
"""The key of the question of a modern server."""
_MODERN = "2026"
"""The year of the first version of the modern protocol."""


class FakeServer(MCPServer):
    """An MCP server of your functions, sync or async, for a bus or `connect_mcp`.

        fake = FakeServer({"add": add})
        async with Toolbus({"servers": {"math": {"server": fake}}}) as bus:
            await bus.call("math_add", {"a": 1, "b": 2})
        assert fake.calls == [ToolCall("add", {"a": 1, "b": 2})]

    `calls` has the calls that it received, and `answers` the answers of people to the questions of `ask`.
    Schemas and descriptions come from signatures and docstrings; a parameter without a type is a text. Its
    switches apply to all connections, and work from any thread.
    """

    def __init__(
        self,
        tools: Mapping[str, Function] | Iterable[Function] = (),
        *,
        name: str = "fake",
        instructions: str | None = None,
    ) -> None:
        """Take functions by name, or a list of functions; `@fake.tool()` and `fake.add_tool` add others."""
        self.calls: list[ToolCall] = []
        """The calls that it has received."""
        self.answers: list[Answer] = []
        """The answers of people to its questions."""
        self._names: dict[str, None] = {}
        self._delays: dict[str, float] = {}
        self._faults: dict[str, list[_Fault]] = {}
        self._questions: dict[str, ElicitRequestFormParams] = {}
        self._links: dict[object, tuple[asyncio.AbstractEventLoop, Callable[[str], None]]] = {}
        """The callbacks that report a crash, with their loops."""
        self._clients: set[_Client] = set()
        self._changes = _Changes()
        with _no_logging_setup():
            super().__init__(
                name,
                instructions=instructions,
                lifespan=self._connected,
                subscriptions=self._changes,
                middleware=[self._serve],
            )
        if callable(tools):
            raise TypeError("FakeServer takes a list of functions, or functions by name; put it in a list")
        by_name: Mapping[str, Function] = (
            cast("Mapping[str, Function]", tools)
            if isinstance(tools, Mapping)
            else {function.__name__: function for function in tools}
        )
        for named, function in by_name.items():
            self.add_tool(function, named)

    def __repr__(self) -> str:
        return f"<FakeServer {self.name}: {', '.join(self._names) or 'no tools'}>"

    # What it is told to do

    def delay(self, tool: str, seconds: float) -> None:
        """Let each call of a tool take that long from now on; 0 ends it."""
        self._delays[self._known(tool)] = seconds

    def fail(
        self, tool: str, message: str = "it failed", *, code: int | None = None, times: int | None = 1
    ) -> None:
        """Let the next calls of a tool report this error; with a `code`, as an error of the protocol.

        With `times=None`, each call fails. Several failures of one tool happen one after the other.
        """
        if code == CONNECTION_CLOSED:
            raise ValueError(f"{code} means that the connection was closed; use crash()")

        async def happen() -> NoReturn:
            raise ToolError(message) if code is None else MCPError(code, message)

        self._faults.setdefault(self._known(tool), []).append(_Fault(happen, times))

    def crash(self, tool: str | None = None, *, times: int | None = 1) -> None:
        """End all connections now; with a `tool`, during its next calls.

        It can be connected to again at once, as a server whose process is started again.
        """
        if tool is not None:
            self._faults.setdefault(self._known(tool), []).append(_Fault(self._crash_in_call, times))
            return
        for loop, lost in tuple(self._links.values()):
            _soon(loop, lambda lost=lost: lost("the server crashed"))

    def on_crash(self, lost: Callable[[str], None]) -> Callable[[], None]:
        """Call `lost` in the current loop when it crashes, as buses do; returns how to end that."""
        token = object()
        self._links[token] = asyncio.get_running_loop(), lost
        return lambda: self._links.pop(token, None) and None

    def reset(self, tool: str | None = None) -> None:
        """Forget delays, failures, crashes and questions, of one tool or of all."""
        for told in (self._delays, self._faults, self._questions):
            if tool is None:
                told.clear()
            else:
                told.pop(self._known(tool), None)

    def ask(self, tool: str, message: str, fields: Mapping[str, type | JSONObject] | None = None) -> None:
        """Ask a person before each call of a tool: to agree, or to fill in a form with these fields.

        A field is a type (`str`, `int`, `float`, `bool`) or a JSON Schema. Unless the person accepts, the
        call fails. `answers` has what they said.
        """
        properties = {
            name: {"type": _TYPES[kind]} if isinstance(kind, type) else dict(kind)
            for name, kind in (fields or {}).items()
        }
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        self._questions[self._known(tool)] = ElicitRequestFormParams(message=message, requested_schema=schema)

    def add_tool(self, fn: Function, name: str | None = None, *args: Any, **options: Any) -> None:
        """Add a function as a tool, or replace the tool of that name; connected clients are told."""
        added = name or fn.__name__
        if added in self._names:
            super().remove_tool(added)
        super().add_tool(fn, added, *args, **options)
        self._names[added] = None
        self._announce()

    def remove_tool(self, name: str) -> None:
        """Remove a tool; connected clients are told."""
        super().remove_tool(self._known(name))
        del self._names[name]
        self._announce()

    def _known(self, tool: str) -> str:
        if tool not in self._names:
            raise ToolNotFound(tool, list(self._names))
        return tool

    def _announce(self) -> None:
        self._changes.tell(ToolsListChanged())
        for client in tuple(self._clients):
            _soon(client.loop, client.tell_changed)

    # What it does

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Answer a call, as it was told to."""
        if context is None or context.input_responses is None:  # else it continues
            self.calls.append(ToolCall(name, dict(arguments)))
            await anyio.sleep(self._delays.get(name, 0))
            for fault in self._faults.get(name, ()):
                if fault.take():
                    await fault.happen()
        if context is not None and name in self._questions:
            answer = await self._answer(self._questions[name], context)
            if isinstance(answer, InputRequiredResult):
                return answer
            self.answers.append(Answer(action=answer.action, content=answer.content))
            if answer.action != "accept":
                raise ToolError(f"the answer to {self._questions[name].message!r} was: {answer.action}")
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError as error:  # a test wants to read what was raised
            raise ToolError(f"{type(error.__cause__).__name__}: {error.__cause__}") from error

    async def _answer(
        self, question: ElicitRequestFormParams, context: Context[Any, Any]
    ) -> ElicitResult | InputRequiredResult:
        if (context.protocol_version or "") < _MODERN:
            return await context.session.elicit_form(question.message, question.requested_schema)
        given = (context.input_responses or {}).get(_QUESTION)
        if isinstance(given, ElicitResult):
            return given
        return InputRequiredResult(input_requests={_QUESTION: ElicitRequest(params=question)})

    async def _crash_in_call(self) -> NoReturn:
        self.crash()
        await anyio.sleep_forever()
        raise AssertionError("the crash has cancelled the call")

    @asynccontextmanager
    async def _connected(self, _: MCPServer) -> "AsyncGenerator[_Client]":
        client = _Client()
        self._clients.add(client)
        try:
            yield client
        finally:
            self._clients.discard(client)

    async def _serve(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "initialize":
            ctx.lifespan_context.session = ctx.session
        return await call_next(ctx)


@dataclass(slots=True)
class _Fault:
    """An event in the next calls of a tool."""

    happen: Callable[[], Awaitable[NoReturn]]
    times: int | None

    def take(self) -> bool:
        """Whether it happens in this call."""
        if self.times is None:
            return True
        self.times -= 1
        return self.times >= 0


@dataclass(slots=True, eq=False)
class _Client:
    """One client of a fake server."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    session: ServerSession | None = None
    """Its session, if it uses the legacy protocol."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def tell_changed(self) -> None:
        """Notify a legacy client that the tools have changed; modern ones have subscribed to that."""
        if self.session is not None:
            task = self.loop.create_task(self.session.send_tool_list_changed())
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)


def _soon(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    """Do something in a loop: at once, or before anything that is passed to that loop later."""
    here = None
    with suppress(RuntimeError):  # no loop is running here
        here = asyncio.get_running_loop()
    if here is loop:
        work()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(work)


class _Changes:
    """The subscriptions of modern clients, each told in its own loop."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[asyncio.AbstractEventLoop, Callable[[ServerEvent], None]]] = {}

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Call a listener in the current loop; returns how to end that."""
        token = object()
        self._listeners[token] = asyncio.get_running_loop(), listener
        return lambda: self._listeners.pop(token, None) and None

    async def publish(self, event: ServerEvent) -> None:
        """Tell all listeners, soon."""
        self.tell(event)

    def tell(self, event: ServerEvent) -> None:
        """As `publish`, from any thread."""
        for loop, listener in tuple(self._listeners.values()):
            _soon(loop, lambda listener=listener: listener(event))


@contextmanager
def _no_logging_setup() -> Generator[None]:
    """Keep the SDK's server from setting up logging, which it does unless the root logger has a handler."""
    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
