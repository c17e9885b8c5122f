"""From a config to a live session: resolve, connect, agree on the era; or say why not.

What one attempt teaches, the next one uses: a server that dies of the modern probe is started again
and spoken to in the legacy era; a server that answers streamable HTTP with "not this transport" is
tried as an old SSE server. A 401 is neither.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import version
from typing import cast

import mcp_types as types
from mcp.client.session import LoggingFnT
from pydantic_core import from_json, to_json

from toolbus.config import Resolved, Secrets, ServerConfig, Transport, resolved
from toolbus.connect.callbacks import Callbacks
from toolbus.connect.diagnostics import Diagnostics
from toolbus.connect.failure import described, no_answer
from toolbus.connect.handlers import RequestHandler
from toolbus.connect.sdk.client import opened_client
from toolbus.connect.session import Session
from toolbus.connect.transports.table import connector
from toolbus.core.errors import ConnectFailed, ToolbusError, in_seconds

NOT_THIS_TRANSPORT = frozenset({400, 404, 405, 406, 415, 501})
"""What a server of the old SSE transport may answer to a streamable HTTP request."""


@dataclass(slots=True)
class ConnectHints:
    """What the attempts taught about a server: for the next start, and about the present one."""

    transport: Transport | None = None
    mode: str | None = None
    diagnostics: Diagnostics | None = None
    warned: bool = False
    """Whether what is odd about the config was reported."""


async def established(
    stack: AsyncExitStack,
    config: ServerConfig,
    secrets: Secrets,
    callbacks: Callbacks,
    handler: RequestHandler,
    hints: ConnectHints,
) -> Session:
    """A live session, whose end is on the stack; raises `ToolbusError` that says how far it came."""
    if not hints.warned:
        hints.warned = True
        for warning in config.warnings:
            callbacks.warn(warning, None)
    values = await _resolved(config, secrets)
    transport = hints.transport or config.transport
    mode = hints.mode or ("legacy" if config.era == "legacy" else "auto")
    # Forgotten unless it holds once more: a server may have been renewed meanwhile.
    hints.transport = hints.mode = None
    first: ConnectFailed | None = None
    while True:
        hints.diagnostics = diagnostics = Diagnostics()
        here = config.model_copy(update={"transport": transport})
        try:
            session = await _attempted(stack, here, mode, values, diagnostics, callbacks, handler)
        except ConnectFailed as failure:
            if first is not None:
                raise first from failure
            if config.era == "auto" and mode == "auto" and failure.exit_code is not None:
                mode = "legacy"
            elif transport == "streamable-http" and failure.status in NOT_THIS_TRANSPORT:
                transport, mode = "sse", "legacy"
            else:
                raise
            first = failure
        else:
            if first is not None:
                hints.transport, hints.mode = transport, mode
            return session


async def _resolved(config: ServerConfig, secrets: Secrets) -> Resolved:
    try:
        async with asyncio.timeout(config.timeouts.connect):
            return await resolved(config, secrets)
    except TimeoutError as error:
        cause = f"its secrets were not resolved within {in_seconds(config.timeouts.connect)}"
        raise ConnectFailed(config.alias, "configure", cause) from error


async def _attempted(
    stack: AsyncExitStack,
    config: ServerConfig,
    mode: str,
    values: Resolved,
    diagnostics: Diagnostics,
    callbacks: Callbacks,
    handler: RequestHandler,
) -> Session:
    try:
        async with asyncio.timeout(config.timeouts.connect):
            client, result_filter = await stack.enter_async_context(
                opened_client(
                    connector(config, values, diagnostics, lambda message: callbacks.warn(message, None)),
                    mode=mode,
                    client_info=types.Implementation(name="toolbus", version=version("toolbus")),
                    message_handler=callbacks.notice,
                    logging_callback=_discreet(callbacks.log, values),
                    log_level=None if config.log_level == "off" else config.log_level or "info",
                    handler=handler,
                )
            )
    except ToolbusError:
        raise
    except TimeoutError as error:
        raise no_answer(config, diagnostics) from error
    except (Exception, BaseExceptionGroup) as error:  # the border: whatever it is, it is a failed connect
        raise described(root(error), config, diagnostics, values) from error
    session = Session(
        config, client, result_filter, diagnostics, handler, redacted=values.redacted, warn=callbacks.warn
    )
    if config.era == "modern" and session.era != "modern":
        cause = f"the server speaks {session.protocol}, which is not the modern era"
        raise ConnectFailed(config.alias, "handshake", cause, hint="leave out era: modern")
    return session


def _discreet(log: LoggingFnT, values: Resolved) -> LoggingFnT:
    async def redacted(params: types.LoggingMessageNotificationParams) -> None:
        data = from_json(to_json(params.data, serialize_unknown=True))
        await log(params.model_copy(update={"data": values.redacted_json(data)}))

    return redacted


def root(error: BaseException) -> BaseException:
    """The error at the bottom of nested groups."""
    if isinstance(error, BaseExceptionGroup):
        leaves = cast("BaseExceptionGroup[BaseException]", error).exceptions
        failed = [leaf for leaf in leaves if not isinstance(leaf, asyncio.CancelledError)]
        return root(failed[0] if failed else leaves[0])
    return error
