"""Traces what goes over the link to one server besides operations: connecting, listing, its own requests."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from toolbus.core.operation.events import Emit, Event, InputAnswered, InputAsked, StateChanged
from toolbus.core.operation.tracing import ConnectionFacts, RequestSpan, current_span
from toolbus.core.values.records import JSON
from toolbus.telemetry import names
from toolbus.telemetry.attributes import in_metrics, of_connection, of_params
from toolbus.telemetry.providers import UNTRACED, Providers, is_installed

if TYPE_CHECKING:
    from toolbus.config.settings.audit import Telemetry
    from toolbus.telemetry.spans import TracedRequest

FINE = frozenset({"idle", "closed"})
"""States after which a session has ended as it should."""
STREAM = "subscriptions/listen"
"""A request that lasts as long as the session."""
SETUP = frozenset(
    {
        *("initialize", "server/discover", "logging/setLevel"),
        *("tools/list", "resources/list", "resources/templates/list", "prompts/list"),
    }
)
"""The requests of connecting and listing; others may go on meanwhile."""


class LinkTracing:
    """Traces one link."""

    def __init__(
        self,
        server: str,
        providers: Providers,
        settings: "Callable[[], Telemetry | None]",
        calls: "Mapping[int, RequestSpan]",
    ) -> None:
        """`calls` has the spans of the operations in flight, by id."""
        self._server = server
        self._providers = providers
        self._settings = settings
        self._calls = calls
        self._connection = ConnectionFacts()
        self._outer: TracedRequest | None = None
        """The span of the attempt to connect, or of listing."""
        self._ready_since: float | None = None
        self._connects = 0

    # For the connection

    @contextmanager
    def connecting(self) -> Generator[None]:
        """A span of an attempt to connect; the requests of it are below it."""
        with self._within("connect"):
            yield

    def connected(self, connection: ConnectionFacts) -> None:
        """The attempt has succeeded."""
        self._connection = connection
        if self._outer is not None:
            self._outer.sent(None, connection)

    @contextmanager
    def listing(self) -> Generator[None]:
        """A span of listing what the server offers; the requests of it are below it."""
        with self._within("list"):
            yield

    def request(
        self, method: str, params: Mapping[str, JSON] | None, connection: ConnectionFacts
    ) -> AbstractContextManager[object]:
        """A span of a request, unless it is the one that the current span is about."""
        settings = self._settings()
        if settings is None or not is_installed():
            return UNTRACED
        from toolbus.telemetry.spans import SpanKind, TracedRequest

        span = current_span()
        if span is not None and span.method == method and span.server == self._server:
            return UNTRACED
        attributes = of_params(method, params) | {names.SERVER: self._server}
        version = (params or {}).get("protocolVersion") if method == "initialize" else None
        if isinstance(version, str):
            attributes[names.PROTOCOL] = version
        is_below = self._outer is not None and method in SETUP
        return TracedRequest(
            self._providers.tracer,
            None if method == STREAM else self._providers.client_operations,
            SpanKind.CLIENT,
            attributes,
            context=self._outer.context if self._outer is not None and is_below else None,
            shown=settings.content,
        )

    def asked(
        self, method: str, params: Mapping[str, JSON] | None, request_id: object, connection: ConnectionFacts
    ) -> AbstractContextManager[object]:
        """A span of a request that the server makes; its parent is the server's own span, if it has one."""
        settings = self._settings()
        if settings is None or not is_installed():
            return UNTRACED
        from toolbus.telemetry.context import Context, remote_context
        from toolbus.telemetry.spans import SpanKind, TracedRequest

        attributes = of_params(method, params) | {names.SERVER: self._server}
        traced = TracedRequest(
            self._providers.tracer,
            self._providers.server_operations,
            SpanKind.SERVER,
            attributes,
            context=remote_context((params or {}).get("_meta")) or Context(),
            shown=settings.content,
        )
        traced.sent(request_id if isinstance(request_id, int | str) else None, connection)
        return traced

    @contextmanager
    def _within(self, name: str) -> Generator[None]:
        settings = self._settings()
        if settings is None or not is_installed():
            yield
            return
        from toolbus.telemetry.spans import SpanKind, TracedRequest

        outer = TracedRequest(
            self._providers.tracer,
            None,
            SpanKind.INTERNAL,
            {names.SERVER: self._server},
            name=f"{name} {self._server}",
            shown=settings.content,
        )
        before, self._outer = self._outer, outer
        try:
            with outer:
                yield
        finally:
            self._outer = before

    # For the events of the link

    def following(self, emit: Emit) -> Emit:
        """Passes events on, and learns from them."""

        def follow(event: Event) -> None:
            if isinstance(event, StateChanged):
                self._changed(event)
            elif self._calls and isinstance(event, InputAsked | InputAnswered):
                self._add_input(event)
            emit(event)

        return follow

    def _add_input(self, event: InputAsked | InputAnswered) -> None:
        span = None if event.id is None else self._calls.get(event.id)
        if span is not None:
            is_question = isinstance(event, InputAsked)
            facts = {"kind": event.kind} if is_question else {"kind": event.kind, "action": event.action}
            span.event("toolbus.input_asked" if is_question else "toolbus.input_answered", facts)

    def _changed(self, event: StateChanged) -> None:
        """Record how long a session lasted, and that the server is back."""
        is_on = self._settings() is not None and is_installed()
        if event.state == "ready":
            self._ready_since = time.monotonic()
            self._connects += 1
            if self._connects > 1 and is_on:
                self._providers.restarts.add(1, {names.SERVER: self._server})
        elif event.previous == "ready" and self._ready_since is not None:
            seconds, self._ready_since = time.monotonic() - self._ready_since, None
            if is_on:
                facts = in_metrics(of_connection(self._connection)) | {names.SERVER: self._server}
                if event.state not in FINE:
                    facts[names.ERROR_TYPE] = event.state if event.state == "auth_required" else "lost"
                self._providers.client_sessions.record(seconds, facts)
