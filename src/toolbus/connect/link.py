"""The supervised connection to one server.

One task owns it: that task enters the SDK's client, waits, and leaves it. Everyone else only reads
the state and sends requests, so open, call and close work from any task and in any order, and
nothing of the SDK's cancellation or exception groups leaves this file.
"""

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from typing import Protocol

import mcp_types as types
from mcp.client import IncomingMessage

from toolbus.config import Secrets, ServerConfig
from toolbus.connect.establish import Ears, established, root
from toolbus.connect.session import Session
from toolbus.errors import AuthRequired, ConnectFailed, LinkLost, ServerDown, ServerError, ToolbusError
from toolbus.events import Emit, Logged, StateChanged, Warned
from toolbus.records import Era, State

logger = logging.getLogger("toolbus")
# The SDK warns on loggers of its own; without this, Python prints that to the terminal of whoever
# has not set up logging. Whoever has still gets it all.
for _name in ("mcp", "client", "httpx2", "toolbus"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Attendant(Protocol):
    """Who looks after what the server offers while the link is up."""

    async def opened(self, session: Session) -> None:
        """List what a new session offers; it is used only after that."""
        ...

    def noticed(self, method: str) -> None:
        """The server says that a list changed."""
        ...

    async def attend(self, session: Session) -> None:
        """Runs from before `opened` until the session ends, when it is cancelled."""
        ...


class Link:
    """A server's connection and its state."""

    def __init__(self, config: ServerConfig, secrets: Secrets, attendant: Attendant, emit: Emit) -> None:
        self.config = config
        self._secrets = secrets
        self._attendant = attendant
        self._emit = emit
        self.state: State = "idle"
        self.error: ToolbusError | None = None
        self.since = time.time()
        self.restarts = 0
        self.era: Era | None = None
        self.protocol: str | None = None
        self._session: Session | None = None
        self._owner: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._closing = False
        self._connecting = False

    @property
    def session(self) -> Session:
        """The live session; `ServerDown` tells why there is none."""
        if self._session is None:
            raise ServerDown(self.config.alias, self.state, _reason(self.error))
        return self._session

    async def open(self) -> None:
        """Connect; returns when that succeeded or failed, which the state tells. Never raises."""
        if self._owner is None and not self._closing:
            name = f"toolbus link {self.config.alias}"
            self._connecting = True
            self._owner = asyncio.get_running_loop().create_task(self._own(), name=name)
        await self._settled.wait()

    async def close(self) -> None:
        """Disconnect; from any task, any number of times, in bounded time. Never raises."""
        self._closing = True
        if self._owner is not None:
            if self._session is not None:
                self._session.end("the link was closed")
            elif self._connecting:
                self._owner.cancel()
            await asyncio.wait({self._owner})
        # An owner that was cancelled before its first step could not say this itself.
        self._enter("closed")
        self._settled.set()

    async def _own(self) -> None:
        self._enter("connecting")
        error: BaseException | None = None
        try:
            error = await self._live()
        except asyncio.CancelledError:
            self._closing = True
        except (Exception, BaseExceptionGroup) as failure:  # a task's edge: the SDK raises what it likes
            error = root(failure)
        self._session = None
        if self._closing:
            self._enter("closed")
        else:
            self._fail(error)
        self._settled.set()

    async def _live(self) -> ToolbusError | None:
        """Connect, be up until closed or lost, disconnect; gives the reason if that was not asked for."""
        error: ToolbusError | None = None
        session: Session | None = None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as leaving, AsyncExitStack() as stack:
                try:
                    ears = Ears(notice=self._notice, log=self._log, warn=self._warn)
                    session = await established(stack, self.config, self._secrets, ears)
                    await self._attended(session)
                except ToolbusError as failure:
                    # Kept, not raised: the SDK's task groups would wrap it.
                    error = failure
                finally:
                    # From here on the owner cleans up, which is not to be interrupted.
                    self._connecting = False
                    leaving.reschedule(loop.time() + self.config.timeouts.close)
        except TimeoutError:
            logger.warning("server %r did not close in time", self.config.alias)
        # Only now, because only now the exit code of a process is known.
        return error or (session and session.lost())

    async def _attended(self, session: Session) -> None:
        """Be ready, once the attendant has listed what there is, until the session is gone."""
        attending = asyncio.create_task(self._attendant.attend(session))
        try:
            await self._attendant.opened(session)
            self._session, self._connecting = session, False
            self.era, self.protocol = session.era, session.protocol
            self._enter("ready")
            self._settled.set()
            await session.gone.wait()
        finally:
            self._session = None
            session.end("the connection ended")
            attending.cancel()
            await asyncio.wait({attending})

    def _fail(self, error: BaseException | None) -> None:
        alias = self.config.alias
        if error is None:
            error = LinkLost(alias, None, "unknown reason")
        elif not isinstance(error, ToolbusError):
            error = ConnectFailed(alias, "connect", f"{type(error).__name__}: {error}")
        logger.warning("%s", error)
        self._enter("auth_required" if isinstance(error, AuthRequired) else "failed", error)

    def _enter(self, state: State, error: ToolbusError | None = None) -> None:
        if state == self.state:
            return
        previous, self.state = self.state, state
        self.error, self.since = error, time.time()
        message = str(error) if error else None
        self._emit(StateChanged(server=self.config.alias, state=state, previous=previous, error=message))

    def _warn(self, message: str, tool: str | None) -> None:
        logger.warning("server %r: %s%s", self.config.alias, f"tool {tool!r}: " if tool else "", message)
        self._emit(Warned(server=self.config.alias, message=message, tool=tool))

    async def _notice(self, message: IncomingMessage) -> None:
        if not isinstance(message, Exception):
            self._attendant.noticed(message.method)

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        self._emit(
            Logged(server=self.config.alias, level=params.level, logger=params.logger, data=params.data)
        )


def _reason(error: ToolbusError | None) -> str | None:
    # Without the server's name, which the message that quotes it has already.
    return error.problem if isinstance(error, ServerError) else error and str(error)
