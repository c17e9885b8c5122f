"""A request on its way: whether it has left this process, its response, and how it fails."""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from toolbus.connect.transports.wire.messages import Message
from toolbus.core.values.errors import ToolbusError

ResponseFuture = asyncio.Future[Message]


@dataclass(slots=True)  # not frozen, which would cost every call
class PendingRequest:
    """The future of a response; the first outcome counts."""

    response: ResponseFuture
    on_progress: ProgressFnT | None
    is_list: bool = False
    """Whether one bad item of the response should not cost the others."""

    def resolve(self, result: Message) -> None:
        if not self.response.done():
            self.response.set_result(result)

    def fail(self, code: int, message: str, data: Any = None) -> None:
        """The server sent an error, or a response that cannot be used."""
        if not self.response.done():
            self.response.set_exception(MCPError(code=code, message=message, data=data))

    def disconnect(self, reason: str) -> None:
        if not self.response.done():
            self.response.set_exception(WireError(reason, sent=True))


@dataclass(slots=True)
class Delivery:
    """One request on its way to the server."""

    unsent: bool | None = None
    """True until the transport begins to write its body; None if the transport does not track it."""
    is_answered: bool = False
    """Whether the answer has arrived, and only waits for the handlers of earlier messages."""

    @property
    def may_have_arrived(self) -> bool:
        """Whether the server may have received it."""
        return self.unsent is not True


class ToolHeaders(dict[str, str]):
    """The headers of every call of one tool: the head of its requests is worth keeping."""


DELIVERY: ContextVar[Delivery | None] = ContextVar("toolbus_delivery", default=None)
"""The delivery of the request that this task sends."""


class WireError(MCPError):
    """A failure of the connection, with facts that the SDK's own error lacks."""

    def __init__(
        self,
        message: str,
        *,
        sent: bool,
        lost: bool = True,
        status: int | None = None,
        code: int = CONNECTION_CLOSED,
        data: Any = None,
        reported: ToolbusError | None = None,
    ) -> None:
        super().__init__(code, message, data)
        self.sent = sent
        """Whether the server may have started the request."""
        self.lost = lost
        """Whether the connection, or the server's session, has ended."""
        self.status = status
        self.reported = reported
        """The specific problem, if it is known better than by this error."""


class NotSendable(Exception):
    """A request cannot be written as JSON; nothing was sent."""
