"""Calls that end later: suspended until they are answered, or run by the server as a task."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from toolbus.core.ask.approval import Approval
from toolbus.core.operation.operation import OnInput, Resumed
from toolbus.core.values.elicitation import QUESTION, Pending
from toolbus.core.values.records import Progress, TaskState, ToolResult


class TaskCalls(NamedTuple):
    """The calls about a task, made through the view that it was started in."""

    resume: Callable[..., Awaitable[ToolResult]]
    request: Callable[..., Awaitable[ToolResult]]


class TaskHandle:
    """A call that its server runs as a task; with `to_json`, another process can continue it."""

    def __init__(self, tasks: TaskCalls, initial: ToolResult) -> None:
        self._tasks = tasks
        self._initial = initial

    @property
    def id(self) -> str | None:
        """The server's id of the task; None if it returned the result at once."""
        return self._initial.pending.task if self._initial.pending else None

    @property
    def done(self) -> bool:
        """Whether the server returned the result at once, without a task."""
        return self._initial.pending is None

    async def status(self) -> TaskState:
        """The current state of the task."""
        if self._initial.pending is None:
            return TaskState(id="", status="completed", result=self._initial)
        result = await self._request("tasks/get", self._initial.pending)
        if not isinstance(result.value, TaskState):
            raise TypeError("a hook must return the result of `next` for tasks/get")
        return result.value

    async def result(
        self,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        on_input: OnInput = "ask",
    ) -> ToolResult:
        """Wait for the result; after a timeout the task continues, and you can wait again."""
        if self._initial.pending is None:
            return self._initial
        return await self._tasks.resume(
            self._initial.pending, timeout=timeout, on_progress=on_progress, on_input=on_input
        )

    async def cancel(self) -> None:
        """Ask the server to cancel the task; it may not be able to."""
        if self._initial.pending is not None:
            await self._request("tasks/cancel", self._initial.pending)

    def to_json(self) -> str:
        """The task as JSON, to be stored; ValueError if the server returned the result at once."""
        if self._initial.pending is None:
            raise ValueError("there is no task: the server returned the result at once")
        return self._initial.pending.to_json()

    async def _request(self, route: str, pending: Pending) -> ToolResult:
        if pending.task is None:
            raise ValueError("this call is not a task; use resume()")
        return await self._tasks.request(route, pending.server, pending.tool, {"task": pending.task})

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r})"


def is_begun(pending: Pending) -> bool:
    """Whether its server knows of a suspended call, which it does not before a person has approved it.

    If a step of a script waits for approval, the script has begun.
    """
    return pending.call is None or pending.script is not None


def given_approval(resumed: Resumed) -> Approval | None:
    """A person's answer to the approval question, given now or earlier."""
    pending = resumed.pending
    if pending.call is not None and not is_begun(pending):
        given = resumed.answers.get(QUESTION)
        if given is None:
            raise ValueError("the call waits for approval, but the question is missing")
        answer = (given.content or {}).get("answer", "no") if given.action == "accept" else False
        return Approval(call=pending.call, by="resumed", answer=answer, resumed=True)
    if pending.approved is not None:
        return Approval(call=pending.approved, by=pending.approved_by or "resumed")
    return None
