"""A request that waits for its response."""

import asyncio
from dataclasses import dataclass
from typing import Any

from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError

from toolbus.connect.transports.wire.messages import Message
from toolbus.connect.transports.wire.wire_error import WireError

ResponseFuture = asyncio.Future[Message]


@dataclass(slots=True)  # not frozen, which would cost every call
class Pending:
    """The future of a response; the first outcome counts."""

    response: ResponseFuture
    on_progress: ProgressFnT | None
    is_list: bool = False
    """Whether one bad item of the response should not cost the others."""

    def resolve(self, result: Message) -> None:
        """The server sent a result."""
        if not self.response.done():
            self.response.set_result(result)

    def fail(self, code: int, message: str, data: Any = None) -> None:
        """The server sent an error, or a response that cannot be used."""
        if not self.response.done():
            self.response.set_exception(MCPError(code=code, message=message, data=data))

    def disconnect(self, reason: str) -> None:
        """The connection has ended."""
        if not self.response.done():
            self.response.set_exception(WireError(reason, sent=True))
