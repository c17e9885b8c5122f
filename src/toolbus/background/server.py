"""The background bus of one config, until it is told to stop."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from toolbus.background.command_runner import RunLine, follow_clients
from toolbus.background.connections import Connections
from toolbus.background.console import open_console
from toolbus.background.place import BusPlace
from toolbus.background.shared_bus import SharedBus
from toolbus.bus.toolbus import Toolbus
from toolbus.cli.declared.command_tree import keep_environment
from toolbus.cli.listing_cache import save_listings
from toolbus.cli.output.serve_log import ServeLog
from toolbus.cli.session import log_server_message, starting_only
from toolbus.cli.sign_in import tokens_of
from toolbus.config import BusConfig
from toolbus.core import version
from toolbus.core.operation.events import CallEnded, CatalogChanged, Event, Logged
from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.serve.follow import Stamps, file_stamps, read_again, stamps_at_start
from toolbus.gateway.serve.signals import stop_signals
from toolbus.state.tokens.tokens import TokenSource

if TYPE_CHECKING:
    from toolbus.background.connections import Connections
    from toolbus.bus.toolbus import Toolbus

POLL_SECONDS = 1.0
"""Interval for checking the config file."""
RELOAD_SECONDS = 10.0
"""How long a command waits for a config that has changed; new servers may take longer to start."""
DRAIN_SECONDS = 30.0
"""How long commands may take to end when it stops."""


class BackgroundBus:
    """Holds the servers, and runs the commands of clients."""

    def __init__(
        self,
        place: BusPlace,
        config: BusConfig,
        idle: float | None,
        run: RunLine,
        log: ServeLog,
        *,
        has_console: bool = True,
    ) -> None:
        """`idle`: seconds without a command after which it ends; `run` runs the command line of a client."""
        self._has_console = has_console
        self._place = place
        self._idle = idle
        self._log = log
        self._tokens = tokens_of(config)
        self.shared = SharedBus(config, self._tokens, asyncio.get_running_loop())
        self.bus = Toolbus(
            _running(config, self._tokens), on_event=self._on_event, interactions=self.shared.interactions
        )
        self.clients = Connections(self.shared, run, version(), self._answer, self._use_changes)
        self.status = Status(place, self.shared, self.bus, self.clients, version(), idle)
        self._is_listing_new = False
        self._seen: Stamps | None = None
        """The files of the config in use; None before the servers have started."""
        self._reloading: asyncio.Task[None] | None = None
        self._socket: int | None = None
        self._stop = asyncio.Event()

    async def run(self, began: int, ready: Callable[[], None]) -> int:
        """Run until a signal or `toolbus down`; `ready` is called when the servers have started."""
        follow_clients()
        keep_environment()
        listening = self._place.listen()
        self._socket = self._place.socket_number()
        with stop_signals() as stop:
            self._stop, stop.limit = stop.event, DRAIN_SECONDS
            try:
                accepting = asyncio.create_task(self.clients.accept(listening))
                try:
                    await self._start()
                    async with AsyncExitStack() as stack:
                        await self._open_console(stack)
                        ready()
                        await self._until_stopped(began)
                finally:
                    accepting.cancel()
                    listening.close()
                    if self._place.socket_number() == self._socket:  # not that of another bus
                        self._place.socket.unlink(missing_ok=True)
                await self.clients.drain(DRAIN_SECONDS)
            except asyncio.CancelledError:
                if not stop.is_forced:
                    raise
                return 128 + stop.number
            finally:
                await self.bus.stop()
        self._log.add_line("up", "stopped")
        return 0

    async def _start(self) -> None:
        try:
            await self.bus.start()
        except BaseException as error:
            self.shared.started.set_exception(error)
            raise
        self.shared.started.set_result(self.bus)
        save_listings(self.shared.config, self.bus)

    async def _open_console(self, stack: AsyncExitStack) -> None:
        """Serve the console until the stack ends, which is before the bus stops."""
        if self._has_console:
            opened = open_console(self.bus, self.shared.board, str(self._place.config), self._log)
            self.status.console = await stack.enter_async_context(opened)

    async def _until_stopped(self, began: int) -> None:
        """Run what runs beside the bus until it is to stop; an error of any of them ends all."""
        stopping = asyncio.create_task(self._stop.wait())
        beside = [asyncio.create_task(work) for work in self._beside(began)]
        try:
            done, _ = await asyncio.wait((stopping, *beside), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (stopping, *beside):
                task.cancel()
            await asyncio.gather(stopping, *beside, return_exceptions=True)

    def _beside(self, began: int) -> Sequence[Coroutine[Any, Any, None]]:
        """What runs beside the bus."""
        self._seen = stamps_at_start(self.shared.config, began)
        works = [self._follow_config(), self._end_without_socket()]
        if self._idle is not None:
            works.append(self._end_when_idle(self._idle))
        return works

    async def _end_when_idle(self, seconds: float) -> None:
        """Return once there was no command for that long."""
        left = seconds
        while left > 0:
            await asyncio.sleep(left)
            left = self.clients.busy_at + seconds - time.monotonic()
        self._log.add_line("up", f"no command for {seconds:g} s")

    async def _end_without_socket(self) -> None:
        """Return once no client can come any more, as when the folder of a login session is removed."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._place.socket_number() != self._socket:
                break
        self._log.add_line("up", f"its socket {self._place.socket} was removed", "red")

    async def _follow_config(self) -> None:
        """Use the config as it changes; one that cannot be used is reported, and the old one stays."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._is_listing_new:
                self._is_listing_new = False
                save_listings(self.shared.config, self.bus)
            self._begin_reload()
            if self._reloading is not None:
                await self._reloading

    async def _use_changes(self) -> None:
        """Before a command runs, use the config as it is now: `toolbus add` may have just changed it."""
        self._begin_reload()
        if self._reloading is not None:
            await asyncio.wait((self._reloading,), timeout=RELOAD_SECONDS)

    def _begin_reload(self) -> None:
        """Read the config again if it has changed, unless that is going on."""
        if self._seen is None or (self._reloading is not None and not self._reloading.done()):
            return
        now = file_stamps(self.shared.config)
        if now != self._seen:
            self._reloading = asyncio.create_task(self._reload(now))

    async def _reload(self, now: Stamps) -> None:
        self.shared.is_reloading = True
        try:
            await self._use_config()
        finally:
            self.shared.is_reloading = False
        # The state before the reload, so that a write during it is noticed.
        self._seen = {file: now.get(file, stamp) for file, stamp in file_stamps(self.shared.config).items()}

    async def _use_config(self) -> None:
        config = self.shared.config
        try:
            fresh = read_again(config)
            tokens = self._tokens if fresh.tokens == config.tokens else tokens_of(fresh)
            await self.bus.reload(_running(fresh, tokens))
        except ToolbusError as error:
            self.shared.problem = str(error).removeprefix(f"{config.file}: ")
            self._log.add_line("config", f"not reloaded: {self.shared.problem}", "red")
            return
        self.shared.config, self.shared.tokens, self.shared.problem = fresh, tokens, None
        self._tokens, self._is_listing_new = tokens, True
        self._log.add_line("config", "reloaded")

    def _on_event(self, event: Event) -> None:
        self.shared.keep(event)
        self._log.on_event(event)
        if isinstance(event, Logged):
            log_server_message(event)
        if isinstance(event, CallEnded):
            self.status.calls += 1
        self._is_listing_new = self._is_listing_new or isinstance(event, CatalogChanged)

    def _answer(self, what: str) -> dict[str, Any]:
        """Answer a client that does not run a command."""
        if what == "stop":
            self._stop.set()
            return {"stopping": os.getpid()}
        return {"status": self.status.facts()} if what == "status" else {"unknown": what}


def _running(config: BusConfig, tokens: TokenSource) -> BusConfig:
    """The config as the bus runs it: a required server that is down does not keep the others from it."""
    eager = [alias for alias, server in config.servers.items() if not server.lazy]
    return starting_only(config, eager, tokens)


class Status:
    """The facts that `toolbus status` shows."""

    def __init__(
        self,
        place: BusPlace,
        shared: SharedBus,
        bus: "Toolbus",
        clients: "Connections",
        version: str,
        idle: float | None,
    ) -> None:
        self._place = place
        self._shared = shared
        self._bus = bus
        self._clients = clients
        self._version = version
        self._idle = idle
        self._since = time.time()
        self.calls = 0
        """How many calls have ended."""
        self.console: str | None = None
        """The URL of its console, without a token."""

    def facts(self) -> dict[str, Any]:
        """All of them, as JSON."""
        names = ("state", "era", "protocol", "tools", "restarts", "error")
        return {
            "pid": os.getpid(),
            "version": self._version,
            "since": round(self._since, 3),
            "config": str(self._place.config),
            "config_problem": self._shared.problem,
            "folder": str(self._shared.folder),
            "folder_exists": self._shared.folder.is_dir(),
            "idle": self._idle,
            "console": self.console,
            "log": str(self._place.log),
            "calls": self.calls,
            "commands": self._clients.commands,
            "servers": {
                alias: {name: getattr(status, name) for name in names}
                for alias, status in self._bus.servers.items()
            },
            "tools": len(self._bus.catalog),
            "held": len(self._bus.held),
            "disabled": list(self._shared.config.disabled),
        }
