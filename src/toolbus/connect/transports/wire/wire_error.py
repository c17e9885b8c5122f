"""A failure of the connection, as everything above the transports sees it."""

from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from toolbus.core.values.errors import ToolbusError


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
        """What went wrong, if it is known better than by this."""


class NotSendable(Exception):
    """A request cannot be written as JSON; nothing was sent."""
