"""A session as its link follows it: notifications and log messages, idle time, and signs that it is over.

A broken stream or a failed request shows at once that an HTTP server is gone. While neither is open, a plain
TCP connection is made now and then, and closed. If it is refused, the session's own probe decides. A busy
server still accepts connections, so it is never taken for gone.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import mcp_types as types
from mcp.client import IncomingMessage
from pydantic_core import from_json, to_json

from toolbus.config import ServerConfig
from toolbus.config.secrets.redact import Redactor
from toolbus.connect.in_flight import CallsInFlight
from toolbus.connect.opening.diagnostics import HttpActivity
from toolbus.connect.session import ServerSession
from toolbus.core.operation.events import Emit, Logged, LoginNeeded, warn
from toolbus.core.operation.tracing import Tracing
from toolbus.core.values.errors import ToolbusError


class SessionObserver(Protocol):
    """Follows what the server offers while the link is up."""

    tracing: Tracing | None
    """Traces the link; None if nobody does."""

    @property
    def keeps_link_open(self) -> bool:
        """Whether it waits for notifications, so that the link must not become idle."""
        ...

    async def on_open(self, session: ServerSession) -> None:
        """List what a new session offers; requests are sent only after that."""
        ...

    def on_notification(self, method: str, uri: str | None) -> None:
        """The server reports that a list changed, or the resource with this URI."""
        ...

    async def run(self, session: ServerSession) -> None:
        """Runs from before `on_open` until the session ends, when it is cancelled."""
        ...


class Callbacks:
    """The callbacks for reports of one server, without secrets: notifications, log messages, warnings."""

    def __init__(
        self,
        config: ServerConfig,
        emit: Emit,
        observer: SessionObserver,
        calls: Callable[[], CallsInFlight | None],
    ) -> None:
        self._config = config
        self._emit = emit
        self._observer = observer
        self._calls = calls
        self.tracing = observer.tracing
        self.redactor: Redactor | None = None
        """Hides the secrets of the current attempt to connect."""

    def redacted(self, text: str) -> str:
        return text if self.redactor is None else self.redactor(text)

    def warn(self, message: str, tool: str | None = None) -> None:
        warn(self._emit, self._config.alias, self.redacted(message), tool)

    def need_login(self, user: str, reason: str) -> None:
        """Report that somebody has to sign in, although the link is up."""
        self._emit(LoginNeeded(server=self._config.alias, user=user, reason=self.redacted(reason)))

    async def on_message(self, message: IncomingMessage) -> None:
        if not isinstance(message, Exception):
            updated = isinstance(message, types.ResourceUpdatedNotification)
            self._observer.on_notification(message.method, message.params.uri if updated else None)

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Emit a log message, and pass it to the call that it belongs to."""
        if self._config.log_level == "off":
            return
        calls = self._calls() or CallsInFlight()
        in_flight, on_log = calls.current, calls.on_log
        data = params.data
        if self.redactor is not None:
            with suppress(ValueError):  # a lone surrogate, which UTF-8 cannot write
                data = from_json(to_json(data, serialize_unknown=True))
            data = self.redactor.json(data)
        logged = Logged(
            server=self._config.alias,
            level=params.level,
            logger=params.logger,
            data=data,
            id=in_flight.operation_id if in_flight else None,
            tool=in_flight.tool if in_flight else None,
        )
        self._emit(logged)
        if on_log is not None:
            waiting = on_log(logged)
            if inspect.isawaitable(waiting):
                await waiting


logger = logging.getLogger("toolbus")

CONNECT_TIMEOUT = 5.0


async def supervise(session: ServerSession, observer: SessionObserver) -> None:
    """Run the observer of a session and check its server, until cancelled; a failure ends the session."""
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(observer.run(session))
            tasks.create_task(_check_server(session))
    except ExceptionGroup as group:  # a task's edge: a session that is not watched would miss changes
        if not session.gone.is_set():
            logger.error("server %r: its observer failed", session.server, exc_info=group)
            session.end(f"its observer failed: {group.exceptions[0]}")


async def wait_until_over(session: ServerSession, observer: SessionObserver, limit: float | None) -> bool:
    """Wait until the session is gone (False), or was idle for `limit` seconds (True)."""
    loop = asyncio.get_running_loop()
    while True:
        wait = None if limit is None else max(0.01, session.used + limit - loop.time())
        try:
            async with asyncio.timeout(wait):
                await session.gone.wait()
            return False
        except TimeoutError:
            if session.busy or observer.keeps_link_open:
                session.used = loop.time()
            elif limit is not None and loop.time() - session.used >= limit:
                return True


async def _check_server(session: ServerSession) -> None:
    """Check the server until the session has ended; a probe that cannot connect ends it."""
    activity = session.activity
    if activity is None or activity.check_interval is None:
        return
    while not session.gone.is_set():
        inactive = 0.0 if activity.open_requests else time.monotonic() - activity.last_used
        if inactive < activity.check_interval:
            await asyncio.sleep(activity.check_interval - inactive)
        elif await _accepts_connections(activity) or activity.open_requests:
            activity.last_used = time.monotonic()
        else:
            with suppress(ToolbusError):
                await session.probe()


async def _accepts_connections(activity: HttpActivity) -> bool:
    """Whether the server accepts a connection; also True if it does not respond in time."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            _, writer = await (
                asyncio.open_connection(activity.host, activity.port)
                if activity.socket_path is None
                else asyncio.open_unix_connection(activity.socket_path)
            )
    except TimeoutError:
        return True
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
