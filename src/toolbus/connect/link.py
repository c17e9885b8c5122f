"""The supervised connection to one server; requests wait here while it restarts.

One task owns it: it enters the SDK's client, waits, leaves it, and starts over when the connection is lost.
Other tasks only read the state and send requests. So open, call and close work from any task and in any
order. The SDK's cancellation and exception groups never leave this file.

    idle            nothing is connected; the first request connects
    connecting      the first attempt
    ready           in use
    retrying        lost, and being retried
    auth_required   refused with 401 or 403; retried on demand
    failed          failed several times in a row; retried rarely, and on demand
    closed          closed for good

A request waits for a lost link up to `timeouts.reconnect` seconds from the loss. After that, and for a
link that was never up, it waits for the outcome of one attempt: the current one, or a new one.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from toolbus.config import ServerConfig
from toolbus.connect.auth.credentials import LinkOwner
from toolbus.connect.handlers import RequestHandler
from toolbus.connect.observer import Callbacks, SessionObserver, supervise, wait_until_over
from toolbus.connect.opening.attempt import EarlyStart
from toolbus.connect.opening.backoff import Backoff
from toolbus.connect.opening.diagnostics import DOWNLOADERS
from toolbus.connect.opening.establish import SessionOpener, root_cause
from toolbus.connect.opening.failure import awaits_client, needs_user
from toolbus.connect.session import ServerSession, wait_for_room
from toolbus.core.ask.interactions import NO_HANDLERS, Interactions
from toolbus.core.loop import Flag
from toolbus.core.operation.events import Emit, StateChanged
from toolbus.core.operation.operation import Admit, admit_all
from toolbus.core.operation.tracing import add_event
from toolbus.core.values.errors import (
    AuthRequired,
    ConnectFailed,
    ConnectionLost,
    DownReason,
    LoginRequired,
    ServerDown,
    ToolbusError,
    problem_of,
)
from toolbus.core.values.records import Era, State

T = TypeVar("T")
logger = logging.getLogger("toolbus")
ON_DEMAND_EVERY = 1.0
"""Seconds between attempts on demand; also limits how often a process is started."""
SPAWN_BY_NAME_EVERY = 10.0
"""Seconds between starts of a failed program because of unknown names."""
CLOSE_MARGIN = 1.0
"""Seconds beyond `timeouts.close` for killing the remaining processes."""
MAX_REPEATS = 3
"""The maximum number of repeats for a request that may have reached the server."""


MOST_ENDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEnd:
    """A session that was lost, or an attempt that failed."""

    at: float
    """Seconds since the epoch."""
    was_ready: bool
    reason: str
    exit_status: str | None
    """The end of a process by itself: `exit code 3`, `signal 9`."""
    last_line: str
    """The last line on stderr that is not empty; without secrets."""


class Link:
    """A server's connection and its state."""

    def __init__(
        self,
        config: ServerConfig,
        identity: LinkOwner,
        observer: SessionObserver,
        emit: Emit,
        interactions: Interactions = NO_HANDLERS,
        admit: Admit = admit_all,
        early: EarlyStart | None = None,
    ) -> None:
        self.config = config
        self.handler = RequestHandler(config.alias, interactions, emit, admit)
        self._callbacks = Callbacks(
            config, emit, observer, lambda: self._session and self._session.calls_in_flight
        )
        self._observer = observer
        self._emit = emit
        self._state: State = "idle"
        self.error: ToolbusError | None = None
        self.since = time.time()
        self.era: Era | None = None
        self.protocol: str | None = None
        self._session: ServerSession | None = None
        self._owner: asyncio.Task[None] | None = None
        self._interruptible = False
        """Whether the owner may be cancelled: it connects or waits, and does not clean up."""
        self._closing = False
        self._restarting = False
        """Whether the session was ended to be replaced by the next one."""
        self._connects = 0
        """The number of times it became ready."""
        self._attempts_started = self._attempts_finished = 0
        self._last_attempt = 0.0
        """The time when the last attempt started, or failed."""
        self._lost_at: float | None = None
        """The time when the link was lost; None while it is up, or if it never was."""
        self._backoff = Backoff()
        self._opener = SessionOpener(config, identity, self._callbacks, self.handler, early, self.begin)
        self._demanded = Flag()
        self._changed = Flag()
        """Set, and replaced, at every change of state and end of an attempt."""
        self.ends: list[LinkEnd] = []
        """The last sessions that were lost, and attempts that failed; the newest last."""

    # For all tasks

    @property
    def state(self) -> State:
        if self._closing:
            return "closed"
        # A session that is over may not be cleaned up yet.
        return "retrying" if self._state == "ready" and self._live_session is None else self._state

    @property
    def session(self) -> ServerSession:
        """The live session; `ServerDown` or `LoginRequired` explains why there is none."""
        session = self._live_session
        if session is None:
            raise self._down()
        return session

    @property
    def restarts(self) -> int:
        return max(0, self._connects - 1)

    @property
    def inactive(self) -> float:
        """Seconds since the server of this attempt last showed activity."""
        launcher = Path(self.config.command or "").stem in DOWNLOADERS
        diagnostics = self._opener.diagnostics
        return 0.0 if launcher or diagnostics is None else diagnostics.inactive

    @property
    def stderr(self) -> tuple[str, ...]:
        """The last lines that the server's processes wrote to stderr, without secrets."""
        return self._opener.stderr

    async def open(self, *, by_name: bool = False) -> None:
        """Connect, or retry; returns when the outcome is known (see `state`). Never raises.

        With `by_name`, the call is for an unlisted tool that the server may have. Such calls restart a failed
        program only rarely: anyone can call a name that does not exist.
        """
        every = SPAWN_BY_NAME_EVERY if by_name and self.config.transport == "stdio" else 0.0
        is_recent = self._state == "failed" and time.monotonic() - self._last_attempt < every
        if self._live_session is not None or self._failed_recently or is_recent:
            return
        await self._wait_for_attempt(self._demand())

    async def restart(self) -> None:
        """End the connection, and the server's process, and connect again; returns as `open` does."""
        session = self._live_session
        if session is None:
            attempt = self._demand()
        else:
            self._restarting, attempt = True, self._attempts_started + 1
            session.end("the server is being restarted")
        await self._wait_for_attempt(attempt)

    async def _wait_for_attempt(self, attempt: int) -> None:
        while self._attempts_finished < attempt and not self._closing:
            await self._changed.wait()

    def begin(self) -> None:
        """Start to connect; does not wait."""
        if self._live_session is None:
            self._demand()

    async def wait_ready(self) -> None:
        """Try until it is ready; returns early if it cannot be. The caller sets a timeout."""
        while self._live_session is None and not self._closing and not self._failed_recently:
            self._demand()
            await self._changed.wait()

    async def close(self) -> None:
        """Disconnect; from any task, any number of times, in bounded time. Never raises."""
        self._closing = True
        if self._owner is not None:
            if self._session is not None:
                self._session.end("the link was closed")
            elif self._interruptible:
                self._interruptible = False  # a second close must not interrupt what follows
                self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=self.config.timeouts.close + CLOSE_MARGIN)
            if not self._owner.done():  # something that it waits for ignores that it was cancelled
                logger.warning("server %r did not close in time and is abandoned", self.config.alias)
                self._owner.cancel()
        self._opener.close()
        # An owner that was cancelled before its first step did not do this itself.
        self._enter("closed")

    async def request(
        self,
        send: Callable[[ServerSession, float], Awaitable[T]],
        timeout: float,
        *,
        repeatable: bool,
        reconnect_timeout: float | None = None,
    ) -> T:
        """Send; again if it was not sent or found no room, and if it may have taken effect, if `repeatable`.

        It waits for a lost link up to `reconnect_timeout` seconds from the loss, by default the config's.
        """
        loop = asyncio.get_running_loop()
        deadline, remaining, repeats = loop.time() + timeout, timeout, 0
        while True:
            session = self._session
            if session is None or session.gone.is_set():  # not `_live_session`: every call is here
                try:
                    session = await self._wait_for_session(remaining, reconnect_timeout)
                except ServerDown as down:
                    down.sent = repeats > 0  # else it was never sent over a link that was lost
                    raise
                add_event("toolbus.reconnected" if self.restarts else "toolbus.connected")
                remaining = max(0.001, deadline - loop.time())
            try:
                return await send(session, remaining)
            except ConnectionLost as lost:
                # A request that was not sent may be retried over any number of lost links.
                repeats += lost.sent or not session.gone.is_set()
                if self._closing or lost.is_final or repeats > MAX_REPEATS or (lost.sent and not repeatable):
                    raise
                add_event("toolbus.retry")
            except ToolbusError as refused:
                await wait_for_room(refused, deadline)
            remaining = max(0.001, deadline - loop.time())

    async def _wait_for_session(self, timeout: float, reconnect_timeout: float | None) -> ServerSession:
        """The next live session; `ServerDown` if there is none in time."""
        window = self.config.timeouts.reconnect if reconnect_timeout is None else reconnect_timeout
        attempt: int | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._live_session is None and not self._closing:
                    left = self._recovery_left(window)
                    if left > 0:
                        self._demand()
                    elif attempt is None and not self._failed_recently:
                        attempt = self._demand()
                    elif attempt is None or self._attempts_finished >= attempt:
                        break
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left or None):
                            await self._changed.wait()
        return self.session

    def _recovery_left(self, window: float) -> float:
        """The time that a request waits for a lost link; 0 if it waits for one attempt only."""
        if self._lost_at is None or needs_user(self.error):
            return 0.0
        return max(0.0, self._lost_at + window - time.monotonic())

    @property
    def _failed_recently(self) -> bool:
        """Whether an attempt just showed that it cannot connect, and no other one is being made."""
        is_recent = time.monotonic() - self._last_attempt < ON_DEMAND_EVERY
        return needs_user(self.error) and is_recent and self._attempts_started == self._attempts_finished

    @property
    def _live_session(self) -> ServerSession | None:
        # A session that is over stays here until its owner removes it.
        return None if self._session is None or self._session.gone.is_set() else self._session

    def _demand(self) -> int:
        """Join the current attempt, or have the owner start one soon; returns its number."""
        if self._attempts_started > self._attempts_finished:
            return self._attempts_started
        if self._owner is None:
            self._interruptible = True
            self._owner = asyncio.create_task(self._run(), name=f"toolbus link {self.config.alias}")
        else:
            self._demanded.set()
        return self._attempts_started + 1

    def _down(self) -> ServerDown | LoginRequired:
        if isinstance(self.error, LoginRequired):
            return self.error.with_traceback(None)  # the same one for each request
        return ServerDown(self.config.alias, self.state, DownReason.of(self.error) if self.error else None)

    # For the owner

    async def _run(self) -> None:
        try:
            while not self._closing:
                if self._state != "failed":  # stays so until it is ready: no event for every attempt
                    self._enter("connecting" if self._state == "idle" else "retrying", self.error)
                self._interruptible = True
                self._attempts_started += 1
                self._last_attempt, connects = time.monotonic(), self._connects
                error = await self._run_attempt()
                was_up = connects != self._connects
                if not was_up:
                    self._last_attempt = time.monotonic()
                    self._attempts_finished = self._attempts_started
                elif error is None or isinstance(error, AuthRequired):
                    self._last_attempt = 0.0  # it was idle, or new credentials may already be set
                if error is not None and not self._restarting:
                    self._remember(error, was_ready=was_up)
                if not self._closing:
                    await self._wait_before_retry(self._enter_next_state(error, was_up))
        except asyncio.CancelledError:
            self._closing = True
        self._enter("closed")

    async def _wait_before_retry(self, pause: float | None) -> None:
        """Wait until the pause is over, or less if a request needs the server."""
        self._interruptible = True
        end = None if pause is None else asyncio.get_running_loop().time() + pause
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                await self._demanded.wait()
                await asyncio.sleep(self._last_attempt + ON_DEMAND_EVERY - time.monotonic())
        self._demanded.clear()

    def _enter_next_state(self, error: ToolbusError | None, was_up: bool) -> float | None:
        """Enter the state that follows an attempt; returns the pause before the next one."""
        if self._restarting:
            self._restarting = False
            self._enter("retrying")
            return 0.0
        if error is None:
            self._enter("idle")
            return None
        is_usual = awaits_client(error) or str(error) == str(self.error)
        logger.log(logging.DEBUG if is_usual else logging.WARNING, "%s", error)
        if isinstance(error, AuthRequired):
            self._enter("auth_required", error)
            return None
        # No request waits for a server that was never up: no hurry.
        self._backoff.record_failure(open_breaker=self._connects == 0)
        self._enter("failed" if self._backoff.open and not was_up else "retrying", error)
        if self._backoff.failures == 1:
            return 0.0  # the first attempt after a loss is made at once
        return self._backoff.pause(spawns=self.config.transport == "stdio" or self._connects == 0)

    def _remember(self, error: ToolbusError, *, was_ready: bool) -> None:
        diagnostics = self._opener.diagnostics
        exited = diagnostics is not None and diagnostics.exit_code is not None
        lines = (line.strip() for line in reversed(diagnostics.stderr if diagnostics else ()))
        del self.ends[: -MOST_ENDS + 1]
        self.ends.append(
            LinkEnd(
                at=time.time(),
                was_ready=was_ready,
                reason=problem_of(error),
                exit_status=diagnostics.exit_status if exited and diagnostics else None,
                last_line=next(filter(None, lines), ""),
            )
        )

    async def _run_attempt(self) -> ToolbusError | None:
        """Connect, serve, disconnect; returns why the session ended, None if it was idle."""
        try:
            return await self._run_session()
        except (Exception, BaseExceptionGroup) as failure:  # a task's edge: the SDK may raise anything
            error = root_cause(failure)
            if isinstance(error, ToolbusError):
                return error
            cause = self._callbacks.redacted(f"{type(error).__name__}: {error}")
            return ConnectFailed(self.config.alias, "connect", cause)
        finally:
            self._session = None

    async def _run_session(self) -> ToolbusError | None:
        error, session = None, None
        idle, loop = False, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as leaving, AsyncExitStack() as stack:
                try:
                    session = await self._opener.open(stack)
                    idle = await self._serve(session)
                except ToolbusError as failure:
                    # Returned, not raised: the SDK's task groups would wrap it.
                    error = failure
                finally:
                    # From here on the owner cleans up, which must not be interrupted.
                    self._interruptible = False
                    leaving.reschedule(loop.time() + self.config.timeouts.close)
        except TimeoutError:
            logger.warning("server %r did not close in time", self.config.alias)
        if error is None and session is not None and not idle:
            # Not earlier, because the exit code of a process is known only now.
            error = session.refused or session.loss_error()
        return error

    async def _serve(self, session: ServerSession) -> bool:
        """Be ready from when the observer has listed everything until the session is over or idle."""
        supervisor, began = asyncio.create_task(supervise(session, self._observer)), time.monotonic()
        try:
            await self._observer.on_open(session)
            self._session, self._interruptible, self._lost_at = session, False, None
            self.era, self.protocol = session.era, session.protocol
            self._connects += 1
            self._attempts_finished = self._attempts_started
            self._enter("ready")
            if await wait_until_over(session, self._observer, self.config.idle_timeout):
                self._enter("idle")
                return True
            self._lost_at = time.monotonic()
            return False
        finally:
            self._session = None
            self._backoff.record_uptime(time.monotonic() - began)
            session.end("the connection ended")
            supervisor.cancel()
            await asyncio.wait({supervisor}, timeout=CLOSE_MARGIN)

    def _enter(self, state: State, error: ToolbusError | None = None) -> None:
        previous, self._state = self._state, state
        is_news = state != previous or str(error) != str(self.error)
        self.error = error
        if is_news:
            self.since = time.time()
            alias, message = self.config.alias, str(error) if error else None
            logger.info("server %r: %s -> %s", alias, previous, state)
            self._emit(StateChanged(server=alias, state=state, previous=previous, error=message))
        changed, self._changed = self._changed, Flag()
        changed.set()
