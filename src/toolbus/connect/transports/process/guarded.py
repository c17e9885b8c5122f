"""A server below the guard: how a process starts and ends on Linux.

The guard (`guard.py`) is started with the first server, and ends with the last bus (see `start.py`). It
starts every server, so a running server always has somebody to end it. The messages are described there.
"""

import asyncio
import errno
import io
import marshal
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

from toolbus.connect.forks import detach_after_fork
from toolbus.connect.transports.process.child import ChildEvents, HelperProcess, Launch, unread_bytes
from toolbus.core.loop import Flag

GUARD = Path(__file__).with_name("guard.py")
RUN = "import sys; sys.path.append({folder!r}); import guard; guard.main({owner})"
SEND_INTERVAL = 0.01
START_TIMEOUT = 10.0
"""Seconds until a server has to be started; it takes milliseconds, unless the guard was stopped."""
KILLED = -9


class GuardUnavailable(Exception):
    """The guard cannot be started here, or ended before it had started the server."""


class Guard(HelperProcess):
    """Starts the guard, and sends it requests; it ends as soon as no server is left."""

    def __init__(self) -> None:
        super().__init__()
        self._has_failed = False
        self._identity: Sequence[Any] = ()
        """The identity of the guard's process: servers get the rights of the guard."""

    def send(self, fds: Sequence[int]) -> None:
        """Send a request; raises `GuardUnavailable`, or OSError if it has too many."""
        with self._lock:
            for _ in range(2):
                self._ensure_running()
                channel = socket.socket(fileno=self._fd)
                try:
                    socket.send_fds(channel, [b"+"], fds)
                    return
                except (BrokenPipeError, ConnectionResetError):  # it was killed
                    self._close()
                finally:
                    channel.detach()
        raise GuardUnavailable("it ends at once")

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself: it needs something that this system does not have."""
        if not self._has_failed and self._pid and self._owner == os.getpid():
            with suppress(ChildProcessError):
                _, status = os.waitpid(self._pid, os.WNOHANG)
                self._has_failed = os.waitstatus_to_exitcode(status) > 0
        return self._has_failed

    def start(self) -> None:
        """Start it, unless it runs; raises `GuardUnavailable`."""
        with self._lock:
            self._ensure_running()

    def _ensure_running(self) -> None:
        identity = os.getpid(), os.getresuid(), os.getresgid(), os.getgroups()
        if self._identity != identity:
            self._close()
        if self._fd < 0:
            if self._pid:
                with suppress(ChildProcessError):  # it is that of our parent
                    os.waitpid(self._pid, os.WNOHANG)
            self._fd, self._identity = self._open(), identity

    def _open(self) -> int:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        code = RUN.format(folder=str(GUARD.parent), owner=os.getpid())
        env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        with ours, theirs:
            try:
                self._spawn([sys.executable, "-I", "-S", "-c", code], env, theirs.fileno())
            except (OSError, NotImplementedError) as error:
                raise GuardUnavailable(str(error)) from error
            return ours.detach()


guard = Guard()


def can_guard() -> bool:
    """Whether this system and this interpreter can run the guard."""
    is_python = "python" in os.path.basename(sys.executable or "").lower()  # not a program that embeds it
    is_frozen = getattr(sys, "frozen", False)
    is_possible = sys.platform == "linux" and is_python and not is_frozen and GUARD.is_file()
    return is_possible and not guard.has_failed


class GuardedProcess:
    """A server that a keeper of the guard has started; `spawn_guarded` makes it."""

    def __init__(self, events: ChildEvents, control: socket.socket) -> None:
        self._events = events
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._pipes: list[io.FileIO] = []
        self._transports: list[asyncio.BaseTransport] = []
        self._gone = Flag()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self.pid = 0
        self._has_exited = False
        self._loop.add_reader(control.fileno(), self._read_control)

    @property
    def stdin(self) -> asyncio.WriteTransport:
        return cast(asyncio.WriteTransport, self._transports[0])

    @property
    def unread(self) -> int:
        pipe = _fileno(self._pipes[0])
        return 0 if pipe < 0 else unread_bytes(pipe) + self.stdin.get_write_buffer_size()

    def terminate(self) -> bool:
        return self._send(b"term")

    def kill(self) -> bool:
        return self._send(b"kill")

    async def wait_gone(self) -> None:
        await self._gone.wait()

    def close(self) -> None:
        for transport in self._transports:
            transport.close()
        self._close_control()

    def fds(self) -> list[int]:
        return [fd for fd in (self._control.fileno(), *map(_fileno, self._pipes)) if fd >= 0]

    async def connect(self, pipes: Sequence[int]) -> None:
        """Wait until it is started, and read from its pipes; raises OSError, `GuardUnavailable`."""
        self._pipes = [io.FileIO(fd, "r" if n else "w") for n, fd in enumerate(pipes)]
        detach_after_fork(self)
        try:
            await self._started
            for fd, pipe in enumerate(self._pipes):
                connect = self._loop.connect_read_pipe if fd else self._loop.connect_write_pipe
                transport, _ = await connect(lambda fd=fd: _Pipe(self._events, fd), pipe)
                self._transports.append(transport)
        except BaseException:
            self.kill()
            self._close_control()
            for pipe in self._pipes[len(self._transports) :]:
                pipe.close()
            self.close()
            raise

    def _send(self, order: bytes) -> bool:
        if not self._gone.is_set():
            with suppress(OSError):  # it has just ended
                self._control.send(order)
        return not self._gone.is_set()

    def _read_control(self) -> None:
        try:
            message = self._control.recv(64)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        what, _, number = message.decode().partition(" ")
        if what == "exited":
            self._exit(int(number))
        elif not message:
            self._close_control()
            if self.pid:
                self._exit(KILLED)  # unless it said otherwise
        if self._started.done():
            return
        if what == "started":
            self.pid = int(number)
            self._started.set_result(None)
        elif what == "failed":
            self._started.set_exception(OSError(int(number), os.strerror(int(number))))
        elif not message:
            self._started.set_exception(GuardUnavailable("it did not start the server"))

    def _exit(self, code: int) -> None:
        if not self._has_exited:
            self._has_exited = True
            self._events.process_exited(code)

    def _close_control(self) -> None:
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._gone.set()


class _Pipe(asyncio.Protocol):
    """One pipe of a process, as its owner sees it."""

    def __init__(self, events: ChildEvents, fd: int) -> None:
        self._fd = fd
        self._events = events
        self.pause_writing = events.pause_writing
        self.resume_writing = events.resume_writing

    def data_received(self, data: bytes) -> None:
        self._events.pipe_data_received(self._fd, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._events.pipe_connection_lost(self._fd, exc)


async def spawn_guarded(events: ChildEvents, launch: Launch) -> GuardedProcess:
    """Start a server below the guard; raises OSError if it cannot start, `GuardUnavailable`."""
    request = (
        os.fsencode(launch.command[0]),
        [os.fsencode(word) for word in launch.command],
        {os.fsencode(name): os.fsencode(value) for name, value in launch.env.items()},
        os.fsencode(launch.folder or _current_folder()),
        launch.syscall_filter,
        launch.wrappers,
    )
    with ExitStack() as ours, ExitStack() as theirs:
        file = os.memfd_create("toolbus", os.MFD_CLOEXEC)
        theirs.callback(os.close, file)
        with io.FileIO(file, "w", closefd=False) as writer:
            writer.write(marshal.dumps(request))
        os.lseek(file, 0, os.SEEK_SET)
        (stdin, to), (out, stdout), (err, stderr) = (_pipe(ours, theirs, n == 0) for n in range(3))
        control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.enter_context(control)
        theirs.enter_context(their_control)
        control.setblocking(False)
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await _send([file, stdin, stdout, stderr, their_control.fileno()])
                theirs.close()
                process = GuardedProcess(events, control)
                ours.pop_all()
                await process.connect((to, out, err))
                return process
        except TimeoutError as error:
            raise GuardUnavailable(f"it does not respond within {START_TIMEOUT:g} s") from error


async def _send(fds: Sequence[int]) -> None:
    while True:
        try:
            guard.send(fds)
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ETOOMANYREFS):
                raise
            await asyncio.sleep(SEND_INTERVAL)  # it has to catch up: many servers start at once


def _pipe(ours: ExitStack, theirs: ExitStack, is_input: bool) -> tuple[int, int]:
    read_end, write_end = os.pipe()
    for stack, fd in ((theirs if is_input else ours, read_end), (ours if is_input else theirs, write_end)):
        stack.callback(os.close, fd)
    return read_end, write_end


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return "/"


def _fileno(pipe: io.FileIO) -> int:
    return -1 if pipe.closed else pipe.fileno()
