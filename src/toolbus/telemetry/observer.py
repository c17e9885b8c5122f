"""Follows the operations of a bus: each is a span of kind CLIENT, and a duration."""

import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from toolbus.config import BusConfig
from toolbus.config.secrets.literals import literal_secrets
from toolbus.config.secrets.redact import Redactor
from toolbus.core.operation.events import Emit, Event, InputAnswered, InputAsked, StateChanged
from toolbus.core.operation.operation import Failure, Operation
from toolbus.core.operation.tracing import ConnectionFacts, current_span
from toolbus.core.values.records import JSON, ToolResult
from toolbus.telemetry import names
from toolbus.telemetry.attributes import (
    Attributes,
    content,
    in_metrics,
    of_connection,
    of_params,
    of_target,
    result_content,
    variables,
)
from toolbus.telemetry.providers import UNTRACED, Providers, is_installed, load_named_providers

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
    """Traces what a link does besides operations: connecting, listing, and the requests of its server."""

    def __init__(self, server: str, telemetry: "BusTelemetry") -> None:
        self._server = server
        self._telemetry = telemetry
        self._providers = telemetry.providers
        self._connection = ConnectionFacts()
        self._outer: TracedRequest | None = None
        """The span of the attempt to connect, or of listing."""
        self._ready_since: float | None = None
        self._connects = 0

    # For the connection

    def connecting(self) -> AbstractContextManager[None]:
        """A span of an attempt to connect; the requests of it are below it."""
        return self._within("connect")

    def connected(self, connection: ConnectionFacts) -> None:
        self._connection = connection
        if self._outer is not None:
            self._outer.sent(None, connection)

    def listing(self) -> AbstractContextManager[None]:
        """A span of listing what the server offers; the requests of it are below it."""
        return self._within("list")

    def request(
        self, method: str, params: Mapping[str, JSON] | None, connection: ConnectionFacts
    ) -> AbstractContextManager[object]:
        """A span of a request, unless it is the one that the current span is about."""
        settings = self._recorded()
        if settings is None:
            return UNTRACED
        span = current_span()
        if span is not None and span.method == method and span.server == self._server:
            return UNTRACED
        from toolbus.telemetry.spans import SpanKind, TracedRequest

        attributes = of_params(method, params) | {names.SERVER: self._server}
        version = (params or {}).get("protocolVersion") if method == "initialize" else None
        if isinstance(version, str):
            attributes[names.PROTOCOL] = version
        durations = None if method == STREAM else self._providers.client_operations
        context = self._outer.context if self._outer is not None and method in SETUP else None
        tracer, shown = self._providers.tracer, settings.content
        return TracedRequest(tracer, durations, SpanKind.CLIENT, attributes, context=context, shown=shown)

    def asked(
        self, method: str, params: Mapping[str, JSON] | None, request_id: object, connection: ConnectionFacts
    ) -> AbstractContextManager[object]:
        """A span of a request that the server makes; its parent is the server's own span, if it has one."""
        settings = self._recorded()
        if settings is None:
            return UNTRACED
        from toolbus.telemetry.spans import Context, SpanKind, TracedRequest, remote_context

        attributes = of_params(method, params) | {names.SERVER: self._server}
        durations, context = self._providers.server_operations, remote_context((params or {}).get("_meta"))
        traced = TracedRequest(
            self._providers.tracer,
            durations,
            SpanKind.SERVER,
            attributes,
            context=context or Context(),
            shown=settings.content,
        )
        traced.sent(request_id if isinstance(request_id, int | str) else None, connection)
        return traced

    def _recorded(self) -> "Telemetry | None":
        """The settings, if anything is recorded."""
        settings = self._telemetry.settings
        return settings if settings is not None and is_installed() else None

    @contextmanager
    def _within(self, name: str) -> Generator[None]:
        settings = self._recorded()
        if settings is None:
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
            elif self._telemetry.calls and isinstance(event, InputAsked | InputAnswered):
                self._add_input(event)
            emit(event)

        return follow

    def _add_input(self, event: InputAsked | InputAnswered) -> None:
        span = None if event.id is None else self._telemetry.calls.get(event.id)
        if span is not None:
            is_question = isinstance(event, InputAsked)
            facts = {"kind": event.kind} if is_question else {"kind": event.kind, "action": event.action}
            span.event("toolbus.input_asked" if is_question else "toolbus.input_answered", facts)

    def _changed(self, event: StateChanged) -> None:
        """Record how long a session lasted, and that the server is back."""
        is_on = self._recorded() is not None
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


SERVER_REQUESTS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
"""Requests of a server; each has a span of its own if it came over the wire."""
_PROMPT_TOOL = "(prompt) "
"""Begins the name of a prompt that is also a tool."""


class BusTelemetry:
    """The telemetry of a bus, which its users share: observes operations, and traces links."""

    def __init__(self, config: BusConfig) -> None:
        self.providers = Providers()
        self.calls: dict[int, TracedRequest] = {}
        """The spans of the operations in flight, by id."""
        self.use(config)
        self._is_loaded = False

    def use(self, config: BusConfig) -> None:
        self.settings = config.telemetry
        literals = (secret.value for server in config.servers.values() for secret in literal_secrets(server))
        is_needed = config.telemetry is not None and config.telemetry.content
        # Held: all redactors that exist are asked, and no connection knows these yet.
        self._redactor = Redactor(literals) if is_needed else None

    # For the path of operations

    def start(self, operation: Operation, /) -> "_OperationSpan | None":
        """None if nobody listens, or if the operation reaches no server."""
        settings = self.settings
        if settings is None or not is_installed():
            if not self._is_loaded:
                self._is_loaded = True
                load_named_providers()
            return None
        spec = operation.spec
        route, server = spec.route, operation.server
        if not server or route in SERVER_REQUESTS or route.startswith("toolbus/"):
            return None
        return _OperationSpan(self, operation, server, settings.content)

    # For links

    def tracing(self, server: str) -> LinkTracing:
        return LinkTracing(server, self)


class _OperationSpan:
    __slots__ = ("_calls", "_operation", "_shown", "_span")
    ignores_progress = True

    def __init__(self, telemetry: BusTelemetry, operation: Operation, server: str, shown: bool) -> None:
        from toolbus.telemetry.spans import SpanKind, TracedRequest

        attributes = _attributes(operation)
        attributes[names.SERVER] = str(server)
        if operation.caller.face:
            attributes[names.CALLER] = operation.caller.face
        if shown:
            attributes |= _content(operation)
        providers, self._calls = telemetry.providers, telemetry.calls
        self._operation, self._shown = operation, shown
        self._span = self._calls[operation.id] = TracedRequest(
            providers.tracer, providers.client_operations, SpanKind.CLIENT, attributes, shown=shown
        )

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Progress is not recorded."""

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        from toolbus.telemetry.spans import error_message, error_type, rpc_code

        self._calls.pop(self._operation.id, None)
        observed = self._operation.observed
        error = None if observed is None else observed.error
        facts: Attributes = {names.OUTCOME: _outcome(result, failure)}
        is_shown = self._shown and result is not None and self._operation.route == "tools/call"
        if is_shown and result is not None and (shown := result_content(result)) is not None:
            facts[names.RESULT] = shown
        self._span.add(facts)
        people = self._operation.people
        asked = 0.0 if people is None else people.seconds
        if failure is None:
            self._span.end(asked=asked)
        elif error is None or failure.reason in ("refused", "invalid_arguments"):
            self._span.end(failure.reason, message=failure.error or "", asked=asked)
        else:
            code, message = rpc_code(error), error_message(error)
            self._span.end(error_type(error), code=code, message=message, asked=asked)


def _outcome(result: ToolResult | None, failure: Failure | None) -> str:
    if failure is not None:
        return failure.reason
    return "pending" if result is not None and result.pending is not None else "ok"


def _attributes(operation: Operation) -> Attributes:
    spec, arguments, route = operation.spec, operation.arguments, operation.spec.route
    match route:
        case "tools/call":
            found = of_target(route, spec.origin.tool)
            if spec.name != spec.origin.tool:
                found[names.PUBLIC_TOOL] = spec.name
            return found
        case "prompts/get":
            return of_target(route, prompt=spec.origin.tool.removeprefix(_PROMPT_TOOL))
        case "completion/complete":
            return of_target(route, prompt=None if arguments.get("is_template") else spec.name)
        case "resources/read":
            return of_target(route, uri=arguments.get("uri"))
        case "resources/subscribe" | "resources/unsubscribe":
            return of_target(route, uri=spec.name)
        case _:
            return of_target(route)


def _content(operation: Operation) -> Attributes:
    arguments = operation.arguments
    if operation.route == "prompts/get":
        return variables(arguments)
    shown = content(arguments) if operation.route == "tools/call" else None
    return {} if shown is None else {names.ARGUMENTS: shown}
