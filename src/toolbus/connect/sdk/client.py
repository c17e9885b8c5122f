"""The SDK's `Client` over our own dispatcher.

This uses a private name of the SDK: `Client._connect`, the function a client calls to get its
dispatcher. `fast_call.py` uses the other one. `tests/test_sdk_seam.py` fails when the SDK changes
one of them.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

from mcp import Client
from mcp.client.extension import advertise
from mcp.client.session import LoggingFnT, MessageHandlerFnT
from mcp.shared.dispatcher import Dispatcher
from mcp_types import Implementation, LoggingLevel

from toolbus.connect.ask.handlers import RequestHandler
from toolbus.connect.sdk.input_required import TasksExtension
from toolbus.connect.sdk.memory import MemoryDispatcher
from toolbus.connect.sdk.result_filter import ResultFilter
from toolbus.core.operation.tracing import Tracing
from toolbus.core.values.apps import APPS, APPS_SETTINGS
from toolbus.core.values.skills import SKILLS

if "_connect" not in Client.__annotations__:
    raise ImportError(
        f"toolbus cannot use version {version('mcp')} of the package mcp; install mcp>=2.3,<2.4"
    )
Connector = Callable[[AsyncExitStack, str, bool], Awaitable[Dispatcher[Any]]]


def memory_connector(server: Any) -> Connector:
    """The SDK's own way to connect to an in-process server."""
    sdk_connect = Client(server, cache=None)._connect  # pyright: ignore[reportPrivateUsage]  # the seam

    async def connect(stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> Dispatcher[Any]:
        return MemoryDispatcher(await sdk_connect(stack, mode, raise_exceptions))

    return connect


@asynccontextmanager
async def connected_client(
    connect: Connector,
    *,
    mode: str,
    client_info: Implementation,
    message_handler: MessageHandlerFnT,
    logging_callback: LoggingFnT,
    log_level: LoggingLevel | None,
    handler: RequestHandler,
    tracing: Tracing | None = None,
) -> AsyncGenerator[tuple[Client, ResultFilter]]:
    """A connected client, and the filter that every message passes."""
    filters: list[ResultFilter] = []

    async def connect_filtered(stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> Dispatcher[Any]:
        filters.append(ResultFilter(await connect(stack, mode, raise_exceptions), tracing))
        return filters[0]

    client = Client(
        _UnusedTransport(),
        mode=mode,
        client_info=client_info,
        message_handler=message_handler,
        logging_callback=logging_callback,
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
        if tracing is not None:
            tracing.connected(filters[0].connection)
        yield client, filters[0]


class _UnusedTransport:
    """Stands in for the transport that `Client` would open itself."""

    async def __aenter__(self) -> Any:
        raise AssertionError("the SDK no longer calls Client._connect for its dispatcher")

    async def __aexit__(self, *_: object) -> None: ...
