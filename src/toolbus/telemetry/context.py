"""The W3C trace context that others send us, which may be anything."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from opentelemetry.context import Context
from opentelemetry.trace import Link, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from toolbus.config.location import is_mapping

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

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
