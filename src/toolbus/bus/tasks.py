"""Calls that end later: suspended until they are answered, or run by the server as a task."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, get_args

from toolbus.core.ask.approval import Approval
from toolbus.core.operation.operation import OnInput, Resumed
from toolbus.core.values.elicitation import QUESTION, Answer, Pending
from toolbus.core.values.records import JSON, Progress, TaskState, ToolResult, ToolSpec


class RequestRunner(Protocol):
    """Runs an operation other than a tool call; raises if it fails."""

    def __call__(
        self, route: str, server: str, name: str, arguments: Mapping[str, JSON], /
    ) -> Awaitable[ToolResult]: ...


class ViewTasks:
    """Suspended calls and tasks."""

    def __init__(
        self,
        find: Callable[[str], Awaitable[ToolSpec]],
        run: Callable[..., Awaitable[ToolResult]],
        request: RequestRunner,
        resume_script: Callable[..., Awaitable[ToolResult]],
    ) -> None:
        """`run` takes a spec and the fields of an operation."""
        self._find = find
        self._run = run
        self._request = request
        self._resume_script = resume_script

    async def resume(
        self,
        pending: Pending,
        answers: Mapping[str, Answer] | Answer | None,
        *,
        timeout: float | None,
        on_progress: Progress | None,
        on_input: OnInput,
    ) -> ToolResult:
        check_call(on_input, timeout=timeout)
        if pending.script is not None:
            return await self._resume_script(
                pending, answers, timeout=timeout, on_input=on_input, on_progress=on_progress
            )
        resumed = Resumed.of(pending, answers)
        return await self._run(
            await self._find(f"{pending.server}/{pending.tool}"),
            arguments=pending.arguments,
            timeout=timeout,
            on_progress=on_progress,
            on_input=on_input,
            # Of a call that was not approved yet, the server knows nothing.
            resumed=resumed if pending.call is None else None,
            approval=given_approval(resumed),
        )

    async def submit(self, name: str, arguments: Mapping[str, JSON] | None) -> "TaskHandle":
        given: Mapping[str, JSON] = {} if arguments is None else arguments
        return TaskHandle(self, await self._run(await self._find(name), arguments=given, detached=True))

    def load(self, stored: str) -> "TaskHandle":
        return TaskHandle(self, ToolResult.from_pending(Pending.from_json(stored)))

    async def state(self, pending: Pending) -> TaskState:
        task = _task(pending)
        result = await self._request("tasks/get", pending.server, pending.tool, {"task": task})
        if not isinstance(result.value, TaskState):
            raise TypeError("a hook must return the result of `next` for tasks/get")
        return result.value

    async def cancel(self, pending: Pending) -> None:
        await self._request("tasks/cancel", pending.server, pending.tool, {"task": _task(pending)})


class TaskHandle:
    """A call that its server runs as a task; with `to_json`, another process can continue it."""

    def __init__(self, tasks: "ViewTasks", initial: ToolResult) -> None:
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
        return await self._tasks.state(self._initial.pending)

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
            self._initial.pending, None, timeout=timeout, on_progress=on_progress, on_input=on_input
        )

    async def cancel(self) -> None:
        """Ask the server to cancel the task; it may not be able to."""
        if self._initial.pending is not None:
            await self._tasks.cancel(self._initial.pending)

    def to_json(self) -> str:
        """The task as JSON, to be stored; ValueError if the server returned the result at once."""
        if self._initial.pending is None:
            raise ValueError("there is no task: the server returned the result at once")
        return self._initial.pending.to_json()

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r})"


def given_approval(resumed: Resumed) -> Approval | None:
    """What a person answered to the question whether the call is approved, now or before."""
    pending = resumed.pending
    if pending.call is not None:
        given = resumed.answers.get(QUESTION)
        if given is None:
            raise ValueError("the call waits for approval, but the question is missing")
        answer = (given.content or {}).get("answer", "no") if given.action == "accept" else False
        return Approval(call=pending.call, by="resumed", answer=answer, resumed=True)
    if pending.approved is not None:
        return Approval(call=pending.approved, by=pending.approved_by or "resumed")
    return None


def _task(pending: Pending) -> str:
    if pending.task is None:
        raise ValueError("this call is not a task; use resume()")
    return pending.task


ON_INPUT: tuple[str, ...] = get_args(OnInput)


def check_call(on_input: OnInput, *, recover: float | None = None, **seconds: float | None) -> None:
    """ValueError if `on_input` or a number of seconds is invalid."""
    if recover is not None and not recover >= 0:
        raise ValueError(f"recover must be 0 seconds or more, not {recover!r}")
    if on_input not in ON_INPUT:
        raise ValueError(f"on_input must be one of {', '.join(ON_INPUT)}, not {on_input!r}")
    for name, value in seconds.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be more than 0 seconds, not {value!r}")
