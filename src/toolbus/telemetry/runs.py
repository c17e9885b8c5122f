"""Durable runs in traces: a run belongs to the trace of its caller, or links to it from another process."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from toolbus.telemetry import names
from toolbus.telemetry.providers import Providers, is_installed, load_named_providers

_MOST = 10_000
"""Runs that are remembered until they are executed here."""
_started: dict[str, dict[str, str]] = {}
"""The traces of the callers of this process, by run."""


def caller_trace(run: str) -> dict[str, str] | None:
    """The W3C context of the span that starts a run, to be stored with it; None if there is none."""
    if not is_installed():
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    trace: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(trace)
    if not trace:
        return None
    _started[run] = trace
    if len(_started) > _MOST:
        del _started[next(iter(_started))]
    return trace


@contextmanager
def traced_run(run: str, agent: str, trace: object, *, is_shown: bool) -> Generator[None]:
    """The span of one execution of a run, of which its calls are children; none unless `is_shown`.

    The first execution is a child of the caller's span if it is in the caller's process. Any other one begins
    a trace of its own with a link to that span, which may have ended days ago.
    """
    is_here = _started.pop(run, None) == trace
    if not is_installed():
        load_named_providers()
    if not is_installed():
        yield
        return
    from opentelemetry.context import Context, attach, detach
    from opentelemetry.trace import Link, SpanKind, StatusCode, get_current_span, set_span_in_context

    from toolbus.telemetry.spans import error_type, remote_context, span_context

    caller = remote_context(trace)
    context = caller if caller is not None and is_here else Context()
    links = () if caller is None or is_here else (Link(span_context(caller)),)
    attributes: dict[str, Any] = {
        names.GEN_AI_OPERATION: names.INVOKE_AGENT,
        names.AGENT: agent,
        names.RUN: run,
    }
    name = f"{names.INVOKE_AGENT} {agent}"
    span = (
        Providers().tracer.start_span(name, context, SpanKind.INTERNAL, attributes, links)
        if is_shown
        else get_current_span(context)  # that of the caller, which does not end here
    )
    token = attach(set_span_in_context(span, context))
    try:
        yield
    except BaseException as error:
        if not isinstance(error, asyncio.CancelledError):  # then it goes on elsewhere, or nobody wants it
            span.set_attribute(names.ERROR_TYPE, error_type(error))
            span.set_status(StatusCode.ERROR)
        raise
    finally:
        detach(token)
        span.end()
