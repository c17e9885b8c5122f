"""The calls of one user, or of one session, whose events reach no one else."""

from collections.abc import Callable

from toolbus.core.operation.events import Emit
from toolbus.core.operation.operation import Failure, Operation
from toolbus.core.values.records import ToolResult


class UserCalls:
    """Observes the calls of one user or session."""

    def __init__(self, owners: dict[int, Emit], used: Callable[[], None]) -> None:
        """`owners` has the calls of all users and sessions, by id."""
        self._owners = owners
        self._used = used
        self.emit: Emit = lambda event: None
        self.in_flight = 0

    def start(self, operation: Operation, /) -> "_UserCall":
        """Register a call; its links may be shared."""
        self._used()
        self.in_flight += 1
        self._owners[operation.id] = self.emit
        return _UserCall(self, operation.id)

    def end(self, call: int) -> None:
        """Forget a call."""
        self.in_flight -= 1
        self._owners.pop(call, None)


class _UserCall:
    ignores_progress = True

    def __init__(self, calls: UserCalls, id_: int) -> None:
        self._calls = calls
        self._id = id_

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        pass

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        self._calls.end(self._id)
