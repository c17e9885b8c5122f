"""The SDK's `Client` over a dispatcher of ours.

A private name of the SDK is held here: `Client._connect`, the function a client calls to get its
dispatcher. The other one that toolbus uses is in `lean.py`. `tests/test_sdk_seam.py` says so when the
SDK changes one of them.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mcp import Client
from mcp.client.session import LoggingFnT, MessageHandlerFnT
from mcp.shared.dispatcher import Dispatcher
from mcp_types import Implementation, LoggingLevel

from toolbus.connect.handlers import RequestHandler
from toolbus.connect.sdk.input_required import Tasks
from toolbus.connect.sdk.result_filter import ResultFilter

Connector = Callable[[AsyncExitStack, str, bool], Awaitable[Dispatcher[Any]]]


def connector_of(server: Any) -> Connector:
    """How the SDK itself would reach an in-process server."""
    return Client(server, cache=None)._connect  # pyright: ignore[reportPrivateUsage]  # the seam


@asynccontextmanager
async def opened_client(
    connect: Connector,
    *,
    mode: str,
    client_info: Implementation,
    message_handler: MessageHandlerFnT,
    logging_callback: LoggingFnT,
    log_level: LoggingLevel | None,
    handler: RequestHandler,
) -> AsyncGenerator[tuple[Client, ResultFilter]]:
    """A connected client whose every message passes a result_filter."""
    sieves: list[ResultFilter] = []

    async def through_sieve(stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> Dispatcher[Any]:
        result_filter = ResultFilter(await connect(stack, mode, raise_exceptions))
        sieves.append(result_filter)
        return result_filter

    client = Client(
        _Nowhere(),
        mode=mode,
        client_info=client_info,
        message_handler=message_handler,
        logging_callback=logging_callback,
        # In the modern era a server tells its log only to who asks for it.
        log_level=log_level,
        extensions=[Tasks()],
        **handler.callbacks,
        # Our catalog is the cache; the client's would copy every listing deeply, twice.
        cache=None,
    )
    client._connect = through_sieve  # pyright: ignore[reportPrivateUsage]  # the seam
    async with client:
        sieves[0].version = client.protocol_version
        yield client, sieves[0]


class _Nowhere:
    """Takes the place of the transport that `Client` would open itself."""

    async def __aenter__(self) -> Any:
        raise AssertionError("the SDK no longer asks Client._connect for its dispatcher")

    async def __aexit__(self, *_: object) -> None: ...
