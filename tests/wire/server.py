"""An HTTP server in a thread of its own that stops at once, even if clients still wait for an answer."""

import asyncio
import socket
import threading
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.patience import PATIENCE

STOPPING = 1.0


class ThreadedServer:
    """Serves `app` on a free port of this machine for as long as the block runs."""

    def __init__(self, app: ASGIApp) -> None:
        config = uvicorn.Config(
            app, loop="asyncio", http="h11", ws="none", lifespan="off", log_config=None, access_log=False
        )
        self._server = _Server(config)
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Its URL; known once the block is entered."""
        assert self._socket is not None, "the server has not been started: use it in a with block"
        return f"http://127.0.0.1:{self._port}"

    def lose_client(self, client: tuple[str, int]) -> None:
        """Close the connection of that client, after the sent data. Call from within the app."""
        for connection in self._server.server_state.connections:
            if isinstance(connection, H11Protocol) and connection.client == client:
                connection.transport.close()

    def __enter__(self) -> Self:
        self._socket = _listening()
        self._port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="scripted provider", daemon=True
        )
        self._thread.start()
        assert self._server.ready.wait(PATIENCE), "the server did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        self._server.stop()
        self._thread.join(2 * STOPPING)


_used: set[int] = set()
"""The ports of this process so far."""


def _listening() -> socket.socket:
    """A socket at a port that no server of this process had before.

    LangChain keeps one client for each address, with its connections, and one of a test that has ended cannot
    even be closed.
    """
    with ExitStack() as refused:  # they are closed at the end, or the same port would come again
        while True:
            found = socket.create_server(("127.0.0.1", 0))
            if (port := found.getsockname()[1]) not in _used:
                _used.add(port)
                return found
            refused.enter_context(found)


class _Server(uvicorn.Server):
    """Waits for an event where the base class polls, and drops its connections where that one waits."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """End the server, from another thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stopping.set)

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self._loop = asyncio.get_running_loop()
        self.ready.set()
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            if isinstance(connection, H11Protocol):
                connection.transport.abort()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=STOPPING)
        await asyncio.sleep(0)  # lets the loop close the sockets
