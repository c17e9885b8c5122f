"""The SDK's `Client` over our own dispatcher.

This uses a private name of the SDK: `Client._connect`, the function a client calls to get its
dispatcher. `fast_call.py` uses the other one. `tests/test_sdk_seam.py` fails when the SDK changes
one of them.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.metadata import version
from types import FunctionType, MethodType
from typing import Any, cast

import anyio
import anyio.abc
from mcp import Client
from mcp.client.extension import advertise
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp_types import Implementation, LoggingLevel
from opentelemetry.context import get_value
from opentelemetry.trace import INVALID_SPAN, Span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from toolbus.connect.handlers import RequestHandler
from toolbus.connect.observer import Callbacks
from toolbus.connect.sdk.input_required import TasksExtension
from toolbus.connect.sdk.result_filter import ResultFilter
from toolbus.core import version as toolbus_version
from toolbus.core.operation.tracing import SPAN, ConnectionFacts, RequestSpan
from toolbus.core.values.apps import APPS, APPS_SETTINGS
from toolbus.core.values.skills import SKILLS

if "_connect" not in Client.__annotations__:
    raise ImportError(
        f"toolbus cannot use version {version('mcp')} of the package mcp; install mcp>=2.3,<2.4"
    )
Connector = Callable[[AsyncExitStack, str, bool], Awaitable[Dispatcher[Any]]]


def memory_connector(server: Any, lost: Callable[[str], None]) -> Connector:
    """The SDK's own way to connect to an in-process server; `lost` is for one that can crash."""
    sdk_connect = Client(server, cache=None)._connect  # pyright: ignore[reportPrivateUsage]  # the seam

    async def connect(stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> Dispatcher[Any]:
        if (on_crash := getattr(server, "on_crash", None)) is not None:  # as a fake one has
            stack.callback(on_crash(lost))
        return MemoryDispatcher(await sdk_connect(stack, mode, raise_exceptions))

    return connect


@asynccontextmanager
async def connected_client(
    connect: Connector,
    *,
    mode: str,
    callbacks: Callbacks,
    log_level: LoggingLevel | None,
    handler: RequestHandler,
) -> AsyncGenerator[tuple[Client, ResultFilter]]:
    """A connected client, and the filter that every message passes."""
    filters: list[ResultFilter] = []

    async def connect_filtered(stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> Dispatcher[Any]:
        filters.append(ResultFilter(await connect(stack, mode, raise_exceptions), callbacks.tracing))
        return filters[0]

    client = Client(
        _UnusedTransport(),
        mode=mode,
        client_info=Implementation(name="toolbus", version=toolbus_version()),
        message_handler=callbacks.on_message,
        logging_callback=callbacks.on_log,
        # In the modern era a server sends its log only on request.
        log_level=log_level,
        extensions=[TasksExtension(), advertise(SKILLS), advertise(APPS, APPS_SETTINGS)],
        **handler.client_options,
        # Our catalog is the cache; the client's would deep-copy every list, twice.
        cache=None,
    )
    client._connect = connect_filtered  # pyright: ignore[reportPrivateUsage]  # the seam
    async with client:
        filters[0].version = filters[0].connection.protocol = client.protocol_version
        if callbacks.tracing is not None:
            callbacks.tracing.connected(filters[0].connection)
        yield client, filters[0]


class _UnusedTransport:
    """Stands in for the transport that `Client` would open itself."""

    async def __aenter__(self) -> Any:
        raise AssertionError("the SDK no longer calls Client._connect for its dispatcher")

    async def __aexit__(self, *_: object) -> None: ...


_trace = TraceContextTextMapPropagator()
SendRequest = Callable[[str, Mapping[str, Any] | None, CallOptions | None], Awaitable[dict[str, Any]]]


class MemoryDispatcher:
    """A dispatcher that reports to the open span what it sends, and makes no span itself."""

    def __init__(self, inner: Dispatcher[Any]) -> None:
        self._inner = inner
        self._send = without_span(inner)
        self.connection = ConnectionFacts()

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
