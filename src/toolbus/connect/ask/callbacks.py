"""Handle a server's notifications and log messages."""

import inspect
from collections.abc import Callable
from typing import Protocol

import mcp_types as types
from mcp.client import IncomingMessage

from toolbus.config import ServerConfig
from toolbus.connect.in_flight import CallsInFlight
from toolbus.connect.session import Session
from toolbus.core.operation.events import Emit, Logged, LoginNeeded, warn
from toolbus.core.operation.tracing import Tracing


class SessionObserver(Protocol):
    """Follows what the server offers while the link is up."""

    tracing: Tracing | None
    """Traces the link; None if nobody does."""

    @property
    def keeps_link_open(self) -> bool:
        """Whether it waits for notifications, so that the link must not become idle."""
        ...

    async def on_open(self, session: Session) -> None:
        """List what a new session offers; requests are sent only after that."""
        ...

    def on_notification(self, method: str, uri: str | None) -> None:
        """The server reports that a list changed, or the resource with this URI."""
        ...

    async def run(self, session: Session) -> None:
        """Runs from before `on_open` until the session ends, when it is cancelled."""
        ...


class Callbacks:
    """Routes one server's notifications."""

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

    @property
    def tracing(self) -> Tracing | None:
        """Traces the link."""
        return self._observer.tracing

    def warn(self, message: str, tool: str | None) -> None:
        """Warn about the server, or about one of its tools."""
        warn(self._emit, self._config.alias, message, tool)

    def need_login(self, user: str, reason: str) -> None:
        """Report that somebody has to sign in, although the link is up."""
        self._emit(LoginNeeded(server=self._config.alias, user=user, reason=reason))

    async def on_message(self, message: IncomingMessage) -> None:
        """Report to the observer that a list or a resource changed."""
        if not isinstance(message, Exception):
            updated = isinstance(message, types.ResourceUpdatedNotification)
            self._observer.on_notification(message.method, message.params.uri if updated else None)

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Emit a log message, and pass it to the call that it belongs to."""
        if self._config.log_level == "off":
            return
        calls = self._calls() or CallsInFlight()
        in_flight, on_log = calls.current, calls.on_log
        logged = Logged(
            server=self._config.alias,
            level=params.level,
            logger=params.logger,
            data=params.data,
            id=in_flight.operation_id if in_flight else None,
            tool=in_flight.tool if in_flight else None,
        )
        self._emit(logged)
        if on_log is not None:
            waiting = on_log(logged)
            if inspect.isawaitable(waiting):
                await waiting
