"""One run of an agent: what happens in it, and what comes out."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic_ai.messages import ModelMessage
from pydantic_ai.usage import RunUsage

from toolbus.adapters.approval import ApprovalRule, Approver, Decision, Request, denial
from toolbus.agent.events import ApprovalAsked, RunEvent, ToolProgressed, ToolReturned
from toolbus.agent.limits import LimitReached, Limits
from toolbus.core.records import JSON, ToolSpec

T = TypeVar("T")
NOBODY = "it needs approval, and nothing is reading the events of this run"
ENDING = 10.0
"""Seconds that a run gets to end once it was told to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Generic[T]):
    """What came out of a run."""

    output: T
    """The text, or the object that was asked for."""
    messages: list[ModelMessage]
    """What this run added to the conversation."""
    usage: RunUsage
    calls: tuple[ToolReturned, ...]

    @property
    def text(self) -> str:
        """The output as text."""
        return self.output if isinstance(self.output, str) else str(self.output)


class Run(Generic[T]):
    """Under way from the moment it is made. Go through its events, or just wait for `final`."""

    def __init__(self, approve: ApprovalRule[Approver], limits: Limits) -> None:
        self._approve: ApprovalRule[Approver] = approve
        self._limits = limits
        self._calls = 0
        self._events: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        self._asked: set[asyncio.Future[Decision]] = set()
        self._listened = False
        self._task: asyncio.Task[RunResult[T]] | None = None

    def begin(self, work: Coroutine[Any, Any, RunResult[T]], ended: Callable[[], None]) -> "Run[T]":
        """Start the work that this run is; its agent does that, and hears of the end."""
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda _: ended())
        self._task.add_done_callback(lambda _: self._events.put_nowait(None))
        return self

    @property
    def final(self) -> Awaitable[T]:
        """The output, once it is there; raises what ended the run. Cancelling the wait cancels the run."""
        return self._final()

    @property
    def result(self) -> RunResult[T] | None:
        """Output, messages, usage and calls of a run that is done; None before, and if it failed."""
        task = self._task
        if task is None or not task.done() or task.cancelled() or task.exception():
            return None
        return task.result()

    def cancel(self) -> None:
        """Stop; calls under way are cancelled on their servers."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Cancel, and wait for the end; not for long."""
        self.cancel()
        await asyncio.wait([self._work()], timeout=ENDING)

    async def _final(self) -> T:
        return (await self._work()).output

    async def __aiter__(self) -> AsyncGenerator[RunEvent]:
        """What happens, from the beginning, for one listener; raises what ended the run."""
        self._listened = True
        try:
            while (event := await self._events.get()) is not None:
                yield event
            self._events.put_nowait(None)  # for whoever listens once more
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._listened = False
            for answer in self._asked:
                if not answer.done():
                    answer.set_result(NOBODY)
        await self._work()

    def _work(self) -> "asyncio.Task[RunResult[T]]":
        assert self._task is not None, "a run is begun by its agent"
        return self._task

    # The port, where calls are made

    def emit(self, event: RunEvent) -> None:
        """Tell the listener."""
        self._events.put_nowait(event)

    async def refused(
        self, call: str, name: str, arguments: Mapping[str, JSON], spec: ToolSpec | None
    ) -> str | None:
        """Why a call must not be made; None if it may. Raises `LimitReached` for one too many."""
        self._calls += 1
        allowed = self._limits.tool_calls
        if allowed is not None and self._calls > allowed:
            raise LimitReached("tool_calls", allowed)
        request = Request(id=call, name=name, arguments=arguments, spec=spec)
        return await denial(request, self._approve, self._ask)

    def progressed(
        self, call: str, name: str, progress: float, total: float | None, message: str | None
    ) -> None:
        """A call came further."""
        self.emit(ToolProgressed(id=call, name=name, progress=progress, total=total, message=message))

    async def _ask(self, request: Request) -> Decision:
        if not self._listened:
            return NOBODY
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._asked.add(answer)
        self.emit(
            ApprovalAsked(
                id=request.id,
                name=request.name,
                arguments=request.arguments,
                server=request.server,
                answer=answer,
            )
        )
        try:
            return await answer
        finally:
            self._asked.discard(answer)
