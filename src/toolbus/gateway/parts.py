"""The parts of a gateway that its methods use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from toolbus.core.values.records import JSONObject
from toolbus.gateway.calls.calls import ClientCalls
from toolbus.gateway.calls.tasks import ClientTasks
from toolbus.gateway.listening import Notifications
from toolbus.gateway.protocol.header_arguments import HeaderArguments
from toolbus.gateway.protocol.request import ClientRequest
from toolbus.gateway.settings import GatewayLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayParts:
    """What answers requests."""

    settings: GatewayLimits
    calls: ClientCalls
    tasks: ClientTasks
    listening: Notifications
    mirroring: HeaderArguments
    started: Callable[[], Awaitable[None]]
    """Waits until the bus has started; raises if it cannot."""
    listed: Callable[[ClientRequest], Awaitable[None]]
    """Waits, for a bounded time, until the lists of a client are known."""
    is_stale: Callable[[ClientRequest, str], bool]
    """Whether a server may be known only from an earlier process, because the bus is starting."""
    fresh: Callable[[ClientRequest, str], Awaitable[None]]
    """Waits until that is over."""


Method: TypeAlias = Callable[[GatewayParts, ClientRequest], Awaitable[JSONObject]]
"""Answers the requests of one method."""
