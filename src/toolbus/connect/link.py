"""The supervised connection to one server.

One task owns it: that task enters the SDK's client, waits, leaves it, and does so again when the
connection is lost. Everyone else only reads the state and sends requests, so open, call and close
work from any task and in any order, and nothing of the SDK's cancellation or exception groups leaves
this file.

    idle            nothing is connected; the first request connects
    connecting      the first attempt
    ready           in use
    retrying        lost, or not reached yet, and being tried again: requests wait for it
    auth_required   refused with 401 or 403; tried again when somebody needs it
    failed          tried now and then, and when somebody needs it
    closed          for good
"""

import asyncio
import inspect
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Protocol, TypeVar

import mcp_types as types
from mcp.client import IncomingMessage

from toolbus.config import Secrets, ServerConfig
from toolbus.connect.backoff import Backoff
from toolbus.connect.establish import Ears, Learned, established, root
from toolbus.connect.interactions import Answering
from toolbus.connect.session import Session
from toolbus.errors import AuthRequired, ConnectFailed, LinkLost, ServerDown, ServerError, ToolbusError
from toolbus.events import Emit, Logged, StateChanged, Warned
from toolbus.interactions import NOBODY, Interactions
from toolbus.records import Era, State

T = TypeVar("T")
logger = logging.getLogger("toolbus")
# The SDK warns on loggers of its own; without this, Python prints that to the terminal of whoever
# has not set up logging. Whoever has still gets it all.
for _name in ("mcp", "client", "httpx2", "toolbus"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

ON_DEMAND_EVERY = 1.0
"""Seconds between attempts that are made because somebody needs the server."""
DOWNLOADERS = frozenset(
    {"npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker", "podman"}
)
"""Programs that may have to fetch the server first: their silence says nothing."""
UNSETTLED = frozenset({"idle", "connecting", "retrying"})
MOST_REPEATS = 3
"""How often one request may be sent again after a loss."""


class Attendant(Protocol):
    """Who looks after what the server offers while the link is up."""

    async def opened(self, session: Session) -> None:
        """List what a new session offers; it is used only after that."""
        ...

    def noticed(self, method: str, uri: str | None) -> None:
        """The server says that a list changed, or what is at an address."""
        ...

    async def attend(self, session: Session) -> None:
        """Runs from before `opened` until the session ends, when it is cancelled."""
        ...


class Link:
    """A server's connection and its state."""

    def __init__(
        self,
        config: ServerConfig,
        secrets: Secrets,
        attendant: Attendant,
        emit: Emit,
        interactions: Interactions = NOBODY,
    ) -> None:
        self.config = config
        self._answering = Answering(config.alias, interactions, emit)
        self._secrets = secrets
        self._attendant = attendant
        self._emit = emit
        self.state: State = "idle"
        self.error: ToolbusError | None = None
        self.since = time.time()
        self.era: Era | None = None
        self.protocol: str | None = None
        self._session: Session | None = None
        self._owner: asyncio.Task[None] | None = None
        self._connecting = False
        self._closing = False
        self._ups = 0
        """How often it became ready."""
        self._attempted = 0.0
        """When the last attempt was begun, or failed."""
        self._backoff = Backoff()
        self._learned = Learned()
        self._wanted = asyncio.Event()
        self._turn = asyncio.Event()
        """Set, and replaced, at every change of state."""

    # For everyone

    @property
    def session(self) -> Session:
        """The live session; `ServerDown` tells why there is none."""
        session = self._live_session
        if session is None:
            raise self._down()
        return session

    @property
    def rounds(self) -> int:
        """How often the server may ask in one call."""
        return self._answering.rounds

    @property
    def restarts(self) -> int:
        """How often it came back."""
        return max(0, self._ups - 1)

    @property
    def quiet(self) -> float:
        """Seconds since the server of this attempt last showed a sign of life."""
        launcher = Path(self.config.command or "").stem in DOWNLOADERS
        return 0.0 if launcher or not self._learned.witness else self._learned.witness.quiet

    async def open(self) -> None:
        """Connect, or try again if that failed; returns when it is settled, which the state tells.

        Never raises. Tries no more than once a second.
        """
        if self.state in ("idle", "failed", "auth_required") and not self._demand():
            return
        while (self.state in UNSETTLED or self._wanted.is_set()) and not self._closing:
            await self._turn.wait()

    async def close(self) -> None:
        """Disconnect; from any task, any number of times, in bounded time. Never raises."""
        self._closing = True
        if self._owner is not None:
            if self._session is not None:
                self._session.end("the link was closed")
            elif self._connecting:
                self._owner.cancel()
            self._wanted.set()
            await asyncio.wait({self._owner})
        # An owner that was cancelled before its first step could not say this itself.
        self._enter("closed")

    async def request(
        self, send: Callable[[Session, float], Awaitable[T]], timeout: float, *, repeatable: bool
    ) -> T:
        """Send through the live session, and through the next one if this one is lost under it.

        What was provably not sent is sent again; what may have taken effect only if `repeatable`. A
        link that is coming back is waited for; all of it within `timeout`.
        """
        loop = asyncio.get_running_loop()
        deadline, remaining = loop.time() + timeout, timeout
        for attempt in itertools.count():
            session = self._live_session
            if session is None:
                session = await self._came_back(remaining)
                remaining = max(0.001, deadline - loop.time())
            try:
                return await send(session, remaining)
            except LinkLost as lost:
                if self._closing or attempt >= MOST_REPEATS or (lost.sent and not repeatable):
                    raise
            remaining = max(0.001, deadline - loop.time())
        raise AssertionError("every attempt returns or raises")

    async def _came_back(self, timeout: float) -> Session:
        demanded = False
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._live_session is None:
                    if self.state in ("idle", "failed", "auth_required", "closed"):
                        if demanded or not self._demand():
                            raise self._down()
                        demanded = True
                    await self._turn.wait()
        return self.session

    @property
    def _live_session(self) -> Session | None:
        # One that is over may still be here until its owner takes it away.
        return None if self._session is None or self._session.gone.is_set() else self._session

    def _demand(self) -> bool:
        """Have the owner try now; False if it will not, because it was tried a moment ago."""
        if self._closing:
            return False
        if self._owner is None:
            self._connecting = True
            name = f"toolbus link {self.config.alias}"
            self._owner = asyncio.get_running_loop().create_task(self._own(), name=name)
        elif self.state == "idle" or time.monotonic() - self._attempted >= ON_DEMAND_EVERY:
            self._wanted.set()
        return self.state == "idle" or self._wanted.is_set()

    def _down(self) -> ServerDown:
        return ServerDown(self.config.alias, self.state, _reason(self.error))

    # For the owner

    async def _own(self) -> None:
        try:
            while not self._closing:
                self._enter("connecting" if self.state == "idle" else "retrying", self.error)
                self._connecting = True
                self._attempted, ups = time.monotonic(), self._ups
                error = await self._lived()
                if ups == self._ups:
                    self._attempted = time.monotonic()
                elif isinstance(error, AuthRequired):
                    self._attempted = 0.0  # credentials that ran out: new ones may be there already
                if self._closing:
                    break
                pause = self._after(error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wanted.wait()
                self._wanted.clear()
        except asyncio.CancelledError:
            self._closing = True
        self._enter("closed")

    def _after(self, error: ToolbusError | None) -> float | None:
        """Enter the state that follows the end of a life; gives the pause before the next one."""
        if error is None:
            self._enter("idle")
            return None
        logger.warning("%s", error)
        if isinstance(error, AuthRequired):
            self._enter("auth_required", error)
            return None
        # A server that never was up is not waited for by anyone: no hurry.
        self._backoff.failed(for_good=self._ups == 0)
        self._enter("failed" if self._backoff.open else "retrying", error)
        # The first attempt after a loss is made at once.
        return 0.0 if self._backoff.failures == 1 else self._backoff.pause()

    async def _lived(self) -> ToolbusError | None:
        """Connect, be up, disconnect; gives the reason why it is over, or none if it was idle."""
        try:
            return await self._live()
        except (Exception, BaseExceptionGroup) as failure:  # a task's edge: the SDK raises what it likes
            error = root(failure)
            if isinstance(error, ToolbusError):
                return error
            return ConnectFailed(self.config.alias, "connect", f"{type(error).__name__}: {error}")
        finally:
            self._session = None

    async def _live(self) -> ToolbusError | None:
        error: ToolbusError | None = None
        session: Session | None = None
        idle = False
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as leaving, AsyncExitStack() as stack:
                try:
                    ears = Ears(notice=self._notice, log=self._log, warn=self._warn)
                    session = await established(
                        stack, self.config, self._secrets, ears, self._answering, self._learned
                    )
                    idle = await self._attended(session)
                except ToolbusError as failure:
                    # Kept, not raised: the SDK's task groups would wrap it.
                    error = failure
                finally:
                    # From here on the owner cleans up, which is not to be interrupted.
                    self._connecting = False
                    leaving.reschedule(loop.time() + self.config.timeouts.close)
        except TimeoutError:
            logger.warning("server %r did not close in time", self.config.alias)
        if error is None and session is not None and not idle:
            # Only now, because only now the exit code of a process is known.
            error = session.refused or session.lost()
        return error

    async def _attended(self, session: Session) -> bool:
        """Be ready, once the attendant has listed what there is, until the session is over or idle."""
        attending = asyncio.create_task(self._attendant.attend(session))
        began = time.monotonic()
        try:
            await self._attendant.opened(session)
            self._session, self._connecting = session, False
            self.era, self.protocol = session.era, session.protocol
            self._ups += 1
            self._enter("ready")
            return await self._over(session)
        finally:
            self._session = None
            self._backoff.held(time.monotonic() - began)
            session.end("the connection ended")
            attending.cancel()
            await asyncio.wait({attending})

    async def _over(self, session: Session) -> bool:
        """Wait until the session is gone (False), or nobody has used it for long (True)."""
        loop = asyncio.get_running_loop()
        limit = self.config.idle_timeout
        while True:
            wait = None if limit is None else max(0.01, session.used + limit - loop.time())
            try:
                async with asyncio.timeout(wait):
                    await session.gone.wait()
                return False
            except TimeoutError:
                if limit is not None and not session.busy and loop.time() - session.used >= limit:
                    return True

    def _enter(self, state: State, error: ToolbusError | None = None) -> None:
        if state == self.state and error is self.error:
            return
        previous, self.state = self.state, state
        self.error, self.since = error, time.time()
        message = str(error) if error else None
        logger.info("server %r: %s -> %s", self.config.alias, previous, state)
        self._emit(StateChanged(server=self.config.alias, state=state, previous=previous, error=message))
        turn, self._turn = self._turn, asyncio.Event()
        turn.set()

    def _warn(self, message: str, tool: str | None) -> None:
        logger.warning("server %r: %s%s", self.config.alias, f"tool {tool!r}: " if tool else "", message)
        self._emit(Warned(server=self.config.alias, message=message, tool=tool))

    async def _notice(self, message: IncomingMessage) -> None:
        if not isinstance(message, Exception):
            updated = isinstance(message, types.ResourceUpdatedNotification)
            self._attendant.noticed(message.method, message.params.uri if updated else None)

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        if self.config.log_level == "off":
            return
        errand = self._session.errands.spoken_of if self._session is not None else None
        logged = Logged(
            server=self.config.alias,
            level=params.level,
            logger=params.logger,
            data=params.data,
            id=errand.call if errand else None,
            tool=errand.tool if errand else None,
        )
        self._emit(logged)
        if errand is not None and errand.on_log is not None:
            waiting = errand.on_log(logged)
            if inspect.isawaitable(waiting):
                await waiting


def _reason(error: ToolbusError | None) -> str | None:
    # Without the server's name, which the message that quotes it has already.
    return error.problem if isinstance(error, ServerError) else error and str(error)
