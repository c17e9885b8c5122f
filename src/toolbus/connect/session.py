"""One incarnation of a connection: every request bounded, every failure in our words.

A request runs in its caller's task, without lock or extra task. When the session ends, whoever is
still waiting is told at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

import anyio
import mcp_types as types
from mcp import Client
from mcp.client import InputRequiredRoundsExceededError
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, CallToolResult
from pydantic import ValidationError

from toolbus.config import ServerConfig
from toolbus.connect.deadlines import Deadlines
from toolbus.connect.diagnostics import Diagnostics, HttpActivity
from toolbus.connect.handlers import RequestHandler
from toolbus.connect.in_flight import CURRENT, CallsInFlight
from toolbus.connect.sdk import wire
from toolbus.connect.sdk.fast_call import send_raw, use_fast_calls
from toolbus.connect.sdk.input_required import HandlerMissing, Suspended, TaskStarted, missing_input
from toolbus.connect.sdk.output_check import OutputCheck
from toolbus.connect.sdk.result_filter import ResultFilter
from toolbus.connect.transports.delivery import DELIVERY, Delivery
from toolbus.connect.transports.jsonrpc import WireError
from toolbus.core.elicitation import Answer, Pending
from toolbus.core.errors import (
    ArgumentsError,
    AuthRequired,
    CallRejected,
    CallTimeout,
    InputNeeded,
    LinkLost,
    ToolbusError,
)
from toolbus.core.operation import CallInFlight
from toolbus.core.records import JSON, Era, JSONObject, TaskState, ToolResult
from toolbus.core.stderr import error_line

T = TypeVar("T")
RELEASE = 0.1
"""Seconds after the end of a session in which its requests have to be over."""


class Session:
    """A live connection to one server."""

    def __init__(
        self,
        config: ServerConfig,
        client: Client,
        result_filter: ResultFilter,
        diagnostics: Diagnostics,
        handler: RequestHandler,
        *,
        redacted: Callable[[str], str],
        warn: Callable[[str, str | None], None],
    ) -> None:
        self.config = config
        self.client = client
        self.result_filter = result_filter
        self._diagnostics = diagnostics
        self._redacted = redacted
        self._warn = warn
        self.handler = handler
        self.calls_in_flight = CallsInFlight()
        self.deadlines = Deadlines()
        self._slots = asyncio.Semaphore(config.max_concurrency) if config.max_concurrency else None
        self.refused: AuthRequired | None = None
        """Set when the server no longer takes our credentials."""
        self.outputs: dict[str, OutputCheck] = {}
        """How to check the output of the tools that say what it looks like."""
        self.tasks_only: set[str] = set()
        """The tools that a server of the legacy era calls only as a task."""
        self.used = asyncio.get_running_loop().time()
        """When the last request was sent, by the clock of the loop."""
        use_fast_calls(
            client, result_filter, self._check_output, config.alias, handler.handled, self.tasks_only
        )
        handler.serve(client.session, self.calls_in_flight, self.deadlines)

    @property
    def server(self) -> str:
        return self.config.alias

    @property
    def protocol(self) -> str:
        """The negotiated protocol version."""
        return self.client.protocol_version

    @property
    def era(self) -> Era:
        return wire.era(self.protocol)

    @property
    def gone(self) -> asyncio.Event:
        """Set when the connection is over."""
        return self._diagnostics.gone

    @property
    def activity(self) -> HttpActivity | None:
        """Where an HTTP server listens, and when it was last used; None for other transports."""
        return self._diagnostics.activity

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self.deadlines.busy or self.calls_in_flight.any

    async def call_tool(
        self,
        in_flight: CallInFlight,
        arguments: Mapping[str, JSON],
        timeout: float,
        resumed: tuple[Pending, Mapping[str, Answer]] | None = None,
    ) -> ToolResult | TaskState:
        """Call a tool, or go on with a call that waited; the server may make a task of it."""
        tool = in_flight.tool
        assert tool is not None, "only tools are called"
        # Taken now: once the link is lost the client has none, and that is not why a request fails.
        inner = self.client.session
        with self.calls_in_flight.under_way(in_flight):
            responses = None if resumed is None else await self.responses(resumed[0].requests, resumed[1])
            clock = asyncio.timeout(timeout)
            extends = in_flight.longest is not None
            progress = self._extending(in_flight, clock, timeout) if extends else in_flight.on_progress

            async def send(client: Client) -> CallToolResult:
                call = partial(
                    client.call_tool,
                    tool,
                    dict(arguments),
                    progress_callback=progress,
                    input_responses=responses,
                    request_state=resumed[0].state if resumed else None,
                )
                try:
                    return await call()
                except MCPError as error:
                    if not await self.handler.visited(inner, error):
                        raise
                    return await call()

            what = f"tool {tool!r}"
            free = send if self._slots is None else _when_free(self._slots, send)
            try:
                return wire.tool_result(await self.request(what, free, timeout, clock))
            except Suspended as asked:
                rounds = 1 + (resumed[0].rounds if resumed else 0)
                return self._waiting(tool, arguments, asked, rounds)
            except TaskStarted as started:
                return self.task_state(what, started.task)

    def _extending(self, in_flight: CallInFlight, clock: asyncio.Timeout, timeout: float) -> ProgressFnT:
        """Progress that gives the call more time."""
        last = asyncio.get_running_loop().time() + max(in_flight.longest or 0, timeout)
        stood, report = self.deadlines.paused_seconds, in_flight.on_progress

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            self.deadlines.extend(clock, timeout, last + self.deadlines.paused_seconds - stood)
            if report is not None:
                await report(progress, total, message)

        return progressed

    def _waiting(self, tool: str, arguments: Mapping[str, JSON], asked: Suspended, rounds: int) -> ToolResult:
        if rounds > self.handler.rounds:
            message = f"it asked more than {self.handler.rounds} times in one call"
            raise CallRejected(self.server, f"tool {tool!r}", INTERNAL_ERROR, message)
        pending = Pending(
            server=self.server,
            tool=tool,
            arguments=dict(arguments),
            requests=asked.requests,
            state=asked.state,
            rounds=rounds,
        )
        return ToolResult.waiting(pending)

    def task_state(self, what: str, raw: dict[str, JSON]) -> TaskState:
        """How a task is doing, by what the server says of it."""
        try:
            return wire.task_state(raw)
        except (ValidationError, ValueError) as error:
            failed = self._failed(error, what)
            assert failed is not None, "what is not valid is a failure"
            raise failed from error

    async def responses(
        self, requests: JSONObject, answers: Mapping[str, Answer]
    ) -> dict[str, types.InputResponse]:
        """What a person said to requests of the server, and what the handlers say to the rest."""
        return await self.handler.responses(self.client.session, requests, answers)

    async def tools_page(self, cursor: str | None, timeout: float) -> dict[str, JSON]:
        """One page of the list of tools, as the server sent it."""
        return await self.request(
            "the list of tools",
            lambda client: send_raw(
                client, self.result_filter, "tools/list", {"cursor": cursor} if cursor else {}
            ),
            timeout,
        )

    async def probe(self) -> None:
        """Ask for a sign of life; any answer is one."""

        async def ask(client: Client) -> None:
            if self.era == "modern":  # which has no ping
                await client.session.send_discover(self.protocol)
            else:
                await client.session.send_ping()

        try:
            await self.request("the health probe", ask, self.config.timeouts.list)
        except CallRejected as error:
            if error.status is not None:
                raise

    async def request(
        self,
        what: str,
        send: Callable[[Client], Awaitable[T]],
        timeout: float,
        clock: asyncio.Timeout | None = None,
    ) -> T:
        """Send through the SDK's client; raises `ToolbusError` for whatever goes wrong."""
        if self._diagnostics.lost is not None:
            raise self.lost(what, sent=False)
        clock, heard = clock or asyncio.timeout(timeout), self._diagnostics.stderr_count
        self.used = asyncio.get_running_loop().time()
        delivery = Delivery()
        token = DELIVERY.set(delivery)
        try:
            return await self.deadlines.run(clock, send(self.client))
        except TimeoutError as error:
            if self._diagnostics.lost is not None:
                raise self.lost(what, sent=delivery.may_have_arrived) from None
            raise CallTimeout(self.server, what, timeout, self._diagnostics.stderr_tail(heard)) from error
        except Exception as error:
            failed = self._failed(error, what)
            if failed is None:
                raise
            raise failed from error
        finally:
            DELIVERY.reset(token)

    def _failed(self, error: Exception, what: str) -> ToolbusError | None:
        """What went wrong, in our words; None for what is no failure of a request."""
        match error:
            case MCPError():
                in_flight = CURRENT.get()
                if in_flight is not None and in_flight.unanswered is not None:
                    return InputNeeded(self.server, what, in_flight.unanswered)
                return self._translated(error, what)
            case HandlerMissing():
                return InputNeeded(self.server, what, error.request)
            case InputRequiredRoundsExceededError():
                message = f"it asked more than {error.max_rounds} times in one call"
            case ValidationError():
                message = f"the answer is not valid: {_first(error)}"
            case ValueError() | TypeError():
                # The SDK dumps the request to JSON before it sends: that is what fails this way.
                return ArgumentsError(what, f"cannot be sent as JSON: {error}")
            case RuntimeError() | OSError() | anyio.ClosedResourceError() | anyio.BrokenResourceError():
                if self._diagnostics.lost is not None or isinstance(error, anyio.ClosedResourceError):
                    return self.lost(what)
                message = self._redacted(str(error))
            case ExceptionGroup():
                message = f"what it asked could not be answered: {error.exceptions[0]}"
            case _:
                return None
        return CallRejected(self.server, what, INTERNAL_ERROR, message)

    def end(self, reason: str) -> None:
        """Release everyone who waits: their requests fail with `LinkLost`, the server is told to stop."""
        self._diagnostics.mark_lost(reason)
        # A moment later, because most transports know better which of them had been sent.
        self.deadlines.expire(RELEASE)

    async def _check_output(self, name: str, result: CallToolResult) -> None:
        check = self.outputs.get(name)
        if check is not None and (fault := check.fault(result.structured_content)):
            # The SDK would throw the result away; the data is worth more than its form.
            self._warn(f"the output does not match its schema: {fault}", name)

    def lost(self, what: str | None = None, *, sent: bool = True) -> LinkLost:
        """The error that says why the session is over, and what that cut off."""
        reason = self._diagnostics.lost or "the connection is closed"
        if self._diagnostics.exit_code is not None:
            reason = f"{reason}, {self._diagnostics.exit_status}"
        if what is None and (tail := self._diagnostics.stderr_tail()):
            reason = f"{reason}; on stderr: {error_line(tail) or tail[-1]}"
        return LinkLost(self.server, what, reason, sent=sent)

    def _translated(self, error: MCPError, what: str) -> ToolbusError:
        lines = self._redacted(error.message).splitlines()
        text = lines[0] if lines else "no reason given"
        if isinstance(error, WireError):
            if error.status in (401, 403):
                self.refused = AuthRequired(self.server, "call", error.status)
            if error.lost or self.refused is not None:
                self.end(text)
            if error.lost or error.status is None:
                return LinkLost(self.server, what, text, sent=error.sent)
            if wanted := missing_input(error):
                return InputNeeded(self.server, what, wanted)
            return CallRejected(self.server, what, error.code, text, error.status)
        if wanted := missing_input(error):
            return InputNeeded(self.server, what, wanted)
        # Also what many a server answers of its own; only the SDK's wire in memory means by it what it says.
        if error.code == CONNECTION_CLOSED and (self.gone.is_set() or self.config.transport == "memory"):
            return self.lost(what)
        return CallRejected(self.server, what, error.code, text)


def _when_free(
    slots: asyncio.Semaphore, send: Callable[[Client], Awaitable[T]]
) -> Callable[[Client], Awaitable[T]]:
    async def sent(client: Client) -> T:
        async with slots:
            return await send(client)

    return sent


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
