"""Calls that end later: one that waits for a person's answer, one that is left to its server."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar, get_args

from toolbus.call import Call, Caller, Failure, OnInput, Progress, Resumed
from toolbus.connect import Session, requests
from toolbus.core.elicitation import Answer, Pending
from toolbus.core.errors import ToolNotFound
from toolbus.core.events import Reason
from toolbus.core.loop import OwnerLoop
from toolbus.core.records import JSON, Origin, TaskState, ToolResult, ToolSpec

T = TypeVar("T")


class Later(ABC):
    """The calls of a `Toolbus` that somebody comes back to."""

    _caller: Caller

    @abstractmethod
    async def find(self, name: str) -> ToolSpec:
        """The tool of that name."""

    @abstractmethod
    def _running(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if there is none."""

    @abstractmethod
    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work of the bus, from wherever the caller is."""

    @abstractmethod
    async def _asked(self, alias: str, send: Callable[[Session, float], Awaitable[T]]) -> T:
        """Ask a server, through its link."""

    def report_unsent(self, name: str, reason: Reason, error: str, origin: Origin | None = None) -> None:
        """Emit the events of a call that was not made: of a tool, or of a name that nothing has."""
        failure = Failure(reason, error)
        self._running().soon(lambda: self._caller.report_unsent(name, origin or Origin("", name), failure))

    async def _wanted(self, name: str) -> ToolSpec:
        """As `find`, for a call: a name that nothing has is reported."""
        try:
            return await self.find(name)
        except ToolNotFound as error:
            self.report_unsent(name, "unknown_tool", str(error))
            raise

    async def resume(
        self,
        pending: Pending,
        answers: Mapping[str, Answer] | Answer | None = None,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        on_input: OnInput = "suspend",
    ) -> ToolResult:
        """Go on with a call that waited; answers by the keys of its questions, or the one for its only one.

        The result may be pending again. Works in another process, for as long as the server remembers.
        """
        check_call(on_input, timeout=timeout)
        resumed = Resumed.of(pending, answers)
        call = Call(
            spec=await self._wanted(f"{pending.server}/{pending.tool}"),
            arguments=pending.arguments,
            timeout=timeout,
            on_progress=on_progress,
            on_input=on_input,
            resumed=resumed,
        )
        return await self._on_loop(self._caller.call(call))

    async def submit(self, name: str, arguments: Mapping[str, JSON] | None = None) -> "TaskHandle":
        """Begin a call, and leave it to the server if that makes a task of it; else wait for its result."""
        given: Mapping[str, JSON] = {} if arguments is None else arguments
        call = Call(spec=await self._wanted(name), arguments=given, detached=True)
        return TaskHandle(self, await self._on_loop(self._caller.call(call)))

    def task(self, stored: str) -> "TaskHandle":
        """The task whose `to_json()` this is; also in another process."""
        return TaskHandle(self, ToolResult.waiting(Pending.from_json(stored)))

    async def task_state(self, pending: Pending) -> TaskState:
        """How a task is doing; what `TaskHandle.status` uses."""
        task = _task(pending)
        return await self._asked(
            pending.server, lambda session, timeout: requests.task_state(session, task, timeout)
        )

    async def cancel_task(self, pending: Pending) -> None:
        """Tell the server that nobody wants the result any more; what `TaskHandle.cancel` uses."""
        task = _task(pending)
        await self._asked(
            pending.server, lambda session, timeout: requests.cancel_task(session, task, timeout)
        )


class TaskHandle:
    """A call that its server works on by itself; `to_json` lets another process come back to it."""

    def __init__(self, bus: Later, first: ToolResult) -> None:
        self._bus = bus
        self._first = first

    @property
    def id(self) -> str | None:
        """The server's name for the task; None if the result came at once."""
        return self._first.pending.task if self._first.pending else None

    @property
    def done(self) -> bool:
        """Whether the server made no task of the call: the result is there."""
        return self._first.pending is None

    async def status(self) -> TaskState:
        """How it is doing, now."""
        if self._first.pending is None:
            return TaskState(id="", status="completed", result=self._first)
        return await self._bus.task_state(self._first.pending)

    async def result(
        self,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        on_input: OnInput = "ask",
    ) -> ToolResult:
        """Wait for the result; what runs out of time goes on at the server, and can be waited for again."""
        if self._first.pending is None:
            return self._first
        return await self._bus.resume(
            self._first.pending, timeout=timeout, on_progress=on_progress, on_input=on_input
        )

    async def cancel(self) -> None:
        """Tell the server to stop; it decides whether it can."""
        if self._first.pending is not None:
            await self._bus.cancel_task(self._first.pending)

    def to_json(self) -> str:
        """For a file or a table; ValueError if the result came at once, and there is no task."""
        if self._first.pending is None:
            raise ValueError("the result came at once: there is no task to come back to")
        return self._first.pending.to_json()

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r})"


def _task(pending: Pending) -> str:
    if pending.task is None:
        raise ValueError("this call is no task: resume() goes on with it")
    return pending.task


ON_INPUT: tuple[str, ...] = get_args(OnInput)


def check_call(on_input: OnInput, *, recover: float | None = None, **seconds: float | None) -> None:
    """ValueError for a word that means nothing, or a time that is none."""
    if recover is not None and not recover >= 0:
        raise ValueError(f"recover must be 0 seconds or more, not {recover!r}")
    if on_input not in ON_INPUT:
        raise ValueError(f"on_input must be one of {', '.join(ON_INPUT)}, not {on_input!r}")
    for name, value in seconds.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be more than 0 seconds, not {value!r}")
