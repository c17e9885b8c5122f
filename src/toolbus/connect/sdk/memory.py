"""The SDK's dispatchers for servers in this process, traced as our own ones are."""

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from opentelemetry.context import get_value
from opentelemetry.trace import INVALID_SPAN, Span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from toolbus.core.operation.tracing import SPAN, Connection, RequestSpan

_trace = TraceContextTextMapPropagator()
SendRequest = Callable[[str, Mapping[str, Any] | None, CallOptions | None], Awaitable[dict[str, Any]]]


class MemoryDispatcher:
    """A dispatcher that reports to the open span what it sends, and makes no span itself."""

    def __init__(self, inner: Dispatcher[Any]) -> None:
        self._inner = inner
        self._send = without_span(inner)
        self.connection = Connection()

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await self._inner.run(on_request, on_notify, on_notify_intercept, task_status=task_status)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._inner.notify(method, params, opts)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if (span := get_value(SPAN)) is not None:
            cast(RequestSpan, span).sent(None, self.connection)
            # In place of the trace of a client, whose request this may be.
            meta: dict[str, Any] = {**((params or {}).get("_meta") or {})}
            _trace.inject(meta)
            params = {**(params or {}), "_meta": meta} if meta else params
        return await self._send(method, params, opts)


def without_span(dispatcher: Dispatcher[Any]) -> SendRequest:
    """The `send_raw_request` of the SDK's dispatcher, without the span that it makes for each request.

    That one has fewer attributes than ours, and would be a second one around the same request. The SDK has
    no option against it, so the function gets another `otel_span`; the SDK's own stays as it is.
    """
    send = getattr(type(dispatcher), "send_raw_request", None)
    if not isinstance(send, FunctionType) or "otel_span" not in send.__globals__:
        return dispatcher.send_raw_request
    variables = {**send.__globals__, "otel_span": _no_span}
    own = FunctionType(send.__code__, variables, send.__name__, send.__defaults__, send.__closure__)
    own.__kwdefaults__ = send.__kwdefaults__
    return cast(SendRequest, MethodType(own, dispatcher))


@contextmanager
def _no_span(*_: object, **__: object) -> Generator[Span]:
    yield INVALID_SPAN
