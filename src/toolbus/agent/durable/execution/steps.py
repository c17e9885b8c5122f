"""The steps of one execution of a run: each is recorded once, and replayed by later executions."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from dbos import DBOS

from toolbus.agent.durable.store import dbos_private as seam
from toolbus.agent.durable.store.store import RecordedError

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

    Not an `Exception`: what a tool raises becomes a result for the model, and this must not.
    """


class Steps:
    """The steps of one execution. DBOS numbers them in the order they begin."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.problem: Exception | None = None
        """Why the execution cannot go on."""
        self.recorded: dict[int, str] = {}
        """The names of what earlier executions recorded, by number."""

    @property
    def upcoming(self) -> str | None:
        """The name of the next step, if an earlier execution recorded it."""
        return self.recorded.get(seam.next_number())

    async def run(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do a piece of work and record the JSON that it returns, or return what was recorded.

        Raises what the work raises, which is recorded, too.
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
        """What to raise if the execution cannot go on: no further step begins."""
        self.problem = problem
        return Aborted(str(problem))


class _Own(Exception):
    """What the work of a step raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))
