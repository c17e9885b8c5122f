"""One request as OpenTelemetry sees it: a span that is current from its start to its end, and a duration."""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, cast

from opentelemetry.context import Context, attach, detach, get_current, set_value
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from toolbus.config.location import is_mapping
from toolbus.core.operation.tracing import SPAN, ConnectionFacts
from toolbus.core.values.errors import INTERNAL_ERROR
from toolbus.telemetry import names
from toolbus.telemetry.attributes import Attributes, in_metrics, of_connection, span_name, text_content

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram
    from opentelemetry.trace import SpanContext, Tracer

_propagator = TraceContextTextMapPropagator()
_KEYS = ("traceparent", "tracestate")
LONGEST = 1_000
"""Characters of a value that is read; the standard allows 512."""


def remote_context(carrier: object) -> Context | None:
    """The context in a request's `_meta`, or in its headers with lower-case names; None without a valid one.

    Baggage is not taken: it comes from others, and would go with every request that follows.
    """
    if not is_mapping(carrier):
        return None
    given = cast("Mapping[object, object]", carrier)
    texts = {
        key: value for key in _KEYS if isinstance(value := given.get(key), str) and len(value) <= LONGEST
    }
    if "traceparent" not in texts:
        return None
    found = _propagator.extract(texts, context=Context())
    return found if span_context(found).is_valid else None


def span_context(context: Context | None = None) -> "SpanContext":
    """The trace and the span of a context, by default of the current one."""
    return get_current_span(context).get_span_context()


def parent_and_links(meta: object, headers: object) -> tuple[Context | None, tuple[Link, ...]]:
    """The context that the span of a request begins in, and the links to the transport's.

    None is the current context.
    """
    ambient = span_context()
    transport = None if ambient.is_valid else remote_context(headers)
    carried = remote_context(meta)
    if carried is None:
        return transport, ()
    other = ambient if transport is None else span_context(transport)
    sender = span_context(carried)
    is_other = other.is_valid and (other.trace_id, other.span_id) != (sender.trace_id, sender.span_id)
    return carried, (Link(other),) if is_other else ()


class TracedRequest:
    """A request and its span; as a context manager, it ends the span with the raised error."""

    def __init__(
        self,
        tracer: "Tracer",
        durations: "Histogram | None",
        kind: SpanKind,
        attributes: Attributes,
        *,
        name: str | None = None,
        context: Context | None = None,
        links: tuple[Link, ...] = (),
        shown: bool = False,
    ) -> None:
        """Begins at once. `shown` is whether the message of an error is its description.

        With a name of its own, it is not a request, and is not current: tasks that are started meanwhile may
        outlive it.
        """
        self.server = str(attributes.get(names.SERVER, ""))
        self.method = str(attributes.get(names.METHOD, ""))
        self.attributes = attributes
        self._durations = durations
        self._shown = shown
        self._connection: ConnectionFacts | None = None
        self._sendings = 0
        outer = framework_span(attributes) if kind is SpanKind.CLIENT else None
        self._is_own = outer is None
        if outer is None:
            self.span: Span = tracer.start_span(
                span_name(attributes) if name is None else name,
                context=context,
                kind=kind,
                attributes=attributes,
                links=links,
                record_exception=False,
                set_status_on_exception=False,
            )
        else:
            self.span = outer
            own = {key: value for key, value in attributes.items() if key != names.TOOL}
            outer.set_attributes(own)
        current = get_current() if context is None else context
        self.context = set_value(SPAN, self, set_span_in_context(self.span, current))
        self._token = attach(self.context) if name is None else None
        self._began = time.perf_counter()

    # For the connection

    def sent(self, request_id: int | str | None, connection: ConnectionFacts) -> None:
        """It is sent, maybe once more."""
        self._connection = connection
        self._sendings += 1
        if request_id is not None and self.span.is_recording():
            self.span.set_attribute(names.REQUEST_ID, str(request_id))

    def event(self, name: str, attributes: Mapping[str, str]) -> None:
        if self.span.is_recording():
            self.span.add_event(name, attributes)

    # The end

    def add(self, attributes: Mapping[str, str | int]) -> None:
        self.attributes.update(attributes)
        self.span.set_attributes(attributes)

    def end(
        self, error_type: str | None = None, *, code: int | None = None, message: str = "", asked: float = 0
    ) -> None:
        """It is over, in case of a failure with its type, the code of a JSON-RPC error, and the message.

        `asked` are the seconds in which a person was asked: no part of the duration.
        """
        seconds = time.perf_counter() - self._began - asked
        if self._token is not None:
            detach(self._token)
        facts: Attributes = {} if self._connection is None else of_connection(self._connection)
        if self._sendings > 1:
            facts[names.ATTEMPTS] = self._sendings
        if error_type is not None:
            facts[names.ERROR_TYPE] = error_type
            shown = text_content(message) if self._shown and message else None
            self.span.set_status(StatusCode.ERROR, shown)
        if asked:
            facts[names.ASKED] = round(asked * 1000)
        if code is not None:
            facts[names.STATUS_CODE] = str(code)
        if facts:
            self.add(facts)
        if self._is_own:
            self.span.end()
        if self._durations is not None:
            # With the context of the span, for exemplars.
            context = set_span_in_context(self.span)
            self._durations.record(seconds, in_metrics(self.attributes), context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # A stream, or an attempt, that is no longer wanted has not failed.
        is_unwanted = self._durations is None and isinstance(error, asyncio.CancelledError)
        if error is None or is_unwanted:
            self.end()
        else:
            self.end(error_type(error), code=rpc_code(error), message=error_message(error))


def framework_span(attributes: Mapping[str, str | int]) -> Span | None:
    """The span of a framework that is about this tool call, if it is the current one.

    Such a span gets our attributes instead of a second span below it, as the conventions want. A span that
    has the name of an MCP method already is about another request.
    """
    if names.TOOL not in attributes:
        return None
    span = get_current_span()
    known: Mapping[str, object] | None = getattr(span, "attributes", None)
    if not known or not span.is_recording() or names.METHOD in known:
        return None
    tools = (attributes[names.TOOL], attributes.get(names.PUBLIC_TOOL))
    is_same = known.get(names.GEN_AI_OPERATION) == names.EXECUTE_TOOL and known.get(names.TOOL) in tools
    return span if is_same else None


def rpc_code(error: BaseException) -> int | None:
    """The code of a JSON-RPC error; None for other failures."""
    code, status = getattr(error, "code", None), getattr(error, "status", None)
    if not isinstance(code, int):
        return None
    # A response without a JSON-RPC error has this code, which hardly any server sends with an HTTP status.
    is_bare = code == INTERNAL_ERROR if isinstance(status, int) else hasattr(error, "lost")
    return None if is_bare else code


def error_type(error: BaseException) -> str:
    """The kind of a failure: the code of a JSON-RPC error, an HTTP status, or the class of the exception."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, TimeoutError):
        return "timeout"
    if (code := rpc_code(error)) is not None:
        return str(code)
    status = getattr(error, "status", None)
    return str(status) if isinstance(status, int) else type(error).__name__


def error_message(error: BaseException) -> str:
    """The message of a JSON-RPC error, or of an exception."""
    message = getattr(error, "message", None)
    return message if isinstance(message, str) else str(error)
