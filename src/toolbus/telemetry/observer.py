"""Follows the operations of a bus: each is a span of kind CLIENT, and a duration."""

from typing import TYPE_CHECKING

from toolbus.config import BusConfig
from toolbus.config.secrets.literals import literal_secrets
from toolbus.config.secrets.redact import Redactor
from toolbus.core.operation.operation import Failure, Operation
from toolbus.core.values.records import ToolResult
from toolbus.telemetry import names
from toolbus.telemetry.attributes import Attributes, content, of_target, result_content, variables
from toolbus.telemetry.links import LinkTracing
from toolbus.telemetry.providers import Providers, is_installed, load_named_providers

if TYPE_CHECKING:
    from toolbus.telemetry.spans import TracedRequest

SERVER_REQUESTS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
"""Requests of a server; each has a span of its own if it came over the wire."""
_PROMPT_TOOL = "(prompt) "
"""Begins the name of a prompt that is also a tool."""


class BusTelemetry:
    """The telemetry of a bus, which its users share: observes operations, and traces links."""

    def __init__(self, config: BusConfig) -> None:
        self._providers = Providers()
        self._calls: dict[int, TracedRequest] = {}
        """The spans of the operations in flight, by id."""
        self.use(config)
        self._is_loaded = False

    def use(self, config: BusConfig) -> None:
        """Use the settings of a config."""
        self._settings = config.telemetry
        literals = (secret.value for server in config.servers.values() for secret in literal_secrets(server))
        is_needed = config.telemetry is not None and config.telemetry.content
        # Held: all redactors that exist are asked, and no connection knows these yet.
        self._redactor = Redactor(literals) if is_needed else None

    # For the path of operations

    def start(self, operation: Operation, /) -> "_OperationSpan | None":
        """None if nobody listens, or if the operation reaches no server."""
        settings = self._settings
        if settings is None or not is_installed():
            if not self._is_loaded:
                self._is_loaded = True
                load_named_providers()
            return None
        spec = operation.spec
        route, server = spec.route, operation.server
        if not server or route in SERVER_REQUESTS or route.startswith("toolbus/"):
            return None
        return _OperationSpan(
            self._span(operation, server, settings.content), self._calls, operation, settings.content
        )

    def _span(self, operation: Operation, server: str, shown: bool) -> "TracedRequest":
        from toolbus.telemetry.spans import SpanKind, TracedRequest

        attributes = _attributes(operation)
        attributes[names.SERVER] = str(server)
        if operation.caller.face:
            attributes[names.CALLER] = operation.caller.face
        if shown:
            attributes |= _content(operation)
        providers = self._providers
        return TracedRequest(
            providers.tracer, providers.client_operations, SpanKind.CLIENT, attributes, shown=shown
        )

    # For links

    def tracing(self, server: str) -> LinkTracing:
        """Traces one link."""
        return LinkTracing(server, self._providers, lambda: self._settings, self._calls)


class _OperationSpan:
    """The observation of one operation."""

    __slots__ = ("_calls", "_operation", "_shown", "_span")
    ignores_progress = True

    def __init__(
        self,
        span: "TracedRequest",
        calls: "dict[int, TracedRequest]",
        operation: Operation,
        shown: bool,
    ) -> None:
        self._span = span
        self._calls = calls
        self._operation = operation
        self._shown = shown
        calls[operation.id] = span

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Not recorded."""

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        """It ended."""
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
