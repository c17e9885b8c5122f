"""One durable run, as the program that started it, or joined it, sees it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter

from toolbus.agent.durable.events import DurableEvent
from toolbus.agent.durable.info import RunInfo, Status
from toolbus.agent.durable.runs import Runs
from toolbus.core.values.elicitation import Answer
from toolbus.core.values.errors import RunCancelled, RunFailed

T = TypeVar("T")


class DurableRun(Generic[T]):
    """A run that outlives this process. Iterate over its events, or just await `final`."""

    def __init__(self, run: str, runs: Runs, begin: Awaitable[object], output: type[T]) -> None:
        """`begin` adds the run to the store; the agent calls this."""
        self._output: type[Any] = output
        self.id = run
        """Its id in the store: the key, if it has one."""
        self._all = runs
        self._begun = asyncio.ensure_future(begin)
        self._begun.add_done_callback(_retrieve)

    @property
    def recorded(self) -> Awaitable[None]:
        """Awaits that the run is in the store: from then on, no crash loses it."""
        return self._recorded()

    @property
    def status(self) -> Awaitable[Status]:
        """Awaits what it does now: queued, running, waiting for a person, done, failed or cancelled."""
        return self._status()

    @property
    def final(self) -> Awaitable[T]:
        """Awaits the output; raises `RunFailed` or `RunCancelled`. Cancelling the wait leaves it as it is."""
        return self._final()

    async def info(self) -> RunInfo:
        """All that the store has of it, and the question that it waits for."""
        return await (await self._runs()).get(self.id)

    async def __aiter__(self) -> AsyncGenerator[DurableEvent]:
        """All events from the beginning, in any process, for any number of listeners."""
        events = (await self._runs()).events(self.id)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()

    async def answer(self, answers: Mapping[str, Answer] | Answer, *, question: str | None = None) -> None:
        """Answer what it waits for: of several people, the first one does."""
        await (await self._runs()).answer(self.id, answers, question=question)

    async def cancel(self) -> None:
        """Cancel it, wherever it runs."""
        await (await self._runs()).cancel(self.id)

    async def _recorded(self) -> None:
        await asyncio.shield(self._begun)

    async def _runs(self) -> Runs:
        await self._recorded()
        return self._all

    async def _status(self) -> Status:
        return (await self.info()).status

    async def _final(self) -> T:
        info = await (await self._runs()).wait(self.id)
        match info.status:
            case "done":
                if self._output is str:
                    return cast(T, info.output or "")
                return TypeAdapter[Any](self._output).validate_python(info.structured)
            case "cancelled":
                raise RunCancelled(self.id)
            case _:
                raise RunFailed(self.id, info.error_kind, info.error or "")


def _retrieve(begun: "asyncio.Future[object]") -> None:
    """Whoever awaits the run gets the error; a program that does not must not be warned of it at its end."""
    with suppress(asyncio.CancelledError):
        begun.exception()
