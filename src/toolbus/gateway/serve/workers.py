"""The workers of `toolbus serve --workers N`, and the parent process that restarts them.

Workers are forks of this process, made when everything is imported and before anything is started. They share
its memory, the config and the listening socket. Each worker is a replica. If the config has no store, this
process makes one for them. A pipe leads to each worker; its end tells the worker that this process is gone.
Another pipe leads back; its end tells this process that the worker is gone.
"""

import asyncio
import gc
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from toolbus.core.text.display import counted
from toolbus.gateway.http.workers import ConnectionCounts, Workers
from toolbus.state.seal import KEY_BYTES

if TYPE_CHECKING:
    from toolbus.gateway.serve.signals import Stop

_STOP, _END_AT_ONCE, _ALL_READY, _READY = b"s", b"e", b"a", b"r"
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if sys.platform != "win32" else ()
_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a worker that died is started again; longer each time, if it dies before it is ready."""
_USEFUL = 4
"""Workers for each core; with more, a gateway needs memory and processes for nothing."""
_MARGIN, _AT_ONCE = 15.0, 3.0
"""Seconds that a worker may take to end, beyond those for calls in flight, or at once; then it is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInheritance:
    """The resources that all workers inherit from their parent."""

    gateway: str
    """A name for all of them."""
    socket: socket.socket
    """The socket at which they listen."""
    connections: ConnectionCounts
    store: Path
    """A file for what they have to find out about each other; it goes with the parent."""
    store_key: bytes = field(repr=False)


class GatewayWorker:
    """This process, as one of several workers."""

    def __init__(
        self, number: int, count: int, inherited: WorkerInheritance, orders: int, reports: int
    ) -> None:
        """`orders` come from the parent, `reports` go there; both are pipes."""
        self.number = number
        self.inherited = inherited
        self._orders = orders
        self._reports = reports
        self._all_ready = asyncio.Event()
        self.workers = Workers(
            gateway=inherited.gateway,
            number=number,
            count=count,
            connections=inherited.connections,
            all_started=self._all_ready.is_set,
        )

    @contextmanager
    def following(self, stop: "Stop") -> Generator[None]:
        """Stop when the parent says so, or is gone."""
        loop = asyncio.get_running_loop()

        def take() -> None:
            orders = os.read(self._orders, 16)
            if _ALL_READY in orders:
                self._all_ready.set()
            if _STOP in orders or not orders:
                stop.begin(signal.SIGTERM)
            if _END_AT_ONCE in orders:
                stop.end_at_once(signal.SIGTERM)
            if not orders:
                loop.remove_reader(self._orders)

        loop.add_reader(self._orders, take)
        try:
            yield
        finally:
            loop.remove_reader(self._orders)

    async def ready(self) -> None:
        """Report that it can be used, and wait until all can."""
        with suppress(BrokenPipeError):
            os.write(self._reports, _READY)
        await self._all_ready.wait()


@dataclass(slots=True)
class _Child:
    """A worker, as its parent sees it."""

    number: int
    pid: int
    orders: int
    reports: int
    is_ready: bool = False

    def order(self, what: bytes) -> None:
        with suppress(BrokenPipeError):
            os.write(self.orders, what)


def start_workers(
    count: int, sock: socket.socket, ending: float, log: Callable[[str], None]
) -> GatewayWorker | int:
    """Fork that many workers: returns in each of them; in this process the exit code, when all have ended.

    They share `sock`. When they are to stop, they have `ending` seconds for calls in flight and to leave the
    other replicas; `log` takes lines about workers.
    """
    if (warning := crowding(count, os.cpu_count() or 1)) is not None:
        log(warning)
    folder = Path(tempfile.mkdtemp(prefix="toolbus-"))
    inherited = WorkerInheritance(
        gateway=token_hex(6),
        socket=sock,
        connections=ConnectionCounts(count),
        store=folder / "store.db",
        store_key=os.urandom(KEY_BYTES),
    )
    parent = _Parent(count, inherited, ending, log)
    worker = None
    try:
        worker = parent.run()
        return worker
    finally:
        if not isinstance(worker, GatewayWorker):
            shutil.rmtree(folder, ignore_errors=True)


def crowding(workers: int, cores: int) -> str | None:
    """A warning about more workers than the cores can use; None if there is none."""
    if workers <= cores * _USEFUL:
        return None
    each = "each is a process with its own connections and its own processes of servers over stdio"
    return f"{workers} workers on {counted(cores, 'core')}: more than one for each core is no faster; {each}"


class _Parent:
    def __init__(
        self, count: int, inherited: WorkerInheritance, ending: float, log: Callable[[str], None]
    ) -> None:
        self._count = count
        self._inherited = inherited
        self._ending = ending
        self._log = log
        self._children: dict[int, _Child] = {}
        """The children, by the pipe of their reports."""
        self._due: dict[int, float] = {}
        """The time to start a worker, by number."""
        self._pauses: dict[int, float] = {}
        self._have_all_been_ready = False
        self._signals = 0
        self._last_signal = 0
        self._is_forced = False
        self._kill_at: float | None = None
        self._code = 0

    def run(self) -> GatewayWorker | int:
        gc.collect()
        gc.freeze()  # a look for garbage would copy the memory that workers share
        for number in range(self._count):
            if (worker := self._start(number)) is not None:
                return worker
        with _waking(self._signalled) as wake:
            while self._children or (self._due and not self._signals):
                ready, _, _ = select.select([wake, *self._children], [], [], self._timeout())
                if wake in ready:
                    os.read(wake, 64)
                self._obey()
                for pipe in ready:
                    if pipe != wake:
                        self._read(self._children[pipe])
                if (worker := self._start_due()) is not None:
                    return worker
        return self._code

    # Start

    def _start(self, number: int) -> GatewayWorker | None:
        """Fork a worker; returns it in the worker itself."""
        taken, orders = os.pipe()
        reports, given = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # a fork has no handlers of its own yet
        pid = os.fork()
        if pid == 0:
            for one in _SIGNALS:
                signal.signal(one, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            for descriptor in (orders, reports, *self._children, *(one.orders for one in self._all)):
                os.close(descriptor)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return GatewayWorker(number, self._count, self._inherited, taken, given)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(taken)
        os.close(given)
        child = self._children[reports] = _Child(number, pid, orders, reports)
        if self._have_all_been_ready:
            child.order(_ALL_READY)
        return None

    @property
    def _all(self) -> list[_Child]:
        return list(self._children.values())

    def _start_due(self) -> GatewayWorker | None:
        now = time.monotonic()
        for number, due in tuple(self._due.items()):
            if due <= now and not self._signals:
                del self._due[number]
                if (worker := self._start(number)) is not None:
                    return worker
        return None

    # What workers report

    def _read(self, child: _Child) -> None:
        if os.read(child.reports, 16):
            child.is_ready = True
            self._pauses.pop(child.number, None)
            if not self._have_all_been_ready and all(one.is_ready for one in self._all):
                self._have_all_been_ready = True
                for one in self._all:
                    one.order(_ALL_READY)
            return
        del self._children[child.reports]
        self._inherited.connections.leave(child.number)
        os.close(child.reports)
        os.close(child.orders)
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        if self._signals:
            self._code = self._code or (code if code > 0 else 128 - code if code < 0 else 0)
        elif not self._have_all_been_ready:  # as one process alone: it cannot serve
            self._code = code if code > 0 else 1
            self._stop(_STOP)
        else:
            self._start_again(child, code)

    def _start_again(self, child: _Child, code: int) -> None:
        pause = self._pauses.get(child.number, 0.0 if child.is_ready else _PAUSE)
        self._pauses[child.number] = min(max(pause * 2, _PAUSE), _LONGEST_PAUSE)
        self._due[child.number] = time.monotonic() + pause
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        self._log(f"worker {child.number} {how}; it is started again")

    # The end

    def _signalled(self, number: int) -> None:
        self._signals += 1
        self._last_signal = number

    def _obey(self) -> None:
        if self._signals and self._kill_at is None:
            self._stop(_STOP)
        elif self._signals > 1 and not self._is_forced:
            self._is_forced = True
            self._code = 128 + self._last_signal
            self._stop(_END_AT_ONCE)
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            for child in self._all:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)

    def _stop(self, order: bytes) -> None:
        self._signals = max(self._signals, 1)
        self._inherited.socket.close()  # else clients could connect, and nobody would serve them
        self._kill_at = time.monotonic() + (_AT_ONCE if order == _END_AT_ONCE else self._ending + _MARGIN)
        for child in self._all:
            child.order(order)

    def _timeout(self) -> float | None:
        times = [*self._due.values(), *([] if self._kill_at is None else [self._kill_at])]
        return max(0.0, min(times) - time.monotonic()) + 0.01 if times else None


@contextmanager
def _waking(take: Callable[[int], None]) -> Generator[int]:
    """A descriptor that becomes readable when a signal came, which `take` gets."""
    reading, writing = socket.socketpair()
    for end in (reading, writing):
        end.setblocking(False)
    before = {one: signal.signal(one, lambda number, _: take(number)) for one in _SIGNALS}
    old = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    try:
        yield reading.fileno()
    finally:
        signal.set_wakeup_fd(old)
        for one, handler in before.items():
            signal.signal(one, handler)
        reading.close()
        writing.close()
