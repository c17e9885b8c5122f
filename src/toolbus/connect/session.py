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
from toolbus.connect import wire
from toolbus.connect.clocks import Clocks
from toolbus.connect.delivery import DELIVERY, Delivery
from toolbus.connect.errand import CURRENT, Errand, Errands
from toolbus.connect.interactions import Answering
from toolbus.connect.jsonrpc import WireError
from toolbus.connect.lean import make_lean, sent_raw
from toolbus.connect.output import OutputCheck
from toolbus.connect.rounds import Started, Suspended, Unanswered, wanting
from toolbus.connect.sieve import Sieve
from toolbus.connect.witness import Line, Witness
from toolbus.errors import (
    ArgumentsError,
    AuthRequired,
    CallRejected,
    CallTimeout,
    InputNeeded,
    LinkLost,
    ToolbusError,
)
from toolbus.questions import Answer, Pending
from toolbus.records import JSON, Era, JSONObject, TaskState, ToolResult
from toolbus.stderr import telling_line

T = TypeVar("T")
RELEASE = 0.1
"""Seconds after the end of a session in which its requests have to be over."""


class Session:
    """A live connection to one server."""

    def __init__(
        self,
        config: ServerConfig,
        client: Client,
        sieve: Sieve,
        witness: Witness,
        answering: Answering,
        *,
        redacted: Callable[[str], str],
        warn: Callable[[str, str | None], None],
    ) -> None:
        self.config = config
        self.client = client
        self.sieve = sieve
        self._witness = witness
        self._redacted = redacted
        self._warn = warn
        self.answering = answering
        self.errands = Errands()
        self.clocks = Clocks()
        self._slots = asyncio.Semaphore(config.max_concurrency) if config.max_concurrency else None
        self.refused: AuthRequired | None = None
        """Set when the server no longer takes our credentials."""
        self.outputs: dict[str, OutputCheck] = {}
        """How to check the output of the tools that say what it looks like."""
        self.tasks_only: set[str] = set()
        """The tools that a server of the legacy era calls only as a task."""
        self.used = asyncio.get_running_loop().time()
        """When the last request was sent, by the clock of the loop."""
        make_lean(client, sieve, self._check_output, config.alias, answering.handled, self.tasks_only)
        answering.serve(client.session, self.errands, self.clocks)

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
        return self._witness.gone

    @property
    def line(self) -> Line | None:
        """Where a web server listens; None for others."""
        return self._witness.line

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self.clocks.busy or self.errands.any

    async def call_tool(
        self,
        errand: Errand,
        arguments: Mapping[str, JSON],
        timeout: float,
        resumed: tuple[Pending, Mapping[str, Answer]] | None = None,
    ) -> ToolResult | TaskState:
        """Call a tool, or go on with a call that waited; the server may make a task of it."""
        tool = errand.tool
        assert tool is not None, "only tools are called"
        # Taken now: once the link is lost the client has none, and that is not why a request fails.
        inner = self.client.session
        with self.errands.under_way(errand):
            responses = None if resumed is None else await self.responses(resumed[0].requests, resumed[1])
            clock = asyncio.timeout(timeout)
            extends = errand.longest is not None
            progress = self._extending(errand, clock, timeout) if extends else errand.on_progress

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
                    if not await self.answering.visited(inner, error):
                        raise
                    return await call()

            what = f"tool {tool!r}"
            free = send if self._slots is None else _when_free(self._slots, send)
            try:
                return wire.tool_result(await self.request(what, free, timeout, clock))
            except Suspended as asked:
                rounds = 1 + (resumed[0].rounds if resumed else 0)
                return self._waiting(tool, arguments, asked, rounds)
            except Started as started:
                return self.task_state(what, started.task)

    def _extending(self, errand: Errand, clock: asyncio.Timeout, timeout: float) -> ProgressFnT:
        """Progress that gives the call more time."""
        last = asyncio.get_running_loop().time() + max(errand.longest or 0, timeout)
        stood, report = self.clocks.stood, errand.on_progress

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            self.clocks.extend(clock, timeout, last + self.clocks.stood - stood)
            if report is not None:
                await report(progress, total, message)

        return progressed

    def _waiting(self, tool: str, arguments: Mapping[str, JSON], asked: Suspended, rounds: int) -> ToolResult:
        if rounds > self.answering.rounds:
            message = f"it asked more than {self.answering.rounds} times in one call"
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
        return await self.answering.responses(self.client.session, requests, answers)

    async def tools_page(self, cursor: str | None, timeout: float) -> dict[str, JSON]:
        """One page of the list of tools, as the server sent it."""
        return await self.request(
            "the list of tools",
            lambda client: sent_raw(client, self.sieve, "tools/list", {"cursor": cursor} if cursor else {}),
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
        if self._witness.lost is not None:
            raise self.lost(what, sent=False)
        clock, heard = clock or asyncio.timeout(timeout), self._witness.heard
        self.used = asyncio.get_running_loop().time()
        delivery = Delivery()
        token = DELIVERY.set(delivery)
        try:
            return await self.clocks.within(clock, send(self.client))
        except TimeoutError as error:
            if self._witness.lost is not None:
                raise self.lost(what, sent=delivery.may_have_arrived) from None
            raise CallTimeout(self.server, what, timeout, self._witness.tail(heard)) from error
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
                errand = CURRENT.get()
                if errand is not None and errand.unanswered is not None:
                    return InputNeeded(self.server, what, errand.unanswered)
                return self._translated(error, what)
            case Unanswered():
                return InputNeeded(self.server, what, error.asked)
            case InputRequiredRoundsExceededError():
                message = f"it asked more than {error.max_rounds} times in one call"
            case ValidationError():
                message = f"the answer is not valid: {_first(error)}"
            case ValueError() | TypeError():
                # The SDK dumps the request to JSON before it sends: that is what fails this way.
                return ArgumentsError(what, f"cannot be sent as JSON: {error}")
            case RuntimeError() | OSError() | anyio.ClosedResourceError() | anyio.BrokenResourceError():
                if self._witness.lost is not None or isinstance(error, anyio.ClosedResourceError):
                    return self.lost(what)
                message = self._redacted(str(error))
            case ExceptionGroup():
                message = f"what it asked could not be answered: {error.exceptions[0]}"
            case _:
                return None
        return CallRejected(self.server, what, INTERNAL_ERROR, message)

    def end(self, reason: str) -> None:
        """Release everyone who waits: their requests fail with `LinkLost`, the server is told to stop."""
        self._witness.lose(reason)
        # A moment later, because most transports know better which of them had been sent.
        self.clocks.release(RELEASE)

    async def _check_output(self, name: str, result: CallToolResult) -> None:
        check = self.outputs.get(name)
        if check is not None and (fault := check.fault(result.structured_content)):
            # The SDK would throw the result away; the data is worth more than its form.
            self._warn(f"the output does not match its schema: {fault}", name)

    def lost(self, what: str | None = None, *, sent: bool = True) -> LinkLost:
        """The error that says why the session is over, and what that cut off."""
        reason = self._witness.lost or "the connection is closed"
        if self._witness.exit_code is not None:
            reason = f"{reason}, {self._witness.ended}"
        if what is None and (tail := self._witness.tail()):
            reason = f"{reason}; on stderr: {telling_line(tail) or tail[-1]}"
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
            if wanted := wanting(error):
                return InputNeeded(self.server, what, wanted)
            return CallRejected(self.server, what, error.code, text, error.status)
        if wanted := wanting(error):
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
