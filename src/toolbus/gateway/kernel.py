"""The parts of a gateway that its methods use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from toolbus.core.values.records import JSONObject
from toolbus.gateway.calls.calls import Calls
from toolbus.gateway.calls.tasks import Tasks
from toolbus.gateway.listening import Listening
from toolbus.gateway.protocol.header_arguments import Mirroring
from toolbus.gateway.protocol.request import Request
from toolbus.gateway.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What answers requests."""

    settings: Settings
    calls: Calls
    tasks: Tasks
    listening: Listening
    mirroring: Mirroring
    started: Callable[[], Awaitable[None]]
    """Waits until the bus has started; raises if it cannot."""
    listed: Callable[[Request], Awaitable[None]]
    """Waits, for a bounded time, until the lists of a client are known."""
    is_stale: Callable[[Request, str], bool]
    """Whether a server may be known only from an earlier process, because the bus is starting."""
    fresh: Callable[[Request, str], Awaitable[None]]
    """Waits until that is over."""


Method: TypeAlias = Callable[[Kernel, Request], Awaitable[JSONObject]]
"""Answers the requests of one method."""
