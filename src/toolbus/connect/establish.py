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
from toolbus.connect.client import opened_client
from toolbus.connect.http import phrase
from toolbus.connect.interactions import Answering
from toolbus.connect.jsonrpc import WireError
from toolbus.connect.session import Session
from toolbus.connect.transport import connector
from toolbus.connect.witness import Witness
from toolbus.errors import AuthRequired, ConnectFailed, ToolbusError

NOT_THIS_TRANSPORT = frozenset({400, 404, 405, 406, 415, 501})
"""What a server of the old SSE transport may answer to a streamable HTTP request."""

# What to ask, by a word in the reason why there is no connection.
_QUESTIONS = {
    "SSL": "is it https, with a certificate to trust",
    "Name or service not known": "is the host name right",
    "nodename nor servname": "is the host name right",
    "getaddrinfo": "is the host name right",
}
_HINTS = {404: "check the path of the URL", 429: "it wants fewer requests: wait, then try again"}


@dataclass(slots=True)
class Learned:
    """What the attempts taught about a server: for the next start, and about the present one."""

    transport: Transport | None = None
    mode: str | None = None
    witness: Witness | None = None
    warned: bool = False
    """Whether what is odd about the config was reported."""


async def established(
    stack: AsyncExitStack,
    config: ServerConfig,
    secrets: Secrets,
    callbacks: Callbacks,
    answering: Answering,
    learned: Learned,
) -> Session:
    """A live session, whose end is on the stack; raises `ToolbusError` that says how far it came."""
    if not learned.warned:
        learned.warned = True
        for warning in config.warnings:
            callbacks.warn(warning, None)
    values = await _resolved(config, secrets)
    transport = learned.transport or config.transport
    mode = learned.mode or ("legacy" if config.era == "legacy" else "auto")
    # Forgotten unless it holds once more: a server may have been renewed meanwhile.
    learned.transport = learned.mode = None
    first: ConnectFailed | None = None
    while True:
        learned.witness = witness = Witness()
        here = config.model_copy(update={"transport": transport})
        try:
            session = await _attempted(stack, here, mode, values, witness, callbacks, answering)
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
                learned.transport, learned.mode = transport, mode
            return session


async def _resolved(config: ServerConfig, secrets: Secrets) -> Resolved:
    try:
        async with asyncio.timeout(config.timeouts.connect):
            return await resolved(config, secrets)
    except TimeoutError as error:
        cause = f"its secrets were not to be had in {config.timeouts.connect:g} s"
        raise ConnectFailed(config.alias, "configure", cause) from error


async def _attempted(
    stack: AsyncExitStack,
    config: ServerConfig,
    mode: str,
    values: Resolved,
    witness: Witness,
    callbacks: Callbacks,
    answering: Answering,
) -> Session:
    try:
        async with asyncio.timeout(config.timeouts.connect):
            client, sieve = await stack.enter_async_context(
                opened_client(
                    connector(config, values, witness, lambda message: callbacks.warn(message, None)),
                    mode=mode,
                    client_info=types.Implementation(name="toolbus", version=version("toolbus")),
                    message_handler=callbacks.notice,
                    logging_callback=_discreet(callbacks.log, values),
                    log_level=None if config.log_level == "off" else config.log_level or "info",
                    answering=answering,
                )
            )
    except ToolbusError:
        raise
    except TimeoutError as error:
        raise ConnectFailed(
            config.alias,
            witness.phase,
            f"no answer in {config.timeouts.connect:g} s",
            hint="if a first start downloads something, raise timeouts.connect" if witness.pid else "",
            stderr=witness.tail(),
        ) from error
    except (Exception, BaseExceptionGroup) as error:  # the border: whatever it is, it is a failed connect
        raise _described(root(error), config.alias, witness, values) from error
    session = Session(
        config, client, sieve, witness, answering, redacted=values.redacted, warn=callbacks.warn
    )
    if config.era == "modern" and session.era != "modern":
        cause = f"the server speaks {session.protocol}, which is not the modern era"
        raise ConnectFailed(config.alias, "handshake", cause, hint="leave out era: modern")
    return session


def _discreet(log: LoggingFnT, values: Resolved) -> LoggingFnT:
    async def redacted(params: types.LoggingMessageNotificationParams) -> None:
        text = values.redacted(to_json(params.data).decode())
        await log(params.model_copy(update={"data": from_json(text)}))

    return redacted


def _described(error: BaseException, server: str, witness: Witness, values: Resolved) -> ConnectFailed:
    status = error.status if isinstance(error, WireError) else None
    lines = values.redacted(str(error)).splitlines()
    cause = lines[0] if lines else type(error).__name__
    if status in (401, 403):
        return AuthRequired(server, witness.phase, status)
    if status is not None:
        hint = _HINTS.get(status, "look at the server's own log" if status >= 500 else "")
        cause = phrase(status) if status >= 400 else cause
        return ConnectFailed(server, witness.phase, cause, hint=hint, status=status)
    if isinstance(error, WireError) and not error.sent and witness.exit_code is None:
        question = next((q for word, q in _QUESTIONS.items() if word in cause), "is the server running")
        hint = f"{question}, at {values.public_url}?"
        return ConnectFailed(server, "connect", cause, hint=hint)
    if witness.lost is not None and witness.exit_code is not None:
        return ConnectFailed(
            server,
            witness.phase,
            f"the process ended with {witness.ended}",
            hint="run the command by hand to see why" if not witness.tail() else "",
            exit_code=witness.exit_code,
            stderr=witness.tail(),
        )
    return ConnectFailed(server, witness.phase, cause, stderr=witness.tail())


def root(error: BaseException) -> BaseException:
    """The error at the bottom of nested groups."""
    if isinstance(error, BaseExceptionGroup):
        leaves = cast("BaseExceptionGroup[BaseException]", error).exceptions
        failed = [leaf for leaf in leaves if not isinstance(leaf, asyncio.CancelledError)]
        return root(failed[0] if failed else leaves[0])
    return error
