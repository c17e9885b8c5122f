"""The background bus of one config, until it is told to stop."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from toolbus.background.connections import Connections, follow_clients
from toolbus.background.inquiry import claim
from toolbus.background.place import BusPlace
from toolbus.background.shared_bus import SharedBus
from toolbus.bus.toolbus import Toolbus
from toolbus.cli.command import keep_environment
from toolbus.cli.output.event_lines import DATE_AND_TIME
from toolbus.cli.output.screen import enable_part_log
from toolbus.cli.session import log_server_message, starting_only
from toolbus.cli.sign_in import tokens_after, tokens_of
from toolbus.config import BusConfig
from toolbus.core import version
from toolbus.core.operation.events import CallEnded, CatalogChanged, Event, Logged
from toolbus.gateway.http.run import CannotListen
from toolbus.gateway.serve.console import standalone_console
from toolbus.gateway.serve.follow import ConfigFollower
from toolbus.gateway.serve.program import ServeProgram
from toolbus.gateway.serve.signals import Stop, run_until, until_stopped
from toolbus.state.stderr_log import kept_stderr
from toolbus.state.tokens.tokens import TokenSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The parameters with which a background bus is started."""

    place: BusPlace
    config: BusConfig
    idle: float | None
    """Seconds without a command after which it ends."""
    has_console: bool
    began: int
    """The time before the config was read, in nanoseconds."""


POLL_SECONDS = 1.0
"""Interval for checking the socket, and for saving what servers list."""
DRAIN_SECONDS = 30.0
"""The time that commands get to end when it stops."""


class BackgroundBus:
    """Holds the servers, and runs the commands of clients."""

    def __init__(self, start: Start, program: ServeProgram) -> None:
        self._start = start
        self._program = program
        self._log = program.report
        self._place = start.place
        config, tokens = start.config, tokens_of(start.config)
        self.follower = ConfigFollower(config, start.began, self._use_config, self._log.add_line)
        self.shared = SharedBus(self.follower, tokens, asyncio.get_running_loop())
        self.bus = Toolbus(
            _running(config, tokens), on_event=self._on_event, interactions=self.shared.interactions
        )
        self.clients = Connections(self.shared, version(), self._answer)
        self.calls = 0
        """The number of calls that have ended."""
        self._since = time.time()
        self._console: str | None = None
        """The URL of its console, without a token."""
        self._is_listing_new = False
        self._stop = asyncio.Event()

    async def run(self, ready: Callable[["BackgroundBus"], None]) -> int:
        """Run until a signal or `toolbus down`; `ready` is called when the servers have started."""
        follow_clients()
        keep_environment()
        listening = self._place.listen()
        own_socket = self._place.socket_number()

        async def work(stop: Stop) -> int:
            self._stop, stop.limit = stop.event, DRAIN_SECONDS
            try:
                accepting = asyncio.create_task(self.clients.accept(listening))
                try:
                    await self._start_servers()
                    async with AsyncExitStack() as stack:
                        await self._open_console(stack)
                        ready(self)
                        await self._run_until_stopped(own_socket)
                finally:
                    accepting.cancel()
                    listening.close()
                    if self._place.socket_number() == own_socket:  # not that of another bus
                        self._place.socket.unlink(missing_ok=True)
                await self.clients.drain(DRAIN_SECONDS)
            finally:
                await self.bus.close()
            self._log.add_line("up", "stopped")
            return 0

        return await until_stopped(work)

    async def _start_servers(self) -> None:
        try:
            await self.bus.start()
        except BaseException as error:
            self.shared.started.set_exception(error)
            raise
        self.shared.started.set_result(self.bus)
        self._save_listings()

    async def _open_console(self, stack: AsyncExitStack) -> None:
        """Serve the console until the stack ends, which is before the bus stops."""
        if not self._start.has_console:
            return
        config = str(self._place.config)
        console = standalone_console(
            self.bus, self.shared.board, config, self._program, lambda: self.follower.problem
        )
        try:
            self._console = await stack.enter_async_context(console)
        except CannotListen as error:
            self._log.add_line("up", f"there is no console: {error}", "yellow")

    async def _run_until_stopped(self, own_socket: int | None) -> None:
        ends = [self._stop.wait(), self._socket_removed(own_socket)]
        if self._start.idle is not None:
            ends.append(self._idle(self._start.idle))
        await run_until(ends, self.follower.follow(), self._save_new_listings())

    async def _idle(self, seconds: float) -> None:
        """Return once there was no command for that long."""
        left = seconds
        while left > 0:
            await asyncio.sleep(left)
            left = self.clients.busy_at + seconds - time.monotonic()
        self._log.add_line("up", f"no command for {seconds:g} s")

    async def _socket_removed(self, own_socket: int | None) -> None:
        """Return once no client can come any more, as when the folder of a login session is removed."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._place.socket_number() != own_socket:
                break
        self._log.add_line("up", f"its socket {self._place.socket} was removed", "red")

    async def _save_new_listings(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._is_listing_new:
                self._save_listings()

    def _save_listings(self) -> None:
        self._is_listing_new = False
        self._program.save_listings(self.follower.config, self.bus)

    async def _use_config(self, fresh: BusConfig) -> str:
        tokens = tokens_after(fresh, self.follower.config, self.shared.tokens)
        await self.bus.reload(_running(fresh, tokens))
        self.shared.tokens, self._is_listing_new = tokens, True
        return ""

    def _on_event(self, event: Event) -> None:
        self.shared.keep(event)
        self._log.on_event(event)
        if isinstance(event, Logged):
            log_server_message(event)
        if isinstance(event, CallEnded):
            self.calls += 1
        self._is_listing_new = self._is_listing_new or isinstance(event, CatalogChanged)

    def _answer(self, what: str) -> dict[str, Any]:
        """Answer a client that does not run a command."""
        if what == "stop":
            self._stop.set()
            return {"stopping": os.getpid()}
        return {"status": self.facts()} if what == "status" else {"unknown": what}

    def facts(self) -> dict[str, Any]:
        """The facts that `toolbus status` shows, as JSON."""
        names = ("state", "era", "protocol", "tools", "restarts", "error")
        return {
            "pid": os.getpid(),
            "version": self.clients.version,
            "since": round(self._since, 3),
            "config": str(self._place.config),
            "config_problem": self.follower.problem,
            "folder": str(self.shared.folder),
            "folder_exists": self.shared.folder.is_dir(),
            "idle": self._start.idle,
            "console": self._console,
            "log": str(self._place.log),
            "calls": self.calls,
            "commands": self.clients.commands,
            "servers": {
                alias: {name: getattr(status, name) for name in names}
                for alias, status in self.bus.servers.items()
            },
            "tools": len(self.bus.catalog),
            "held": len(self.bus.held),
            "disabled": list(self.follower.config.disabled),
        }


def run_here(start: Start, program: ServeProgram, ready: Callable[[BackgroundBus], None]) -> int:
    """Run it until it is to stop; `ready` is called when its servers have started. Returns the exit code."""
    claim(start.place)
    if not logging.getLogger("toolbus").isEnabledFor(logging.INFO):  # as it is with -v
        enable_part_log("background", DATE_AND_TIME)  # such as refused clients

    async def run() -> int:
        background = BackgroundBus(start, program)
        program.report.add_line("up", f"pid {os.getpid()}, {start.place.config}")
        return await background.run(ready)

    with kept_stderr(str(start.place.config)):
        return asyncio.run(run())


def _running(config: BusConfig, tokens: TokenSource) -> BusConfig:
    """The config as the bus runs it: a required server that is down does not keep the others from it."""
    eager = [alias for alias, server in config.servers.items() if not server.lazy]
    return starting_only(config, eager, tokens)
