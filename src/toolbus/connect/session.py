"""One connection: every request has a deadline, every failure is a `ToolbusError`.

A request runs in its caller's task, without a lock or an extra task. When the session ends, requests in
flight fail at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from math import inf
from typing import TypeVar

import anyio
import mcp_types as types
from mcp import Client
from mcp.client import InputRequiredRoundsExceededError
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, CallToolResult
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from toolbus.config import ServerConfig
from toolbus.connect.deadlines import Deadline, Deadlines
from toolbus.connect.handlers import RequestHandler
from toolbus.connect.in_flight import CURRENT, CallsInFlight
from toolbus.connect.opening.diagnostics import Diagnostics, first_problem, redacted_cause
from toolbus.connect.read_cache import ReadCache
from toolbus.connect.sdk import wire
from toolbus.connect.sdk.fast_call import CallSender, send_raw
from toolbus.connect.sdk.input_required import HandlerMissing, missing_input
from toolbus.connect.sdk.result_filter import ResultFilter
from toolbus.connect.transports.http import AUTH_STATUSES, status_cause
from toolbus.connect.transports.wire.pending import DELIVERY, Delivery, NotSendable, WireError
from toolbus.core.text.stderr import quoted
from toolbus.core.values.elicitation import Answer
from toolbus.core.values.errors import (
    INTERNAL_ERROR,
    ArgumentsError,
    AuthRequired,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    InputNeeded,
    ServerRejected,
    ToolbusError,
    too_many_questions,
)
from toolbus.core.values.records import JSON, Era, JSONObject, TaskState
from toolbus.schema.validator import InvalidSchema, Validator

T = TypeVar("T")
logger = logging.getLogger("toolbus")
RELEASE = 0.1
"""Seconds after the end of a session within which its requests end."""


class ServerSession:
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
        self.server = config.alias
        self.client = client
        self.protocol = client.protocol_version
        """The negotiated protocol version."""
        self.era: Era = wire.era(self.protocol)
        self.inner = client.session
        """The SDK's session; once the link is lost, the client has none, which would hide why."""
        self.result_filter = result_filter
        self._diagnostics = diagnostics
        self.gone = diagnostics.gone
        """Set when the connection has ended."""
        self.activity = diagnostics.activity
        """The host and port of an HTTP server, and when it was last used; None for other transports."""
        self._redacted = redacted
        self._warn = warn
        self.handler = handler
        self.calls_in_flight = CallsInFlight()
        self.deadlines = Deadlines()
        self.slots = asyncio.Semaphore(config.max_concurrency) if config.max_concurrency else None
        self.refused: AuthRequired | None = None
        """Set when the server no longer accepts the credentials."""
        self.outputs: dict[str, OutputCheck] = {}
        """The checks of tools that have an output schema."""
        self.reads = ReadCache()
        self.tasks_only: set[str] = set()
        """The tools that a legacy server runs only as tasks."""
        self.used = asyncio.get_running_loop().time()
        """The time of the last request, by the clock of the loop."""
        self.sender = CallSender(
            client,
            result_filter,
            self._check_sdk_output,
            config.alias,
            lambda: handler.handled,
            self.tasks_only,
        )
        handler.serve(client.session, self.calls_in_flight, self.deadlines)

    @property
    def busy(self) -> bool:
        return self.deadlines.busy or self.calls_in_flight.busy

    def task_state(self, what: str, raw: dict[str, JSON]) -> TaskState:
        """The state of a task, from the server's response."""
        try:
            return wire.task_state(raw)
        except (ValidationError, ValueError) as error:
            failed = self.to_error(error, what)
            assert failed is not None, "an invalid response is a failure"
            raise failed from self.cause(error)

    async def responses(
        self, requests: JSONObject, answers: Mapping[str, Answer]
    ) -> dict[str, types.InputResponse]:
        """The person's answers to the server's requests, and the handlers' answers to the rest."""
        return await self.handler.responses(self.inner, requests, answers)

    async def list_page(self, method: str, what: str, cursor: str | None, timeout: float) -> dict[str, JSON]:
        """One page of a list, as the server sent it."""
        params: dict[str, JSON] = {"cursor": cursor} if cursor else {}
        return await self.request(
            what, lambda client: send_raw(client, self.result_filter, method, params), timeout
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
        except ServerRejected as error:
            if error.status is not None:
                raise

    async def request(self, what: str, send: Callable[[Client], Awaitable[T]], timeout: float) -> T:
        """Send through the SDK's client; raises `ToolbusError` for every failure."""
        with self.exchange(what, timeout):
            return await send(self.client)

    def exchange(self, what: str, timeout: float) -> "RequestDeadline":
        """A context manager: a request within it has a deadline, and fails with a `ToolbusError`."""
        return RequestDeadline(self, self._diagnostics, what, timeout)

    def to_error(self, error: Exception, what: str) -> ToolbusError | None:
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
            case NotSendable():
                return ArgumentsError(what, self._redacted(f"cannot be sent as JSON: {error}"))
            case RuntimeError() | OSError() | anyio.ClosedResourceError() | anyio.BrokenResourceError():
                if self._diagnostics.lost is not None or isinstance(error, anyio.ClosedResourceError):
                    return self.loss_error(what)
            case PydanticSerializationError() if self.config.transport == "memory":
                # The SDK writes a request as JSON before it passes it on.
                return ArgumentsError(what, self._redacted(f"cannot be sent as JSON: {error}"))
            case _:
                pass
        problem = _response_problem(error)
        if problem is None:
            return None
        return ServerRejected(self.server, what, INTERNAL_ERROR, self._redacted(problem))

    def cause(self, error: Exception) -> BaseException:
        """The exception that an error of ours is raised from, without secrets."""
        return redacted_cause(error, self._redacted)

    def end(self, reason: str) -> None:
        """End the session: requests in flight are cancelled and fail with `ConnectionLost`."""
        self._diagnostics.mark_lost(reason)
        # A moment later, because most transports first report which of them were sent.
        self.deadlines.expire(RELEASE)

    def check_output(self, tool: str, output: JSON) -> None:
        """Warn about structured output that does not match the tool's schema; the data is still useful."""
        check = self.outputs.get(tool)
        if check is None:
            return
        try:
            problem = check.problem(output)
        except Exception:  # whatever an odd schema causes: the result must not be lost
            logger.exception("the output of tool %r of server %r cannot be checked", tool, self.server)
            problem = "the output is not checked: its schema cannot be used"
        if problem is not None:
            self._warn(self._redacted(problem), tool)

    async def _check_sdk_output(self, name: str, result: CallToolResult) -> None:
        self.check_output(name, result.structured_content)

    def loss_error(self, what: str | None = None, *, sent: bool = True) -> ConnectionLost:
        """The error that explains why the session ended, and which request it interrupted."""
        reason = self._redacted(self._diagnostics.lost or "the connection is closed")
        if self._diagnostics.exit_code is not None:
            reason = f"{reason}, {self._diagnostics.exit_status}"
        tail = self._diagnostics.stderr_tail() if what is None else ()
        output = quoted(tail, 1) if tail else ""
        return ConnectionLost(self.server, what, reason, sent=sent, output=output)

    def _from_mcp_error(self, error: MCPError, what: str) -> ToolbusError:
        lines = self._redacted(error.message).splitlines()
        text = lines[0] if lines else "no reason given"
        if isinstance(error, WireError):
            if isinstance(error.reported, AuthRequired) and error.status == 403:
                return error.reported  # only this request needs more
            if error.status is not None and error.status in AUTH_STATUSES:
                known = error.reported if isinstance(error.reported, AuthRequired) else None
                self.refused = known or AuthRequired(
                    self.server, "call", error.status, cause=status_cause(error.status, text)
                )
            if error.lost or self.refused is not None:
                self.end(text)
            if not error.lost and error.status is None and isinstance(error.reported, ConnectFailed):
                return error.reported  # a sign-in that may work later
            if error.lost or error.status is None:
                return ConnectionLost(self.server, what, text, sent=error.sent)
            if self.refused is not None and self.refused is error.reported:
                return self.refused
        in_flight = CURRENT.get()
        is_forwarded = in_flight is not None and in_flight.forwarding is not None
        if not is_forwarded and (needed := missing_input(error)):
            return InputNeeded(self.server, what, needed)
        status = error.status if isinstance(error, WireError) else None
        # Many servers send this code themselves; only the SDK's memory transport means a closed connection.
        is_closed = self.gone.is_set() or self.config.transport == "memory"
        if status is None and error.code == CONNECTION_CLOSED and is_closed:
            return self.loss_error(what)
        message = self._redacted(error.message) if is_forwarded else text
        data = error.data if is_forwarded else busy_data(error)
        return ServerRejected(self.server, what, error.code, message, status, data=data)


class RequestDeadline(Deadline):
    """The deadline of one request, whose every failure is a `ToolbusError`."""

    __slots__ = ("_diagnostics", "_session", "_stderr_before", "_token", "_what", "delivery")

    def __init__(self, session: ServerSession, diagnostics: Diagnostics, what: str, timeout: float) -> None:
        # Not by `super`: every call is here.
        self._deadlines, self.seconds = session.deadlines, timeout
        self.end, self.left, self.is_expired = inf, None, False
        self._session = session
        self._diagnostics = diagnostics
        self._what = what

    def __enter__(self) -> "RequestDeadline":
        if self._diagnostics.lost is not None:
            raise self._session.loss_error(self._what, sent=False)
        self._stderr_before = self._diagnostics.stderr_count
        self.delivery = Delivery()
        self._token = DELIVERY.set(self.delivery)
        self._session.used = self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        DELIVERY.reset(self._token)
        if error is None and not self.is_expired:
            self._deadlines.running.discard(self)
            return
        if self.stop(error):
            error = TimeoutError()
        if error is None or not isinstance(error, Exception) or isinstance(error, ToolbusError):
            return
        failed = self._failure(error)
        if failed is not None:
            # A lost link is the whole reason; the deadline only ended the wait.
            is_lost = isinstance(error, TimeoutError) and isinstance(failed, ConnectionLost)
            raise failed from (None if is_lost else self._session.cause(error))

    def expire(self) -> None:
        """Interrupt the task, unless the answer is here."""
        if self.delivery.is_answered:
            self.end = inf
        else:
            super().expire()

    def _failure(self, error: Exception) -> ToolbusError | None:
        if not isinstance(error, TimeoutError):
            return self._session.to_error(error, self._what)
        if self._diagnostics.lost is not None:
            return self._session.loss_error(self._what, sent=self.delivery.may_have_arrived)
        tail = self._diagnostics.stderr_tail(self._stderr_before)
        return CallTimeout(self._session.server, self._what, self.seconds, tail)


def _response_problem(error: Exception) -> str | None:
    """The reason why a response cannot be used; None if the error is not about a response."""
    match error:
        case ToolbusError():
            return None
        case ValidationError():
            return f"invalid response: {first_problem(error)}"
        case ExceptionGroup():
            return f"its request for input failed: {error.exceptions[0]}"
        case RecursionError():
            return "the response is nested too deeply to read"
        case RuntimeError() | OSError() | anyio.BrokenResourceError():
            return str(error)
        case ValueError() | TypeError() | LookupError() | ArithmeticError() | AttributeError():
            # Raised where a response is read; none of these may reach the caller.
            logger.debug("a response cannot be read", exc_info=error)
            return f"the response cannot be read ({type(error).__name__})"
        case _:
            return None


BUSY = -32029
"""The code of its error, which a gateway sends."""


def busy_data(error: MCPError) -> dict[str, float] | None:
    """The time after which such a request may be retried; None if the error is another one."""
    seconds = _seconds(error.code, error.data)
    return None if seconds is None else {"retryAfter": seconds}


async def wait_for_room(error: ToolbusError, deadline: float) -> None:
    """Wait as long as the server wants; raises the error if that is too long, or if it is another one."""
    seconds = _seconds(error.code, error.data) if isinstance(error, ServerRejected) else None
    if seconds is None or asyncio.get_running_loop().time() + seconds >= deadline:
        raise error
    await asyncio.sleep(seconds)


def _seconds(code: int, data: object) -> float | None:
    match data:
        case {"retryAfter": int() | float() as seconds} if code == BUSY and seconds > 0:
            return seconds
        case _:
            return None


class OutputCheck:
    """The check of one tool's output."""

    def __init__(self, schema: JSONObject) -> None:
        self._schema = schema
        self._warned = False

    @cached_property
    def _validator(self) -> Validator | str:
        try:
            return Validator(self._schema)
        except InvalidSchema as error:
            return str(error)

    def problem(self, output: JSON) -> str | None:
        """The warning about the output, in one line; None if the output is valid."""
        if output is None:
            return "the output does not match its schema: there is no structured content"
        if isinstance(self._validator, str):
            return self._unchecked(f"its schema cannot be used: {self._validator}")
        is_valid = self._validator.accepts(output)
        if is_valid is None:
            return self._unchecked("it is too large or too deep for its schema, or has odd numbers")
        if is_valid:
            return None
        fault = self._validator.explanation(output) or "it is not valid"
        return f"the output does not match its schema: {fault}"

    def _unchecked(self, reason: str) -> str | None:
        """The warning about output that was not checked: once, because it says little about one call."""
        warned, self._warned = self._warned, True
        return None if warned else f"the output is not checked: {reason}"
