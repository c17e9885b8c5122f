"""One connection: every request has a deadline, every failure is a `ToolbusError`.

A request runs in its caller's task, without a lock or an extra task. When the session ends, requests in
flight fail at once.
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
from mcp_types import CONNECTION_CLOSED, CallToolResult
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
from toolbus.connect.transports.http import AUTH_STATUSES
from toolbus.connect.transports.jsonrpc import WireError
from toolbus.core.elicitation import Answer, Pending
from toolbus.core.errors import (
    INTERNAL_ERROR,
    ArgumentsError,
    AuthRequired,
    CallRejected,
    CallTimeout,
    InputNeeded,
    LinkLost,
    ToolbusError,
    too_many_questions,
)
from toolbus.core.operation import CallInFlight, Resumed
from toolbus.core.records import JSON, Era, JSONObject, TaskState, ToolResult
from toolbus.core.stderr import error_line

T = TypeVar("T")
RELEASE = 0.1
"""Seconds after the end of a session within which its requests end."""


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
        """Set when the server no longer accepts the credentials."""
        self.outputs: dict[str, OutputCheck] = {}
        """The checks of tools that have an output schema."""
        self.tasks_only: set[str] = set()
        """The tools that a legacy server runs only as tasks."""
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
        """Set when the connection has ended."""
        return self._diagnostics.gone

    @property
    def activity(self) -> HttpActivity | None:
        """The host and port of an HTTP server, and when it was last used; None for other transports."""
        return self._diagnostics.activity

    @property
    def busy(self) -> bool:
        """Whether a request is in flight."""
        return self.deadlines.busy or self.calls_in_flight.busy

    async def call_tool(
        self,
        in_flight: CallInFlight,
        arguments: Mapping[str, JSON],
        timeout: float,
        resumed: Resumed | None = None,
    ) -> ToolResult | TaskState:
        """Call a tool, or resume a suspended call; the server may turn it into a task."""
        tool = in_flight.tool
        assert tool is not None, "only tools are called"
        # Taken now: once the link is lost, the client has none and would hide why the request failed.
        inner = self.client.session
        with self.calls_in_flight.track(in_flight):
            pending = None if resumed is None else resumed.pending
            responses = await self.responses(resumed.pending.requests, resumed.answers) if resumed else None
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
                    request_state=pending.state if pending else None,
                )
                try:
                    return await call()
                except MCPError as error:
                    if not await self.handler.ask_to_visit(inner, error):
                        raise
                    return await call()

            what = f"tool {tool!r}"
            limited = send if self._slots is None else _with_slot(self._slots, send)
            try:
                return wire.tool_result(await self.request(what, limited, timeout, clock))
            except Suspended as asked:
                rounds = 1 + (pending.rounds if pending else 0)
                return self._suspended(tool, arguments, asked, rounds)
            except TaskStarted as started:
                return self.task_state(what, started.task)

    def _extending(self, in_flight: CallInFlight, clock: asyncio.Timeout, timeout: float) -> ProgressFnT:
        """A progress callback that extends the timeout of the call."""
        last = asyncio.get_running_loop().time() + max(in_flight.longest or 0, timeout)
        paused_before, report = self.deadlines.paused_seconds, in_flight.on_progress

        async def extend_and_report(progress: float, total: float | None, message: str | None) -> None:
            self.deadlines.extend(clock, timeout, last + self.deadlines.paused_seconds - paused_before)
            if report is not None:
                await report(progress, total, message)

        return extend_and_report

    def _suspended(
        self, tool: str, arguments: Mapping[str, JSON], asked: Suspended, rounds: int
    ) -> ToolResult:
        if rounds > self.handler.question_limit:
            raise too_many_questions(self.server, f"tool {tool!r}", self.handler.question_limit)
        pending = Pending(
            server=self.server,
            tool=tool,
            arguments=dict(arguments),
            requests=asked.requests,
            state=asked.state,
            rounds=rounds,
        )
        return ToolResult.from_pending(pending)

    def task_state(self, what: str, raw: dict[str, JSON]) -> TaskState:
        """The state of a task, from the server's response."""
        try:
            return wire.task_state(raw)
        except (ValidationError, ValueError) as error:
            failed = self._to_error(error, what)
            assert failed is not None, "an invalid response is a failure"
            raise failed from error

    async def responses(
        self, requests: JSONObject, answers: Mapping[str, Answer]
    ) -> dict[str, types.InputResponse]:
        """The person's answers to the server's requests, and the handlers' answers to the rest."""
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
        """Check that the server responds; an error counts."""

        async def ask(client: Client) -> None:
            if self.era == "modern":  # it has no ping
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
        """Send through the SDK's client; raises `ToolbusError` for every failure."""
        if self._diagnostics.lost is not None:
            raise self.loss_error(what, sent=False)
        clock, stderr_before = clock or asyncio.timeout(timeout), self._diagnostics.stderr_count
        self.used = asyncio.get_running_loop().time()
        delivery = Delivery()
        token = DELIVERY.set(delivery)
        try:
            return await self.deadlines.run(clock, send(self.client))
        except TimeoutError as error:
            if self._diagnostics.lost is not None:
                raise self.loss_error(what, sent=delivery.may_have_arrived) from None
            raise CallTimeout(
                self.server, what, timeout, self._diagnostics.stderr_tail(stderr_before)
            ) from error
        except Exception as error:
            failed = self._to_error(error, what)
            if failed is None:
                raise
            raise failed from error
        finally:
            DELIVERY.reset(token)

    def _to_error(self, error: Exception, what: str) -> ToolbusError | None:
        """The failure as a `ToolbusError`; None if it is not a failure of a request."""
        match error:
            case MCPError():
                in_flight = CURRENT.get()
                if in_flight is not None and in_flight.unanswered is not None:
                    return InputNeeded(self.server, what, in_flight.unanswered)
                return self._from_mcp_error(error, what)
            case HandlerMissing():
                return InputNeeded(self.server, what, error.request)
            case InputRequiredRoundsExceededError():
                return too_many_questions(self.server, what, error.max_rounds)
            case ValidationError():
                message = f"invalid response: {_first_problem(error)}"
            case ValueError() | TypeError():
                # The SDK encodes the request as JSON before it sends it: that failed.
                return ArgumentsError(what, f"cannot be sent as JSON: {error}")
            case RuntimeError() | OSError() | anyio.ClosedResourceError() | anyio.BrokenResourceError():
                if self._diagnostics.lost is not None or isinstance(error, anyio.ClosedResourceError):
                    return self.loss_error(what)
                message = self._redacted(str(error))
            case ExceptionGroup():
                message = f"its request for input failed: {error.exceptions[0]}"
            case _:
                return None
        return CallRejected(self.server, what, INTERNAL_ERROR, message)

    def end(self, reason: str) -> None:
        """End the session: requests in flight are cancelled and fail with `LinkLost`."""
        self._diagnostics.mark_lost(reason)
        # A moment later, because most transports first report which of them were sent.
        self.deadlines.expire(RELEASE)

    async def _check_output(self, name: str, result: CallToolResult) -> None:
        check = self.outputs.get(name)
        if check is not None and (fault := check.fault(result.structured_content)):
            # The SDK would discard the result; the data is still useful.
            self._warn(f"the output does not match its schema: {fault}", name)

    def loss_error(self, what: str | None = None, *, sent: bool = True) -> LinkLost:
        """The error that explains why the session ended, and which request it interrupted."""
        reason = self._diagnostics.lost or "the connection is closed"
        if self._diagnostics.exit_code is not None:
            reason = f"{reason}, {self._diagnostics.exit_status}"
        if what is None and (tail := self._diagnostics.stderr_tail()):
            reason = f"{reason}; on stderr: {error_line(tail) or tail[-1]}"
        return LinkLost(self.server, what, reason, sent=sent)

    def _from_mcp_error(self, error: MCPError, what: str) -> ToolbusError:
        lines = self._redacted(error.message).splitlines()
        text = lines[0] if lines else "no reason given"
        if isinstance(error, WireError):
            if error.status in AUTH_STATUSES:
                self.refused = AuthRequired(self.server, "call", error.status)
            if error.lost or self.refused is not None:
                self.end(text)
            if error.lost or error.status is None:
                return LinkLost(self.server, what, text, sent=error.sent)
        if needed := missing_input(error):
            return InputNeeded(self.server, what, needed)
        status = error.status if isinstance(error, WireError) else None
        # Many servers send this code themselves; only the SDK's memory transport means a closed connection.
        is_closed = self.gone.is_set() or self.config.transport == "memory"
        if status is None and error.code == CONNECTION_CLOSED and is_closed:
            return self.loss_error(what)
        return CallRejected(self.server, what, error.code, text, status)


def _with_slot(
    slots: asyncio.Semaphore, send: Callable[[Client], Awaitable[T]]
) -> Callable[[Client], Awaitable[T]]:
    async def send_with_slot(client: Client) -> T:
        async with slots:
            return await send(client)

    return send_with_slot


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
