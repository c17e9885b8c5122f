"""The clients of the background bus: accept them, run their commands in threads, and answer what they ask."""

import array
import asyncio
import itertools
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from toolbus.background.passed_terminal import PassedTerminal
from toolbus.background.protocol import Messages, ProtocolViolation, check_peer, send
from toolbus.background.shared_bus import LentBus, SharedBus
from toolbus.cli.app import exit_code
from toolbus.cli.entry import background_command
from toolbus.cli.options import repeat_config, suggested
from toolbus.cli.output.screen import visible, wrapped
from toolbus.cli.session import BUS
from toolbus.cli.terminal import OWN, STREAMS, TERMINAL, StreamName
from toolbus.config.find import is_own

logger = logging.getLogger("toolbus")
MAX_CONNECTIONS = 128
"""More clients wait until one is done; each takes a few descriptors."""
MAX_RUNNING = 64
"""Commands that run at the same time, each in a thread; others wait for one to end."""
FIRST_WITHIN = 30.0
"""Seconds that a client has to say what it wants."""
FAILED = 1
_INT_BYTES = array.array("i").itemsize
_names = itertools.count(1)


class Connections:
    """All clients; used in the loop of the bus."""

    def __init__(
        self,
        bus: SharedBus,
        version: str,
        ask: Callable[[str], dict[str, Any]],
    ) -> None:
        """`ask` answers requests other than commands."""
        self.bus = bus
        self.version = version
        self.ask = ask
        self.slots = asyncio.Semaphore(MAX_RUNNING)
        self.changed = asyncio.Event()
        """Set when a client comes or goes."""
        self._open: set[CommandConnection] = set()
        self._command_ended = time.monotonic()

    async def accept(self, listening: socket.socket) -> None:
        """Accept clients until cancelled."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        while True:
            while len(self._open) >= MAX_CONNECTIONS:
                self.changed.clear()
                await self.changed.wait()
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:  # such as too many open files
                logger.exception("a client of the background bus could not be accepted")
                await asyncio.sleep(1)
                continue
            try:
                check_peer(accepted)
            except (ProtocolViolation, OSError) as error:
                logger.warning("a client was refused: %s", error)
                accepted.close()
                continue
            self._open.add(CommandConnection(self, accepted))
            self.changed.set()

    def forget(self, connection: "CommandConnection") -> None:
        """The connection is closed."""
        self._open.discard(connection)
        self.changed.set()

    @property
    def commands(self) -> int:
        """The number of commands that are running or waiting for their turn."""
        return sum(one.is_command for one in self._open)

    @property
    def busy_at(self) -> float:
        """The time when the last command ended; now if one runs."""
        return time.monotonic() if self.commands else self._command_ended

    def command_ended(self) -> None:
        """A command has ended."""
        self._command_ended = time.monotonic()

    async def drain(self, within: float) -> None:
        """Let commands end, then end them, then close all connections."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._no_commands()
        for one in self._open:
            one.end_command()
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self._no_commands()
        for one in tuple(self._open):
            if one.is_command:
                one.close()

    async def _no_commands(self) -> None:
        while self.commands:
            self.changed.clear()
            await self.changed.wait()


class CommandConnection:
    """One client."""

    def __init__(self, clients: Connections, accepted: socket.socket) -> None:
        self._clients = clients
        self._socket = accepted
        self._loop = asyncio.get_running_loop()
        self._messages = Messages()
        self._streams: list[int] = []
        self._terminal: PassedTerminal | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        accepted.setblocking(False)
        self._loop.add_reader(accepted, self._read)
        self._deadline = self._loop.call_later(FIRST_WITHIN, self.close)

    @property
    def is_command(self) -> bool:
        """Whether it runs a command."""
        return self._terminal is not None

    def end_command(self) -> None:
        """Cancel its command, if it runs one."""
        if self._terminal is not None:
            self._terminal.take_signal(signal.SIGTERM)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; from any thread."""
        self._loop.call_soon_threadsafe(self._send, message)

    def close(self) -> None:
        """End the connection; a command that runs is cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        self._deadline.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for stream in self._streams:
            os.close(stream)
        self._streams.clear()
        if self._terminal is None:
            self._clients.forget(self)
        else:
            self._terminal.lose_client()

    def _send(self, message: dict[str, Any]) -> None:
        if not self._is_closed:
            try:
                send(self._socket, message)
            except OSError:  # it is gone, or does not read
                self.close()

    def _read(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(65536, socket.CMSG_SPACE(len(STREAMS) * _INT_BYTES))
            self._take_streams(ancillary)
            if not data:
                self.close()
                return
            for message in self._messages.feed(data):
                if self._terminal is not None:
                    self._terminal.take(message)
                else:
                    self._begin(message)
        except (BlockingIOError, InterruptedError):
            return
        except (ProtocolViolation, OSError) as error:
            logger.warning("a client was disconnected: %s", error)
            self.close()

    def _take_streams(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                passed = array.array("i")
                passed.frombytes(data[: len(data) - len(data) % _INT_BYTES])
                self._streams += passed
                for stream in passed:
                    os.set_inheritable(stream, False)

    def _begin(self, message: dict[str, Any]) -> None:
        self._deadline.cancel()
        match message:
            case {"ask": str(what)}:
                self._send(self._clients.ask(what))
            case {"run": list(), "version": version} if version != self._clients.version:
                own = self._clients.version
                reason = (
                    f"the background bus runs toolbus {own}, and this is {version}; restart it with "
                    "'toolbus down' and 'toolbus up'"
                )
                self._send({"refused": reason})
                self.close()
            case {"run": list()} if self._has_left():
                self.close()
            case {"run": list()} if len(self._streams) == len(STREAMS):
                words = [str(word) for word in message["run"]]
                first, second, third = self._streams
                self._streams.clear()  # they are the terminal's now
                self._terminal = PassedTerminal(message, (first, second, third), self.send)
                self._send({"accepted": True})
                self._task = asyncio.create_task(self._run(self._terminal, words))
            case _:
                raise ProtocolViolation("it asked for something unknown")

    def _has_left(self) -> bool:
        """Whether the client has ended before its turn came; what it asked for must not be done then."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False

    async def _run(self, terminal: PassedTerminal, words: list[str]) -> None:
        """Run a command in a thread, when it is its turn, and report its end."""
        async with self._clients.slots:
            # `toolbus add` may have just changed it.
            await self._clients.bus.follower.catch_up()
            code = await self._in_thread(terminal, words)
        self._terminal = None
        self._clients.command_ended()
        self._send({"exit": code})
        self.close()
        self._clients.forget(self)

    async def _in_thread(self, terminal: PassedTerminal, words: list[str]) -> int:
        ended: asyncio.Future[int] = self._loop.create_future()
        bus = LentBus(self._clients.bus, f"cli-{next(_names)}")

        def run() -> None:
            code = 1
            try:
                code = run_command(bus, terminal, words)
            except BaseException:  # top of a thread
                logger.exception("a command failed in the background bus")
            finally:
                terminal.close()
                with suppress(RuntimeError):  # the bus has ended
                    self._loop.call_soon_threadsafe(lambda: ended.done() or ended.set_result(code))

        # Not of a pool: a command that waits for its terminal must not hold up others, nor the end.
        Thread(target=run, name=f"toolbus-{bus.session}", daemon=True).start()
        return await ended


def run_command(bus: LentBus, terminal: PassedTerminal, words: Sequence[str]) -> int:
    """Run a command line on the terminal of a client; returns the exit code."""
    with TERMINAL.using(terminal), BUS.using(bus):
        try:
            _note(bus.shared, terminal, words)
            return exit_code(words)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else FAILED
        except KeyboardInterrupt:
            return 130
        finally:
            follow_clients()  # the parser wraps the streams of the process when a pipe breaks


def _note(bus: SharedBus, terminal: PassedTerminal, words: Sequence[str]) -> None:
    """Say what differs from a command that would run by itself."""
    command = background_command(words)
    named = None if command is None or command.config is None else Path(command.config)
    repeat_config(named)
    config = bus.follower.config
    if bus.follower.is_reloading:
        _print("the config has changed, but is not in use yet: its new servers are still starting")
    elif (problem := bus.follower.problem) is not None:
        _print(f"the config has changed, but is not in use: {problem}; 'toolbus status' shows it")
    is_named = named is not None or "TOOLBUS_CONFIG" in terminal.environ
    config_folder = config.folder or bus.folder
    expected = terminal.cwd if is_named or is_own(config_folder) else config_folder.resolve()
    floating = [alias for alias, one in config.servers.items() if one.command is not None and one.cwd is None]
    if floating and expected != bus.folder:
        _print(f"{', '.join(floating)}: run in {bus.folder}, where 'toolbus up' was run, not in {expected}")


def _print(text: str) -> None:
    print(wrapped(f"toolbus: {visible(suggested(text))}", sys.stderr), file=sys.stderr, flush=True)


class _Following:
    """A stream of this process, which leads to the client in the thread of its command."""

    def __init__(self, name: StreamName) -> None:
        self._name: StreamName = name

    def __getattr__(self, attribute: str) -> object:
        return getattr(TERMINAL.get().stream(self._name), attribute)


_following = {name: _Following(name) for name in STREAMS}


def follow_clients() -> None:
    """Have `print` and all else that uses the streams of the process reach the client whose command it is."""
    OWN.keep_streams()
    for name, stream in _following.items():
        setattr(sys, name, stream)
