"""The SDK's context of one message from the server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import RequestId

from toolbus.connect.transports.wire.messages import Message


class Notifier(Protocol):
    """Sends notifications to the server."""

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Inbound:
    """The context; a client makes no requests of its own while it responds."""

    _peer: Notifier
    transport: TransportContext
    request_id: RequestId | None
    message_metadata: MessageMetadata = None
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    @property
    def can_send_request(self) -> bool:
        return False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Message:
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._peer.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Does nothing: a client responds at once."""
