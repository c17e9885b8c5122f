"""One incarnation of a connection: every request bounded, every failure in our words.

A request runs in its caller's task, without lock or extra task. When the session ends, whoever is
still waiting is told at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import anyio
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, CallToolResult
from pydantic import ValidationError

from toolbus.config import ServerConfig
from toolbus.connect import wire
from toolbus.connect.jsonrpc import WireError
from toolbus.connect.lean import make_lean, tools_page
from toolbus.connect.output import OutputCheck
from toolbus.connect.sieve import Sieve
from toolbus.connect.witness import Witness
from toolbus.errors import ArgumentsError, AuthRequired, CallRejected, CallTimeout, LinkLost, ToolbusError
from toolbus.records import JSON, Embedded, Era, PromptResult, ToolResult

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
        self._under_way: set[asyncio.Timeout] = set()
        self._slots = asyncio.Semaphore(config.max_concurrency) if config.max_concurrency else None
        self.refused: AuthRequired | None = None
        """Set when the server no longer takes our credentials."""
        self.outputs: dict[str, OutputCheck] = {}
        """How to check the output of the tools that say what it looks like."""
        self.used = asyncio.get_running_loop().time()
        """When the last request was sent, by the clock of the loop."""
        make_lean(client, sieve, self._check_output)

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
    def busy(self) -> bool:
        """Whether a request is under way."""
        return bool(self._under_way)

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, JSON],
        *,
        timeout: float,
        on_progress: ProgressFnT | None = None,
    ) -> ToolResult:
        """Call a tool by the server's own name for it."""
        what = f"tool {tool!r}"
        send = self._sent(tool, dict(arguments), on_progress)
        if self._slots is None:
            return wire.tool_result(await self.request(what, send, timeout))

        async def when_free(client: Client) -> CallToolResult:
            assert self._slots is not None
            async with self._slots:
                return await send(client)

        return wire.tool_result(await self.request(what, when_free, timeout))

    async def read_resource(self, uri: str, timeout: float) -> tuple[Embedded, ...]:
        """Read a resource."""
        result = await self.request(f"resource {uri!r}", lambda c: c.read_resource(uri), timeout)
        return wire.contents(result.contents)

    async def get_prompt(self, name: str, arguments: Mapping[str, str], timeout: float) -> PromptResult:
        """Fill in a prompt."""
        filled = dict(arguments)
        result = await self.request(f"prompt {name!r}", lambda c: c.get_prompt(name, filled), timeout)
        return wire.prompt_result(result)

    async def tools_page(self, cursor: str | None, timeout: float) -> dict[str, JSON]:
        """One page of the list of tools, as the server sent it."""
        return await self.request(
            "the list of tools", lambda client: tools_page(client, self.sieve, cursor), timeout
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

    async def request(self, what: str, send: Callable[[Client], Awaitable[T]], timeout: float) -> T:
        """Send through the SDK's client; raises `ToolbusError` for whatever goes wrong."""
        if self._witness.lost is not None:
            raise self.lost(what, sent=False)
        bound, heard = asyncio.timeout(timeout), self._witness.heard
        try:
            return await self._within(bound, send)
        except TimeoutError as error:
            if self._witness.lost is not None:
                raise self.lost(what) from None
            raise CallTimeout(self.server, what, timeout, self._witness.tail(heard)) from error
        except MCPError as error:
            raise self._translated(error, what) from error
        except ValidationError as error:
            message = f"the answer is not valid: {_first(error)}"
            raise CallRejected(self.server, what, INTERNAL_ERROR, message) from error
        except (ValueError, TypeError) as error:
            # The SDK dumps the request to JSON before it sends: that is what fails this way.
            raise ArgumentsError(what, f"cannot be sent as JSON: {error}") from error
        except (RuntimeError, OSError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            if self._witness.lost is not None or isinstance(error, anyio.ClosedResourceError):
                raise self.lost(what) from error
            raise CallRejected(self.server, what, INTERNAL_ERROR, self._redacted(str(error))) from error

    async def _within(self, bound: asyncio.Timeout, send: Callable[[Client], Awaitable[T]]) -> T:
        self._under_way.add(bound)
        self.used = asyncio.get_running_loop().time()
        try:
            async with bound:
                return await send(self.client)
        finally:
            self._under_way.discard(bound)

    def end(self, reason: str) -> None:
        """Release everyone who waits: their requests fail with `LinkLost`, the server is told to stop."""
        self._witness.lose(reason)
        # A moment later, because most transports know better which of them had been sent.
        soon = asyncio.get_running_loop().time() + RELEASE
        for bound in self._under_way:
            if not bound.expired():
                bound.reschedule(soon)

    def _sent(
        self, tool: str, arguments: dict[str, JSON], on_progress: ProgressFnT | None
    ) -> Callable[[Client], Awaitable[CallToolResult]]:
        return lambda client: client.call_tool(tool, arguments, progress_callback=on_progress)

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
            reason = f"{reason}; last on stderr: {tail[-1]}"
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
            return CallRejected(self.server, what, error.code, text, error.status)
        # Also what many a server answers of its own; only the SDK's wire in memory means by it what it says.
        if error.code == CONNECTION_CLOSED and (self.gone.is_set() or self.config.transport == "memory"):
            return self.lost(what)
        return CallRejected(self.server, what, error.code, text)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
