"""The supervised connection to one server.

One task owns it: that task enters the SDK's client, waits, leaves it, and does so again when the
connection is lost. Everyone else only reads the state and sends requests, so open, call and close
work from any task and in any order, and nothing of the SDK's cancellation or exception groups leaves
this file.

    idle            nothing is connected; the first request connects
    connecting      the first attempt
    ready           in use
    retrying        lost, and being tried again
    auth_required   refused with 401 or 403; tried again when somebody needs it
    failed          not reached several times in a row; tried now and then, and when somebody needs it
    closed          for good

A request waits for a link that was lost, up to `timeouts.recover` seconds from the loss. After that,
and for a link that was never up, it waits for the outcome of one attempt: the one under way, or one
that it asks for.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TypeVar

from toolbus.config import Secrets, ServerConfig
from toolbus.connect.backoff import Backoff
from toolbus.connect.callbacks import Callbacks, SessionObserver
from toolbus.connect.establish import ConnectHints, open_session, root_cause
from toolbus.connect.handlers import RequestHandler
from toolbus.connect.session import Session
from toolbus.connect.transports.liveness import supervise
from toolbus.core.errors import (
    AuthRequired,
    ConnectFailed,
    LinkLost,
    SecretMissing,
    ServerDown,
    ServerError,
    ToolbusError,
)
from toolbus.core.events import Emit, StateChanged
from toolbus.core.interactions import NO_HANDLERS, Interactions
from toolbus.core.operation import Admit, CallInFlight, admit_all
from toolbus.core.records import Era, State

T = TypeVar("T")
logger = logging.getLogger("toolbus")
# The SDK warns on loggers of its own; without this, Python prints that to the terminal of whoever
# has not set up logging. Whoever has still gets it all.
for _name in ("mcp", "client", "httpx2", "toolbus"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

ON_DEMAND_EVERY = 1.0
"""Seconds between attempts that are made because somebody needs the server; also limits spawning."""
DOWNLOADERS = frozenset(
    {"npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker", "podman"}
)
"""Programs that may have to fetch the server first: their silence says nothing."""
MOST_REPEATS = 3
"""How often one request that may have reached the server is sent again."""


class Link:
    """A server's connection and its state."""

    def __init__(
        self,
        config: ServerConfig,
        secrets: Secrets,
        observer: SessionObserver,
        emit: Emit,
        interactions: Interactions = NO_HANDLERS,
        admit: Admit = admit_all,
    ) -> None:
        self.config = config
        self.handler = RequestHandler(config.alias, interactions, emit, admit)
        self._callbacks = Callbacks(config, emit, observer, self._current_call)
        self._secrets = secrets
        self._observer = observer
        self._emit = emit
        self._state: State = "idle"
        self.error: ToolbusError | None = None
        self.since = time.time()
        self.era: Era | None = None
        self.protocol: str | None = None
        self._session: Session | None = None
        self._owner: asyncio.Task[None] | None = None
        self._interruptible = False
        """Whether the owner may be cancelled: it connects or pauses, and does not clean up."""
        self._closing = False
        self._ups = 0
        """How often it became ready."""
        self._begun = self._ended = 0
        """How many attempts were begun, and of how many the outcome is known."""
        self._attempted = 0.0
        """When the last attempt was begun, or failed."""
        self._lost_at: float | None = None
        """When the link was lost; None while it is up, and if it never was."""
        self._backoff = Backoff()
        self._hints = ConnectHints()
        self._wanted = asyncio.Event()
        self._turn = asyncio.Event()
        """Set, and replaced, at every change of state and outcome of an attempt."""

    # For everyone

    @property
    def state(self) -> State:
        """How it is doing now."""
        if self._closing:
            return "closed"
        # A session that is over may not be cleaned up yet.
        return "retrying" if self._state == "ready" and self._live_session is None else self._state

    @property
    def session(self) -> Session:
        """The live session; `ServerDown` tells why there is none."""
        session = self._live_session
        if session is None:
            raise self._down()
        return session

    @property
    def restarts(self) -> int:
        """How often it came back."""
        return max(0, self._ups - 1)

    @property
    def quiet(self) -> float:
        """Seconds since the server of this attempt last showed a sign of life."""
        launcher = Path(self.config.command or "").stem in DOWNLOADERS
        return 0.0 if launcher or not self._hints.diagnostics else self._hints.diagnostics.inactive

    async def open(self) -> None:
        """Connect, or try again if that failed; returns when the outcome is known, which the state tells.

        Never raises.
        """
        if self._live_session is not None or self._just_refused:
            return
        attempt = self._demand()
        while self._ended < attempt and not self._closing:
            await self._turn.wait()

    async def wait_ready(self) -> None:
        """Try until it is ready; returns early if it cannot be. The caller bounds it."""
        while self._live_session is None and not self._closing and not self._just_refused:
            self._demand()
            await self._turn.wait()

    async def close(self) -> None:
        """Disconnect; from any task, any number of times, in bounded time. Never raises."""
        self._closing = True
        if self._owner is not None:
            if self._session is not None:
                self._session.end("the link was closed")
            elif self._interruptible:
                self._owner.cancel()
            await asyncio.wait({self._owner})
        # An owner that was cancelled before its first step could not say this itself.
        self._enter("closed")

    async def request(
        self,
        send: Callable[[Session, float], Awaitable[T]],
        timeout: float,
        *,
        repeatable: bool,
        recover: float | None = None,
    ) -> T:
        """Send through the live session, and through the next one if this one is lost under it.

        What was provably not sent is sent again; what may have taken effect only if `repeatable`. A lost
        link is waited for up to `recover` seconds from the loss, by default those of the config; all of
        it within `timeout`.
        """
        loop = asyncio.get_running_loop()
        deadline, remaining, repeats = loop.time() + timeout, timeout, 0
        while True:
            session = self._live_session
            if session is None:
                session = await self._recovered(remaining, recover)
                remaining = max(0.001, deadline - loop.time())
            try:
                return await send(session, remaining)
            except LinkLost as lost:
                # What was not sent over a link that is gone may go through as many as there are.
                repeats += lost.sent or not session.gone.is_set()
                if self._closing or repeats > MOST_REPEATS or (lost.sent and not repeatable):
                    raise
            remaining = max(0.001, deadline - loop.time())

    async def _recovered(self, timeout: float, recover: float | None) -> Session:
        """The next live session; `ServerDown` if there is none in time."""
        window = self.config.timeouts.recover if recover is None else recover
        attempt: int | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._live_session is None and not self._closing:
                    left = self._recovery_left(window)
                    if left > 0:
                        self._demand()
                    elif attempt is None and not self._just_refused:
                        attempt = self._demand()
                    elif attempt is None or self._ended >= attempt:
                        break
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left or None):
                            await self._turn.wait()
        return self.session

    def _recovery_left(self, window: float) -> float:
        """How long a request waits for a link that was lost; 0 if it waits for one attempt only."""
        if self._lost_at is None or self._hopeless:
            return 0.0
        return max(0.0, self._lost_at + window - time.monotonic())

    @property
    def _hopeless(self) -> bool:
        """Whether it takes a person to get it up: no such command, no secret, no valid credentials."""
        error = self.error
        is_ours = isinstance(error, ConnectFailed) and error.phase in ("configure", "spawn")
        return is_ours or isinstance(error, AuthRequired | SecretMissing)

    @property
    def _just_refused(self) -> bool:
        """Whether an attempt showed a moment ago that it cannot come up."""
        return self._hopeless and time.monotonic() - self._attempted < ON_DEMAND_EVERY

    @property
    def _live_session(self) -> Session | None:
        # One that is over may still be here until its owner takes it away.
        return None if self._session is None or self._session.gone.is_set() else self._session

    def _demand(self) -> int:
        """Join the attempt under way, or have the owner make one soon; returns its number."""
        if self._begun > self._ended:
            return self._begun
        if self._owner is None:
            self._interruptible = True
            name = f"toolbus link {self.config.alias}"
            self._owner = asyncio.get_running_loop().create_task(self._own(), name=name)
        else:
            self._wanted.set()
        return self._begun + 1

    def _down(self) -> ServerDown:
        return ServerDown(self.config.alias, self.state, _reason(self.error))

    # For the owner

    async def _own(self) -> None:
        try:
            while not self._closing:
                if self._state != "failed":  # which it stays until it is ready: no news at every attempt
                    self._enter("connecting" if self._state == "idle" else "retrying", self.error)
                self._interruptible = True
                self._begun += 1
                self._attempted, ups = time.monotonic(), self._ups
                error = await self._lived()
                was_up = ups != self._ups
                if not was_up:
                    self._attempted = time.monotonic()
                    self._ended = self._begun
                elif error is None or isinstance(error, AuthRequired):
                    self._attempted = 0.0  # it was idle; or new credentials may be there already
                if not self._closing:
                    await self._rest(self._after(error, was_up))
        except asyncio.CancelledError:
            self._closing = True
        self._enter("closed")

    async def _rest(self, pause: float | None) -> None:
        """Wait until the pause is over; not as long if somebody needs the server."""
        self._interruptible = True
        end = None if pause is None else asyncio.get_running_loop().time() + pause
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                await self._wanted.wait()
                await asyncio.sleep(self._attempted + ON_DEMAND_EVERY - time.monotonic())
        self._wanted.clear()

    def _after(self, error: ToolbusError | None, was_up: bool) -> float | None:
        """Enter the state that follows the end of a life; returns the pause before the next one."""
        if error is None:
            self._enter("idle")
            return None
        logger.log(logging.DEBUG if str(error) == str(self.error) else logging.WARNING, "%s", error)
        if isinstance(error, AuthRequired):
            self._enter("auth_required", error)
            return None
        # A server that never was up is not waited for by anyone: no hurry.
        self._backoff.record_failure(open_breaker=self._ups == 0)
        self._enter("failed" if self._backoff.open and not was_up else "retrying", error)
        if self._backoff.failures == 1:
            return 0.0  # the first attempt after a loss is made at once
        return self._backoff.pause(spawns=self.config.transport == "stdio" or self._ups == 0)

    async def _lived(self) -> ToolbusError | None:
        """Connect, be up, disconnect; gives the reason why it is over, or none if it was idle."""
        try:
            return await self._live()
        except (Exception, BaseExceptionGroup) as failure:  # a task's edge: the SDK raises what it likes
            error = root_cause(failure)
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
                    session = await open_session(
                        stack, self.config, self._secrets, self._callbacks, self.handler, self._hints
                    )
                    idle = await self._attended(session)
                except ToolbusError as failure:
                    # Returned, not raised: the SDK's task groups would wrap it.
                    error = failure
                finally:
                    # From here on the owner cleans up, which is not to be interrupted.
                    self._interruptible = False
                    leaving.reschedule(loop.time() + self.config.timeouts.close)
        except TimeoutError:
            logger.warning("server %r did not close in time", self.config.alias)
        if error is None and session is not None and not idle:
            # Only now, because only now the exit code of a process is known.
            error = session.refused or session.lost()
        return error

    async def _attended(self, session: Session) -> bool:
        """Be ready, once the observer has listed what there is, until the session is over or idle."""
        attending = asyncio.create_task(supervise(session, self._observer))
        began = time.monotonic()
        try:
            await self._observer.opened(session)
            self._session, self._interruptible, self._lost_at = session, False, None
            self.era, self.protocol = session.era, session.protocol
            self._ups += 1
            self._ended = self._begun
            self._enter("ready")
            idle = await self._over(session)
            if idle:
                self._enter("idle")
            else:
                self._lost_at = time.monotonic()
            return idle
        finally:
            self._session = None
            self._backoff.record_uptime(time.monotonic() - began)
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
                if session.busy or self._observer.needed:
                    session.used = loop.time()
                elif limit is not None and loop.time() - session.used >= limit:
                    return True

    def _enter(self, state: State, error: ToolbusError | None = None) -> None:
        previous, self._state = self._state, state
        is_news = state != previous or str(error) != str(self.error)
        self.error = error
        if is_news:
            self.since = time.time()
            message = str(error) if error else None
            logger.info("server %r: %s -> %s", self.config.alias, previous, state)
            self._emit(StateChanged(server=self.config.alias, state=state, previous=previous, error=message))
        turn, self._turn = self._turn, asyncio.Event()
        turn.set()

    def _current_call(self) -> CallInFlight | None:
        return None if self._session is None else self._session.calls_in_flight.current


def _reason(error: ToolbusError | None) -> str | None:
    # Without the server's name, which the message that quotes it has already.
    return error.problem if isinstance(error, ServerError) else error and str(error)
