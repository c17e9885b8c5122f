"""From a config to a live session: resolve the secrets, connect, negotiate the era.

A failed attempt may lead to a second one: a server that exits on the modern probe is started again in
the legacy era; a server that refuses streamable HTTP with a status of `NOT_THIS_TRANSPORT` is tried as
an SSE server. A 401 leads to neither.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, cast

import mcp_types as types
from mcp import Client
from mcp.client.session import LoggingFnT
from pydantic_core import from_json, to_json

from toolbus.config import Resolved, ServerConfig, Transport
from toolbus.connect.ask.callbacks import Callbacks
from toolbus.connect.ask.handlers import RequestHandler
from toolbus.connect.auth.credentials import Credentials
from toolbus.connect.auth.identity import LinkOwner
from toolbus.connect.auth.static import StaticHeaders, static_headers
from toolbus.connect.cause import redacted_cause
from toolbus.connect.deadlines import Deadline
from toolbus.connect.opening.attempt import Attempt
from toolbus.connect.opening.diagnostics import STDERR_LINES, Diagnostics
from toolbus.connect.opening.early import EarlyStart, resolve
from toolbus.connect.opening.failure import connect_failure, timeout_failure
from toolbus.connect.sdk.client import connected_client
from toolbus.connect.sdk.result_filter import ResultFilter
from toolbus.connect.session import ServerSession
from toolbus.connect.transports.process.process import ServerProcess
from toolbus.connect.transports.table import connector
from toolbus.core import version
from toolbus.core.operation.tracing import leave_trace
from toolbus.core.values.errors import ConnectFailed, ToolbusError

if TYPE_CHECKING:
    from toolbus.connect.auth.oauth.credentials import OAuthCredentials

# The SDK warns on its own loggers; without this, Python prints that to the terminal if logging is not set
# up. If it is, nothing is lost.
for _name in ("mcp", "client", "httpx2"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

NOT_THIS_TRANSPORT = frozenset({400, 404, 405, 406, 415, 501})
"""The statuses with which an SSE server may refuse a streamable HTTP request."""


def _nothing() -> None:
    pass


@dataclass(slots=True)
class ConnectHints:
    """What earlier attempts found out about a server, and the diagnostics of the current one."""

    transport: Transport | None = None
    mode: str | None = None
    diagnostics: Diagnostics | None = None
    stderr_before: tuple[str, ...] = ()
    """The last lines on stderr in earlier attempts."""
    warned: bool = False
    """Whether the warnings about the config were reported."""
    early: EarlyStart | None = None
    """What was started before the first attempt."""
    redacted: Callable[[str], str] = str
    """Hides the secrets of the current attempt in a text."""
    retry: Callable[[], None] = _nothing
    """Starts a new attempt."""
    tokens: "OAuthCredentials | None" = None
    """The OAuth tokens, if the server wants them."""

    @property
    def stderr(self) -> tuple[str, ...]:
        """The last lines on stderr, in this attempt and in earlier ones."""
        now = () if self.diagnostics is None else self.diagnostics.stderr
        return (*self.stderr_before, *now)[-STDERR_LINES:]

    def begin(self, diagnostics: Diagnostics) -> None:
        """Begin an attempt."""
        self.stderr_before, self.diagnostics = self.stderr, diagnostics

    def close(self) -> None:
        """Stop what goes on between attempts."""
        if self.tokens is not None:
            self.tokens.close()


async def open_session(
    stack: AsyncExitStack,
    config: ServerConfig,
    identity: LinkOwner,
    callbacks: Callbacks,
    handler: RequestHandler,
    hints: ConnectHints,
) -> ServerSession:
    """A live session that the stack closes; raises `ToolbusError` with the phase that failed."""
    if hints.diagnostics is not None:  # not the first attempt
        leave_trace()
    if callbacks.tracing is None:
        return await _open_session(stack, config, identity, callbacks, handler, hints)
    with callbacks.tracing.connecting():
        return await _open_session(stack, config, identity, callbacks, handler, hints)


async def _open_session(
    stack: AsyncExitStack,
    config: ServerConfig,
    identity: LinkOwner,
    callbacks: Callbacks,
    handler: RequestHandler,
    hints: ConnectHints,
) -> ServerSession:
    _report_warnings(config, callbacks, hints)
    early = _take_early(stack, hints)
    values = await (early.values() if early else resolve(config, identity.secrets))
    hints.redacted = values.redacted
    diagnostics, process = (early.diagnostics, early.process) if early else (Diagnostics(), None)
    transport = hints.transport or config.transport
    mode = hints.mode or ("legacy" if config.era == "legacy" else "auto")
    # Dropped unless this attempt confirms them: the server may have been updated.
    hinted = hints.mode is not None
    hints.transport = hints.mode = None
    first: ConnectFailed | None = None
    credentials = _credentials(config, identity, values, callbacks, handler, hints)
    hints.begin(diagnostics)
    if config.transport == "stdio":
        process = process or ServerProcess(config, values, diagnostics)
        stack.push_async_callback(process.end)
        await process.wait_turn()
    seconds = config.timeouts.connect
    while True:
        deadline = handler.connecting(seconds)
        attempt = Attempt(
            config=config
            if transport == config.transport
            else config.model_copy(update={"transport": transport}),
            values=values,
            credentials=credentials,
            diagnostics=diagnostics,
            warn=lambda message: callbacks.warn(values.redacted(message), None),
            process=process,
        )
        try:
            session = await _connect(stack, attempt, mode, callbacks, handler, deadline)
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
            hints.begin(diagnostics)
        else:
            if first is not None or hinted:
                hints.transport, hints.mode = transport, mode
            return session


def _credentials(
    config: ServerConfig,
    identity: LinkOwner,
    values: Resolved,
    callbacks: Callbacks,
    handler: RequestHandler,
    hints: ConnectHints,
) -> Credentials:
    """What authorizes the requests; tokens are kept from one attempt to the next."""
    if config.auth is None or config.auth.type == "bearer":
        return StaticHeaders(static_headers(values))
    if hints.tokens is None:
        from toolbus.connect.auth.oauth.credentials import OAuthCredentials

        hints.tokens = OAuthCredentials(config, identity)
        hints.tokens.signed_in = hints.retry
    tokens = hints.tokens
    tokens.handler, tokens.answer_within = handler.interactions.login, handler.interactions.answer_within
    tokens.paused = handler.paused
    tokens.warn = lambda message: callbacks.warn(values.redacted(message), None)
    tokens.more_needed = lambda reason: callbacks.need_login(identity.user, values.redacted(reason))
    tokens.use(values)
    return tokens


def _report_warnings(config: ServerConfig, callbacks: Callbacks, hints: ConnectHints) -> None:
    if not hints.warned:
        hints.warned = True
        for warning in config.warnings:
            callbacks.warn(warning, None)


def _take_early(stack: AsyncExitStack, hints: ConnectHints) -> EarlyStart | None:
    """What was started before the first attempt; the stack closes it, unless the attempt did."""
    early, hints.early = hints.early, None
    if early is not None:
        stack.push_async_callback(early.take().close)
    return early


async def _connect(
    stack: AsyncExitStack,
    attempt: Attempt,
    mode: str,
    callbacks: Callbacks,
    handler: RequestHandler,
    deadline: Deadline,
) -> ServerSession:
    config, values = attempt.config, attempt.values
    try:
        with deadline:
            client, result_filter = await stack.enter_async_context(
                connected_client(
                    connector(attempt),
                    mode=mode,
                    client_info=_client_info(),
                    message_handler=callbacks.on_message,
                    logging_callback=_redacting(callbacks.on_log, values),
                    log_level=None if config.log_level == "off" else config.log_level or "info",
                    handler=handler,
                    tracing=callbacks.tracing,
                )
            )
    except ToolbusError:
        raise
    except TimeoutError as error:
        raise timeout_failure(attempt) from error
    except (Exception, BaseExceptionGroup) as error:  # the SDK raises anything; it all means "not connected"
        is_late = deadline.is_expired  # whatever else fails while everything is closed
        failure = timeout_failure(attempt) if is_late else connect_failure(root_cause(error), attempt)
        failure.__cause__ = redacted_cause(error, values.redacted)
    else:
        if attempt.process is not None:
            attempt.process.end_turn()
        return _session(attempt, client, result_filter, callbacks, handler)
    raise failure  # not in the clause above, which would make the original its context


def _session(
    attempt: Attempt,
    client: Client,
    result_filter: ResultFilter,
    callbacks: Callbacks,
    handler: RequestHandler,
) -> ServerSession:
    config, values = attempt.config, attempt.values
    session = ServerSession(
        config,
        client,
        result_filter,
        attempt.diagnostics,
        handler,
        redacted=values.redacted,
        warn=lambda message, tool: callbacks.warn(values.redacted(message), tool),
    )
    if config.era == "modern" and session.era != "modern":
        cause = f"the server uses protocol {session.protocol}, which is legacy"
        raise ConnectFailed(config.alias, "handshake", cause, hint="remove era: modern")
    return session


@cache
def _client_info() -> types.Implementation:
    return types.Implementation(name="toolbus", version=version())


def _redacting(log: LoggingFnT, values: Resolved) -> LoggingFnT:
    async def log_redacted(params: types.LoggingMessageNotificationParams) -> None:
        data = params.data
        with suppress(ValueError):  # a lone surrogate, which UTF-8 cannot write
            data = from_json(to_json(data, serialize_unknown=True))
        await log(params.model_copy(update={"data": values.redacted.json(data)}))

    return log_redacted


def root_cause(error: BaseException) -> BaseException:
    """The first failure in nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        leaves = cast("BaseExceptionGroup[BaseException]", error).exceptions
        failed = [leaf for leaf in leaves if not isinstance(leaf, asyncio.CancelledError)]
        return root_cause(failed[0] if failed else leaves[0])
    return error
