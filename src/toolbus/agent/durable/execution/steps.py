"""One execution of a run: its steps, recorded once and replayed later, its clock, and the tools it knows."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from dbos import DBOS

from toolbus.agent.durable.store import dbos_private as seam
from toolbus.agent.durable.store.store import RecordedError
from toolbus.agent.run import LimitReached

T = TypeVar("T")
_YEARS = 10 * 365 * 24 * 3600.0
"""Seconds to wait for a person."""


class Gate:
    """Lets a worker end between two steps: when it closes, no step begins, and those in flight end."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._is_closing = False
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def step(self) -> AsyncGenerator[None]:
        """Hold the gate open during a step; if it is closing, wait until the run is cancelled."""
        if self._is_closing:
            await asyncio.Event().wait()
        self._in_flight += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def close(self, within: float) -> bool:
        """Let no further step begin; True if those in flight ended in time."""
        self._is_closing = True
        try:
            async with asyncio.timeout(within):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


class Aborted(BaseException):
    """An execution cannot go on: its run is another worker's now, or the store refuses a record.

    It is not an `Exception`: an exception of a tool becomes a result for the model, and this one must not.
    """


class Steps:
    """The steps of one execution. DBOS numbers them in the order they begin."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.problem: Exception | None = None
        """The reason why the execution cannot go on."""
        self.recorded: dict[int, str] = {}
        """The names of what earlier executions recorded, by number."""

    @property
    def upcoming(self) -> str | None:
        """The name of the next step, if an earlier execution recorded it."""
        return self.recorded.get(seam.next_number())

    async def run(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do a piece of work and record the JSON that it returns, or return the recorded JSON.

        Raises the errors of the work, and records them.
        """
        raised: list[Exception] = []

        async def step() -> Any:
            try:
                return await work()
            except Exception as error:
                raised.append(error)
                raise

        async with self._step():
            try:
                return await DBOS.run_step_async({"name": name}, step)
            except Exception as error:
                if error in raised or isinstance(error, RecordedError):
                    raise _Own(error) from error
                raise

    async def note(self, work: Coroutine[Any, Any, T]) -> T:
        """Write to the store beside the steps; an error is none of the work that it is part of."""
        try:
            return await work
        except Exception as error:
            raise self.abort(error) from error

    async def receive(self, topic: str, within: float | None) -> Any:
        """Wait for a message, possibly for days; None if it took too long. A closing worker does not wait."""
        try:
            return await DBOS.recv_async(topic, timeout_seconds=_YEARS if within is None else within)
        except Exception as error:
            raise self.abort(error) from error

    @asynccontextmanager
    async def _step(self) -> AsyncGenerator[None]:
        if self.problem is not None:
            raise self.abort(self.problem)
        async with self._gate.step():
            try:
                yield
            except _Own as own:
                raise own.error from None
            except Exception as error:
                raise self.abort(error) from error

    def abort(self, problem: Exception) -> Aborted:
        """The exception to raise if the execution cannot go on: no further step begins."""
        self.problem = problem
        return Aborted(str(problem))


class _Own(Exception):
    """The exception that the work of a step raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


_DIGITS = 16
"""Of a digest, in the record of a run."""
TEXT = "This tool changed since you last saw it. A call of it waits until a person has accepted the change."
"""The text about a held tool for the model; the new definition may say anything."""


class HeldTools:
    """The definitions that one run knows, as `short` digests by `server/tool`.

    A tool that changed since the run was offered it is held until a person accepts that.
    """

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}

    def begin(self, recorded: Mapping[str, str]) -> None:
        """Start with the definitions that the run was offered."""
        self._known = {tool: {definition} for tool, definition in recorded.items()}

    def pin(self, tool: str, definition: str | None) -> None:
        """Remember the definition of a tool that was called, if it is not known."""
        if definition is not None:
            self._known.setdefault(tool, {short(definition)})

    def accept(self, tool: str, changed: str) -> None:
        """Also accept calls of the tool with a definition for which `changed` returned this."""
        self._known[tool].add(changed)

    def changed(self, tool: str, definition: str | None) -> str | None:
        """The short digest of a definition that nobody accepted; None if the tool may be called."""
        now = None if definition is None else short(definition)
        return None if now is None or now in self._known.get(tool, {now}) else now


def short(digest: str) -> str:
    """The part of a digest that is recorded."""
    return digest.rpartition(":")[2][:_DIGITS]


class Clock:
    """Counts the seconds of one run, over all its executions, without those in which it waits for people."""

    def __init__(self) -> None:
        self._before = 0.0
        self._since = time.monotonic()
        self._waits = 0
        self._timeout: asyncio.Timeout | None = None
        self._allowed: float | None = None

    @property
    def seconds(self) -> float:
        return self._before + (0.0 if self._waits else time.monotonic() - self._since)

    def replay(self, seconds: float) -> None:
        if seconds > self.seconds:
            self._before, self._since = seconds, time.monotonic()
            self._reschedule()

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Do not count: a person is asked."""
        self._before, self._waits = self.seconds, self._waits + 1
        self._reschedule()
        try:
            yield
        finally:
            self._waits -= 1
            self._since = time.monotonic()
            self._reschedule()

    @asynccontextmanager
    async def limit(self, allowed: float | None) -> AsyncGenerator[None]:
        """Raise `LimitReached` once the run has taken this long."""
        self._allowed, self._since = allowed, time.monotonic()
        try:
            async with asyncio.timeout(None) as self._timeout:
                self._reschedule()
                yield
        except TimeoutError:
            if allowed is None or self._timeout is None or not self._timeout.expired():
                raise
            raise LimitReached("seconds", allowed) from None
        finally:
            self._timeout = None

    def _reschedule(self) -> None:
        if self._timeout is not None and self._allowed is not None and not self._timeout.expired():
            left = None if self._waits else max(0.0, self._allowed - self.seconds)
            self._timeout.reschedule(None if left is None else asyncio.get_running_loop().time() + left)
