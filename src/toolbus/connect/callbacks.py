"""What a server sends unasked, and who takes it: notices of changes, log messages, oddities."""

import inspect
import logging
from collections.abc import Callable
from typing import Protocol

import mcp_types as types
from mcp.client import IncomingMessage

from toolbus.config import ServerConfig
from toolbus.connect.session import Session
from toolbus.core.events import Emit, Logged, Warned
from toolbus.core.operation import CallInFlight

logger = logging.getLogger("toolbus")


class SessionObserver(Protocol):
    """Who looks after what the server offers while the link is up."""

    @property
    def needed(self) -> bool:
        """Whether somebody waits for what the server says unasked: the link is then never idle."""
        ...

    async def opened(self, session: Session) -> None:
        """List what a new session offers; it is used only after that."""
        ...

    def noticed(self, method: str, uri: str | None) -> None:
        """The server says that a list changed, or what is at an address."""
        ...

    async def attend(self, session: Session) -> None:
        """Runs from before `opened` until the session ends, when it is cancelled."""
        ...


class Callbacks:
    """Where such messages of one server go."""

    def __init__(
        self,
        config: ServerConfig,
        emit: Emit,
        observer: SessionObserver,
        current: Callable[[], CallInFlight | None],
    ) -> None:
        self._config = config
        self._emit = emit
        self._observer = observer
        self._current_call = current

    def warn(self, message: str, tool: str | None) -> None:
        """Report something odd about the server, or about one of its tools."""
        logger.warning("server %r: %s%s", self._config.alias, f"tool {tool!r}: " if tool else "", message)
        self._emit(Warned(server=self._config.alias, message=message, tool=tool))

    async def notice(self, message: IncomingMessage) -> None:
        """Pass on that a list or a resource changed."""
        if not isinstance(message, Exception):
            updated = isinstance(message, types.ResourceUpdatedNotification)
            self._observer.noticed(message.method, message.params.uri if updated else None)

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Emit a log message, and hand it to the call that it belongs to."""
        if self._config.log_level == "off":
            return
        in_flight = self._current_call()
        logged = Logged(
            server=self._config.alias,
            level=params.level,
            logger=params.logger,
            data=params.data,
            id=in_flight.operation_id if in_flight else None,
            tool=in_flight.tool if in_flight else None,
        )
        self._emit(logged)
        if in_flight is not None and in_flight.on_log is not None:
            waiting = in_flight.on_log(logged)
            if inspect.isawaitable(waiting):
                await waiting
