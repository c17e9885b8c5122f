"""One attempt to connect, and the part of the first one that does not need the SDK.

That part runs while the SDK is imported: the secrets are resolved and the process of the server is started.
The link's first attempt takes it over.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from toolbus.config import Resolved, Secrets, ServerConfig, resolved
from toolbus.connect.auth.credentials import Credentials
from toolbus.connect.opening.diagnostics import Diagnostics
from toolbus.connect.transports.process.process import ServerProcess
from toolbus.core.text.display import in_seconds
from toolbus.core.values.errors import ConnectFailed

if TYPE_CHECKING:
    from toolbus.openapi.operations import Api


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The inputs that a transport needs to connect, and the diagnostics that it fills."""

    config: ServerConfig
    values: Resolved
    credentials: Credentials
    diagnostics: Diagnostics
    warn: Callable[[str], None]
    process: ServerProcess | None = None
    """The process, if it was begun before the attempt; the attempt ends it."""
    api: "Api | None" = None
    """The tools of an HTTP API, whose document was read before the attempt."""


CANCEL_TIMEOUT = 1.0


async def resolve(config: ServerConfig, secrets: Secrets) -> Resolved:
    """The config with its secrets; raises `ToolbusError`, or ConnectFailed if that takes too long."""
    try:
        async with asyncio.timeout(config.timeouts.connect):
            return await resolved(config, secrets)
    except TimeoutError as error:
        cause = f"its secrets were not resolved within {in_seconds(config.timeouts.connect)}"
        raise ConnectFailed(config.alias, "configure", cause) from error


class EarlyStart:
    """The start of one stdio server. Its creator closes it, unless an attempt has taken it."""

    def __init__(self, config: ServerConfig, secrets: Secrets) -> None:
        self.diagnostics = Diagnostics()
        self.process: ServerProcess | None = None
        """Set once the secrets are resolved."""
        self.taken = False
        self._close_timeout = config.timeouts.close
        name = f"toolbus start {config.alias}"
        self._resolving = asyncio.get_running_loop().create_task(self._start(config, secrets), name=name)

    async def _start(self, config: ServerConfig, secrets: Secrets) -> Resolved:
        values = await resolve(config, secrets)
        self.process = ServerProcess(config, values, self.diagnostics)
        self.process.begin_in_turn()
        return values

    def take(self) -> Self:
        """Take it over: from now on the caller has to close it."""
        self.taken = True
        return self

    async def values(self) -> Resolved:
        """The resolved config; raises what `resolve` raises. Its process has begun to start."""
        return await self._resolving

    async def wait_spawned(self) -> None:
        """Wait until the process is started or has failed to; never raises an error of either."""
        await asyncio.wait({self._resolving})
        if self.process is not None:
            await self.process.wait_spawned()

    async def close(self) -> None:
        """Stop resolving, and end the process, in bounded time; any number of times."""
        self._resolving.cancel()
        try:
            # Bounded: a user's `get_secret` may ignore that it is cancelled.
            await asyncio.wait({self._resolving}, timeout=CANCEL_TIMEOUT)
        finally:
            if self.process is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._close_timeout):
                        await self.process.end()
