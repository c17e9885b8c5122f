"""The journal of a durable run: every operation that is made for it passes it first."""

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

from toolbus.core.operation.operation import Operation
from toolbus.core.values.records import ToolResult

Make: TypeAlias = Callable[[Operation], Coroutine[Any, Any, ToolResult]]
"""Makes an operation: takes it through observers, hooks, guards and its route."""


class Journal(Protocol):
    """Records operations before they are made and when they are done."""

    async def run(self, operation: Operation, make: Make, /) -> ToolResult:
        """Make an operation and record it, or return the recorded result if it was made before."""
        ...


JOURNAL: ContextVar[Journal | None] = ContextVar("toolbus_journal", default=None)
"""The journal of the tool call in whose context an operation is made; None outside of durable runs."""
