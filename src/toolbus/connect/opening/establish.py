"""From a config to a live session: resolve the secrets, connect, negotiate the era.

A failed attempt may lead to a second one. A server that exits on the modern probe is restarted in the legacy
era. A server that refuses streamable HTTP with a status of `NOT_THIS_TRANSPORT` is tried as an SSE server. A
401 leads to neither.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.dispatcher import Dispatcher

from toolbus.config import Resolved, ServerConfig, Transport
from toolbus.connect.auth.credentials import Credentials, LinkOwner, StaticHeaders, static_headers
from toolbus.connect.deadlines import Deadline
from toolbus.connect.handlers import RequestHandler
from toolbus.connect.observer import Callbacks
from toolbus.connect.opening.attempt import Attempt, EarlyStart, resolve
from toolbus.connect.opening.diagnostics import STDERR_LINES, Diagnostics, redacted_cause
from toolbus.connect.opening.failure import connect_failure, timeout_failure
from toolbus.connect.sdk.client import Connector, connected_client, memory_connector
from toolbus.connect.session import ServerSession
from toolbus.connect.transports.process.process import ServerProcess
from toolbus.connect.transports.sse import sse_peer
from toolbus.connect.transports.stdio import stdio_peer
from toolbus.connect.transports.streamable import streamable_http_peer
from toolbus.core.operation.tracing import leave_trace
from toolbus.core.values.errors import ConnectFailed, ToolbusError

if TYPE_CHECKING:
    from toolbus.connect.auth.oauth import OAuthCredentials


# The SDK warns on its own loggers; without this, Python prints that to the terminal if logging is not set
# up. If it is, nothing is lost.
for _name in ("mcp", "client", "httpx2"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

NOT_THIS_TRANSPORT = frozenset({400, 404, 405, 406, 415, 501})
"""The statuses with which an SSE server may refuse a streamable HTTP request."""


@dataclass(slots=True, eq=False)
class SessionOpener:
    """Opens the sessions of one link, and keeps what earlier attempts found out about its server."""

    _config: ServerConfig
    _owner: LinkOwner
    _callbacks: Callbacks
    _handler: RequestHandler
    _early: EarlyStart | None
    """The process that was started before the first attempt."""
    _retry: Callable[[], None]
    """Starts a new attempt."""
    diagnostics: Diagnostics | None = None
    """The diagnostics of the current attempt."""
    _stderr_before: tuple[str, ...] = ()
    """The last lines on stderr in earlier attempts."""
    _transport: Transport | None = None
    _mode: str | None = None
    _warned: bool = False
    """Whether the warnings about the config were reported."""
    _tokens: "OAuthCredentials | None" = None
    """The OAuth tokens, if the server wants them."""

    @property
    def stderr(self) -> tuple[str, ...]:
        now = () if self.diagnostics is None else self.diagnostics.stderr
        return (*self._stderr_before, *now)[-STDERR_LINES:]

    def close(self) -> None:
        if self._tokens is not None:
            self._tokens.close()

    async def open(self, stack: AsyncExitStack) -> ServerSession:
        """A live session that the stack closes; raises `ToolbusError` with the phase that failed."""
        if self.diagnostics is not None:  # not the first attempt
            leave_trace()
        tracing = self._callbacks.tracing
        with nullcontext() if tracing is None else tracing.connecting():
            return await self._open(stack)

    async def _open(self, stack: AsyncExitStack) -> ServerSession:
        config = self._config
        self._report_warnings()
        early = self._take_early(stack)
        values = await (early.values() if early else resolve(config, self._owner.secrets))
        self._callbacks.redactor = values.redacted
        api = None
        if config.transport == "openapi":
            from toolbus.openapi.server import opened_api

            api, values = await opened_api(config, values, self._callbacks.warn)
        diagnostics, process = (early.diagnostics, early.process) if early else (Diagnostics(), None)
        transport = self._transport or config.transport
        mode = self._mode or ("legacy" if config.era == "legacy" else "auto")
        # Dropped unless this attempt confirms them: the server may have been updated.
        hinted = self._mode is not None
        self._transport = self._mode = None
        first: ConnectFailed | None = None
        credentials = self._credentials(values)
        self._begin(diagnostics)
        if config.transport == "stdio":
            process = process or ServerProcess(config, values, diagnostics)
            stack.push_async_callback(process.end)
            await process.begin_in_turn().wait()
        seconds = config.timeouts.connect
        while True:
            deadline = self._handler.connecting(seconds)
            is_other = transport != config.transport
            attempt = Attempt(
                config=config.model_copy(update={"transport": transport}) if is_other else config,
                values=values,
                credentials=credentials,
                diagnostics=diagnostics,
                warn=self._callbacks.warn,
                process=process,
                api=api,
            )
            try:
                session = await self._connect(stack, attempt, mode, deadline)
            except ConnectFailed as failure:
                if first is not None:
                    raise first from failure
                if config.era == "auto" and mode == "auto" and failure.exit_code is not None:
                    mode = "legacy"
                elif transport == "streamable-http" and failure.status in NOT_THIS_TRANSPORT:
                    transport, mode = "sse", "legacy"
                else:
                    raise
                # The second try has what is left of the time.
                first, seconds = failure, deadline.remaining
                diagnostics, process = Diagnostics(), None
                self._begin(diagnostics)
            else:
                if first is not None or hinted:
                    self._transport, self._mode = transport, mode
                return session

    def _begin(self, diagnostics: Diagnostics) -> None:
        self._stderr_before, self.diagnostics = self.stderr, diagnostics

    def _report_warnings(self) -> None:
        if not self._warned:
            self._warned = True
            for warning in self._config.warnings:
                self._callbacks.warn(warning)

    def _take_early(self, stack: AsyncExitStack) -> EarlyStart | None:
        """The process started before the first attempt; the stack closes it, unless the attempt did."""
        early, self._early = self._early, None
        if early is not None:
            stack.push_async_callback(early.take().close)
        return early

    def _credentials(self, values: Resolved) -> Credentials:
        """The credentials that authorize the requests; tokens are kept from one attempt to the next."""
        if self._config.auth is None or self._config.auth.type == "bearer":
            return StaticHeaders(static_headers(values, self._owner.forwarded(self._config)))
        if self._tokens is None:
            from toolbus.connect.auth.oauth import OAuthCredentials

            self._tokens = OAuthCredentials(self._config, self._owner)
            self._tokens.signed_in = self._retry
            self._tokens.paused = self._handler.paused
            self._tokens.warn = self._callbacks.warn
            self._tokens.more_needed = partial(self._callbacks.need_login, self._owner.user)
        tokens, interactions = self._tokens, self._handler.interactions
        tokens.handler, tokens.answer_within = interactions.login, interactions.answer_within
        tokens.use(values)
        return tokens

    async def _connect(
        self, stack: AsyncExitStack, attempt: Attempt, mode: str, deadline: Deadline
    ) -> ServerSession:
        config, level = attempt.config, attempt.config.log_level
        client = connected_client(
            connector(attempt),
            mode=mode,
            callbacks=self._callbacks,
            log_level=None if level == "off" else level or "info",
            handler=self._handler,
        )
        try:
            with deadline:
                connected, result_filter = await stack.enter_async_context(client)
        except ToolbusError:
            raise
        except TimeoutError as error:
            raise timeout_failure(attempt) from error
        except (Exception, BaseExceptionGroup) as error:  # the SDK raises anything: "not connected"
            is_late = deadline.is_expired  # whatever else fails while everything is closed
            failure = timeout_failure(attempt) if is_late else connect_failure(root_cause(error), attempt)
            failure.__cause__ = redacted_cause(error, attempt.values.redacted)
        else:
            if attempt.process is not None:
                attempt.process.end_turn()
            session = ServerSession(
                config,
                connected,
                result_filter,
                attempt.diagnostics,
                self._handler,
                redacted=attempt.values.redacted,
                warn=self._callbacks.warn,
            )
            if config.era == "modern" and session.era != "modern":
                cause = f"the server uses protocol {session.protocol}, which is legacy"
                raise ConnectFailed(config.alias, "handshake", cause, hint="remove era: modern")
            return session
        raise failure  # not in the clause above, which would make the original its context


def root_cause(error: BaseException) -> BaseException:
    """The first failure in nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        leaves = cast("BaseExceptionGroup[BaseException]", error).exceptions
        failed = [leaf for leaf in leaves if not isinstance(leaf, asyncio.CancelledError)]
        return root_cause(failed[0] if failed else leaves[0])
    return error


TRANSPORTS: dict[str, Callable[[Attempt], AbstractAsyncContextManager[Dispatcher[Any]]]] = {
    "stdio": stdio_peer,
    "sse": sse_peer,
    "streamable-http": streamable_http_peer,
}


@runtime_checkable
class LinkSource(Protocol):
    """Stands in for a server: it makes the dispatcher of a link itself."""

    def connector(self, lost: Callable[[str], None], /) -> Connector:
        """The function that opens the dispatcher; `lost` ends the connection, with the reason."""
        ...


def connector(attempt: Attempt) -> Connector:
    """The function that opens a client's dispatcher over the config's transport."""
    config = attempt.config
    if config.transport == "memory":
        attempt.diagnostics.phase = "handshake"
        if isinstance(config.server, LinkSource):
            return config.server.connector(attempt.diagnostics.mark_lost)
        # FastMCP keeps the SDK's server, which runs the whole lifespan, in this attribute.
        server: Any = getattr(config.server, "_mcp_server", config.server)
        if not isinstance(server, Server | MCPServer):
            kind = type(server).__name__
            raise ConnectFailed(
                config.alias,
                "configure",
                f"{kind} is not an MCP server",
                hint="pass an mcp Server or MCPServer, or a FastMCP 4 server",
            )
        return memory_connector(server, attempt.diagnostics.mark_lost)

    async def connect(stack: AsyncExitStack, _mode: str, _raise_exceptions: bool) -> Dispatcher[Any]:
        if config.transport == "openapi":
            from toolbus.openapi.server import openapi_peer

            return await stack.enter_async_context(openapi_peer(attempt))
        return await stack.enter_async_context(TRANSPORTS[config.transport](attempt))

    return connect
