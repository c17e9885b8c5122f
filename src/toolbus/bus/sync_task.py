"""A call that ends later, without a loop."""

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from toolbus.bus.tasks import TaskHandle
from toolbus.call import OnInput, Progress
from toolbus.core.values.records import TaskState, ToolResult

T = TypeVar("T")


class SyncRunner(Protocol):
    """Waits for work of a bus: a synchronous view."""

    def run(self, work: Coroutine[Any, Any, T], /) -> T: ...


class SyncTask:
    """A synchronous `TaskHandle`."""

    def __init__(self, bus: SyncRunner, task: TaskHandle) -> None:
        self._bus = bus
        self.task = task

    @property
    def id(self) -> str | None:
        """The server's id of the task; None if it returned the result at once."""
        return self.task.id

    @property
    def done(self) -> bool:
        """Whether the server returned the result at once, without a task."""
        return self.task.done

    def status(self) -> TaskState:
        """The current state of the task."""
        return self._bus.run(self.task.status())

    def result(
        self,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        on_input: OnInput = "ask",
    ) -> ToolResult:
        """As `TaskHandle.result`."""
        return self._bus.run(self.task.result(timeout=timeout, on_progress=on_progress, on_input=on_input))

    def cancel(self) -> None:
        """Ask the server to cancel the task; it may not be able to."""
        self._bus.run(self.task.cancel())

    def to_json(self) -> str:
        """As `TaskHandle.to_json`."""
        return self.task.to_json()
