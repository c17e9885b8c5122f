"""Run a bus on an event loop in a thread of its own, and derive methods that wait for it."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from toolbus.bus.catalog.registry import Registry
from toolbus.bus.toolbus import Toolbus
from toolbus.bus.view import View
from toolbus.core.operation.events import Event, EventStream
from toolbus.core.values.errors import FORKED, BusClosed

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
JOIN_TIMEOUT = 1.0


class Portal:
    """Runs the bus on a loop in its own thread."""

    def __init__(self, bus: Toolbus) -> None:
        self._bus = bus
        self.registries: dict[int, Registry] = {}
        """The registrations for each registry that tools are added to, by the registry's id."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        """The process that has the thread; a fork of it does not."""
        self._stop = asyncio.Event()
        self._stopped = threading.Event()

    def open(self) -> None:
        """Start the thread, and the bus in it."""
        if self._thread is None:
            loop: Future[asyncio.AbstractEventLoop] = Future()
            # Daemon: a bus that was not stopped must not keep the interpreter running.
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._serve(loop)), name="toolbus", daemon=True
            )
            self._process = os.getpid()
            self._thread.start()
            self._loop = loop.result()
        try:
            self.run(self._bus.start())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the bus and end the thread; any number of times."""
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None and self._process == os.getpid():
            loop.call_soon_threadsafe(self._stop.set)
            self._stopped.wait()
            # Not without a bound: what users run in the loop's threads may take its time to end.
            self._thread.join(JOIN_TIMEOUT)

    async def _serve(self, loop: "Future[asyncio.AbstractEventLoop]") -> None:
        loop.set_result(asyncio.get_running_loop())
        try:
            await self._stop.wait()
            await self._bus.close()
        finally:
            self._stopped.set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the bus and wait for it; an interrupt cancels it."""
        loop = self._loop
        if loop is None:
            work.close()
            raise BusClosed(started=self._thread is not None, how="use `with`, or call start() first")
        if self._process != os.getpid():
            work.close()
            raise BusClosed(reason=FORKED)
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a hook or callback of SyncToolbus cannot wait for the bus it runs on")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except CancelledError:
            if self._loop is loop:
                raise
            raise BusClosed() from None  # another thread has stopped the bus meanwhile
        except BaseException:
            future.cancel()
            raise

    def events(self, view: View, kinds: tuple[type[Any], ...]) -> Iterator[Any]:
        """The events of a view from now on; waits for the next one, and ends when the bus stops."""

        async def listen() -> EventStream[Any]:  # a stream belongs to the loop that it is made on
            return view.events(*kinds)

        return self._received(self.run(listen()))

    def _received(self, stream: EventStream[Event]) -> Iterator[Event]:
        try:
            while True:
                yield self.run(stream.__anext__())
        except StopAsyncIteration:
            return
        except BusClosed:
            if self._loop is not None:  # a fork of the process, which gets no events
                raise
        yield from stream.unread()


class Derived:
    """Has the methods of an asynchronous object, and waits where that one is awaited."""

    def __init__(self, source: Any, run: Callable[..., Any]) -> None:
        """`run` waits for a coroutine of the source."""
        self._source = source
        self._run = run


def waiting(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """A method that waits for what an asynchronous one returns."""

    @wraps(method)
    def wait(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(getattr(self._source, method.__name__)(*args, **kwargs))

    return wait


def same(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A method of the source for which nobody has to wait."""

    @wraps(method)
    def pass_on(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return getattr(self._source, method.__name__)(*args, **kwargs)

    return pass_on


def like(
    method: Callable[Concatenate[Any, P], object],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Any, P], T]]:
    """Give a method the parameters of another one, and its docstring unless it has its own."""

    def decorate(function: Callable[..., T]) -> Callable[Concatenate[Any, P], T]:
        given: Any = function
        given.__signature__ = signature(method).replace(return_annotation=function.__annotations__["return"])
        given.__doc__ = function.__doc__ or method.__doc__
        return given

    return decorate


class Shown(property, Generic[T]):
    """A property or attribute of the source, under the same name."""

    def __init__(self, kind: type[S], read: Callable[[S], T]) -> None:
        def get(derived: Any) -> T:
            return read(derived._source)

        super().__init__(get)
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self.__doc__ = getattr(getattr(self._kind, name, None), "__doc__", None)

    @overload
    def __get__(self, instance: None, owner: type, /) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None, /) -> T: ...
    def __get__(self, instance: object, owner: type | None = None, /) -> Any:
        return super().__get__(instance, owner)
