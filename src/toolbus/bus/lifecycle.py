"""The lifecycle of a bus: start, stop, and changes of its servers, one at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from toolbus.bus.live_catalog import LiveCatalog
from toolbus.bus.servers import Servers
from toolbus.config import BusConfig, GetSecret, Secrets, ServerConfig
from toolbus.core.errors import FORKED, BusClosed
from toolbus.core.events import Hub
from toolbus.core.loop import OwnerLoop

T = TypeVar("T")


class Lifecycle:
    """Owns the current config, the loop of the bus, and the lock for every change."""

    def __init__(
        self,
        config: BusConfig,
        servers: Servers,
        catalog: LiveCatalog,
        hub: Hub,
        get_secret: GetSecret | None,
    ) -> None:
        self.config = config
        self._servers = servers
        self._catalog = catalog
        self._hub = hub
        self._get_secret = get_secret
        self._loop: OwnerLoop | None = None
        self.closed = False
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Connect to all servers concurrently; a second start does nothing."""
        self.check_process()  # first: in a fork, nobody would release the lock
        async with self._lock:
            if self.closed:
                raise BusClosed()
            if self._loop is not None:
                return
            self._loop = OwnerLoop()
            try:
                await self._connect(self._secrets(self.config))
                if self._catalog.failed is not None:
                    raise self._catalog.failed
            except BaseException:
                await self.stop()
                raise

    async def _connect(self, secrets: Secrets) -> None:
        try:
            await self._servers.start_early(self.config, secrets)
            self._servers.install(self._servers.build(self.config, secrets), self.config)
            if self.closed:  # in the meantime, when there were no links to close
                await self._servers.close()
            else:
                await self._servers.open()
        finally:
            await self._servers.close_early()

    async def stop(self) -> None:
        """Disconnect from all servers; any number of times, from anywhere."""
        self.closed = True
        if self._loop is not None and self._loop.is_running:
            await self._loop.run(self._stop())

    async def _stop(self) -> None:
        self._catalog.registrations.sync(())
        await self._servers.close()
        self._hub.end()

    async def apply(
        self,
        change: Callable[[dict[str, ServerConfig]], dict[str, ServerConfig]],
        config: BusConfig | None = None,
    ) -> None:
        """Change the servers: connect to new ones, disconnect from removed ones, leave the rest alone.

        If a required server cannot be connected, it raises and nothing changes.
        """
        async with self._lock:
            servers = change(self.config.servers)
            new = (config or self.config).model_copy(update={"servers": servers})
            fresh = await self._servers.open_new(new, self._secrets(new))
            if self.closed:  # in the meantime, so they are closed here
                await self._servers.close_servers(fresh)
                raise BusClosed()
            self.config = new
            gone = self._servers.install(fresh, new)
            self._catalog.use(new)
            await self._servers.close_servers(gone)
            await self._servers.notify_roots_changed()

    def _secrets(self, config: BusConfig) -> Secrets:
        return Secrets(self._get_secret, config.folder, config.reviewed)

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self._loop is not None and not self.closed and self._loop.is_running

    @property
    def loop(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if the bus is not running."""
        if self._loop is None or self.closed:
            raise BusClosed(started=self.closed)
        if not self._loop.is_running:
            self.check_process()
            raise BusClosed(reason="its event loop has ended")
        return self._loop

    def check_process(self) -> None:
        """Raise `BusClosed` if the bus was started before this process was forked."""
        if self._loop is not None and self._loop.is_elsewhere:
            raise BusClosed(reason=FORKED)

    def check_running(self) -> None:
        """Raise `BusClosed` if the bus is not running."""
        _ = self.loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the bus, from any task, thread or loop."""
        return await self._loop_for(work).run(work)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from a thread without a loop; RuntimeError if it would never return."""
        return self._loop_for(work).wait(work)

    def _loop_for(self, work: Coroutine[Any, Any, Any]) -> OwnerLoop:
        try:
            return self.loop
        except BusClosed:
            work.close()
            raise
