"""The seam between connections and telemetry: what a connection reports to the span of each request.

A span that is open is in the OpenTelemetry context, below `SPAN`. Nothing here imports OpenTelemetry before
something is traced.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, cast

from toolbus.core.values.records import JSON

SPAN = "toolbus-span"
"""The key of the open `RequestSpan` in the OpenTelemetry context."""


@dataclass(slots=True, kw_only=True)
class Connection:
    """The facts of one connection, for the spans of its requests."""

    transport: str = ""
    """`pipe`, `tcp` or `unix`; empty for a server in this process."""
    address: str | None = None
    """The host of an HTTP server, or its Unix socket."""
    port: int | None = None
    session: str | None = None
    """The session id that the server gave."""
    protocol: str | None = None
    """The negotiated protocol version."""


class RequestSpan(Protocol):
    """The span of a request, or of an operation that may take several."""

    server: str
    method: str

    def sent(self, request_id: int | str | None, connection: Connection) -> None:
        """The request is sent over a connection, maybe once more."""
        ...

    def event(self, name: str, attributes: Mapping[str, str]) -> None:
        """Something happened meanwhile."""
        ...


class Tracing(Protocol):
    """Traces the traffic of the link to one server; each method returns a context manager."""

    def connecting(self) -> AbstractContextManager[object]:
        """An attempt to connect."""
        ...

    def connected(self, connection: Connection) -> None:
        """The attempt has succeeded."""
        ...

    def listing(self) -> AbstractContextManager[object]:
        """Listing what the server offers."""
        ...

    def request(
        self, method: str, params: Mapping[str, JSON] | None, connection: Connection
    ) -> AbstractContextManager[object]:
        """A request to the server; one that belongs to the span of an operation gets no other."""
        ...

    def asked(
        self, method: str, params: Mapping[str, JSON] | None, request_id: object, connection: Connection
    ) -> AbstractContextManager[object]:
        """A request of the server to us."""
        ...


def current_span() -> RequestSpan | None:
    """The span that is open in this task."""
    from opentelemetry.context import get_value

    return cast("RequestSpan | None", get_value(SPAN))


def add_event(name: str, **attributes: str) -> None:
    """Add an event to the open span, if there is one."""
    if (span := current_span()) is not None:
        span.event(name, attributes)


def leave_trace() -> None:
    """Leave the trace that this task was started in: what it does from now on has another cause."""
    from opentelemetry.context import Context, attach, get_current

    if get_current():
        attach(Context())
