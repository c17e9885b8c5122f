"""A tool for an agent: its name, its parameters, and a way to run it."""

import logging
from collections.abc import Coroutine, Mapping
from copy import deepcopy
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, cast

from toolbus.core.ask.approval import Approval
from toolbus.core.text.display import signature
from toolbus.core.text.text import cleaned
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, Origin, Progress, ToolResult, ToolSpec
from toolbus.schema.node import declared
from toolbus.shape.budget import fitted

if TYPE_CHECKING:  # only some programs ask for definitions
    from toolbus.shape import Dialect

logger = logging.getLogger("toolbus")

_MOST_LOSSES = 10
MAX_ERROR = 10_000
"""Characters of an error for a model."""


class Runner(Protocol):
    """Runs tools: the calls of a view."""

    async def run(
        self,
        spec: ToolSpec,
        arguments: Mapping[str, JSON],
        on_progress: Progress | None = None,
        *,
        keep: bool = True,
        approval: Approval | None = None,
        face: str = "",
        run: str = "",
    ) -> ToolResult: ...

    def warn(self, server: str, tool: str | None, message: str) -> None: ...

    def wait(self, work: Coroutine[Any, Any, ToolResult]) -> ToolResult: ...


class ToolView(Protocol):
    """The view that a tool belongs to."""

    @property
    def _calls(self) -> Runner: ...


class Tool:
    """A `ToolSpec` bound to the bus. It keeps working after its server reconnects."""

    __slots__ = ("_calls", "_can_read_more", "_view", "description", "name", "parameters", "spec")

    def __init__(self, spec: ToolSpec, view: ToolView, *, can_read_more: bool = True) -> None:
        self.spec = spec
        self._can_read_more = can_read_more
        """Whether a cut result names the rest for `read_result`, which the model then must have."""
        self._view = view
        self._calls: Runner = attrgetter("_calls")(view)
        # Plain attributes, because protocols of frameworks require them.
        self.name: str = spec.name
        """The public name."""
        self.description: str = spec.description
        """The description of the tool, for the model."""
        self.parameters: dict[str, JSON] = cast(dict[str, JSON], spec.input_schema)
        """The arguments, as JSON Schema; do not change it."""

    @property
    def origin(self) -> Origin:
        """The server, and its own name of the tool."""
        return self.spec.origin

    @property
    def server(self) -> str:
        """The alias of the server."""
        return self.spec.origin.server

    def definition(self, dialect: "Dialect") -> dict[str, JSON]:
        """A copy of the tool in a provider's format; a warning event lists lost constraints."""
        from toolbus.shape import converted

        found = converted(self.spec, dialect)
        if found.grade == "permissive":
            lost = [f"{loss.path}: {loss.what}" for loss in found.losses if loss.kind == "permissive"]
            more = f"; and {len(lost) - _MOST_LOSSES:,} more" if len(lost) > _MOST_LOSSES else ""
            message = f"{dialect} cannot express all of its schema: {'; '.join(lost[:_MOST_LOSSES])}{more}"
            self._calls.warn(self.server, self.origin.tool, message)
        return deepcopy(found.value)

    # Positional-only, so that a tool may have an argument called "self".
    async def execute(self, /, **arguments: JSON) -> ToolResult:
        """Run the tool. Never raises: a failure is a result with `is_error`, for the model to read.

        ```python
        tool = bus.tools()[0]
        print((await tool.execute(text="buy tea")).text)  # kept as note 1
        print((await tool.execute(txt="buy tea")).is_error)  # True
        ```
        """
        return await self.run(arguments)

    async def run(
        self,
        arguments: Mapping[str, JSON],
        *,
        on_progress: Progress | None = None,
        approval: Approval | None = None,
        face: str = "",
        run: str = "",
    ) -> ToolResult:
        """As `execute`, with the arguments as one mapping; `on_progress` receives progress.

        `approval` is a person's approval of exactly this call; `face` and `run` tell who calls.
        """
        made: dict[str, Any] = {"approval": approval, "face": face, "run": run}
        try:
            return await self._calls.run(self.spec, arguments, on_progress, keep=self._can_read_more, **made)
        except ToolbusError as error:
            return self._failure(str(error), sent=error.sent)
        except Exception as error:  # from a user's hook: `execute` never raises
            logger.exception("calling %r raised", self.name)
            return self._failure(f"{type(error).__name__}: {error}")

    def execute_sync(self, /, **arguments: JSON) -> ToolResult:
        """As `execute`, from a thread without a loop; RuntimeError if it would never return."""
        return self.run_sync(arguments)

    def run_sync(self, arguments: Mapping[str, JSON], *, approval: Approval | None = None) -> ToolResult:
        """As `run`, from a thread without a loop; RuntimeError if it would never return."""
        try:
            return self._calls.wait(self.run(arguments, approval=approval))
        except ToolbusError as error:
            return self._failure(str(error), sent=error.sent)

    def _failure(self, message: str, *, sent: bool = True) -> ToolResult:
        return ToolResult.failure(failure_text(message), self.name, sent=sent)

    def __deepcopy__(self, memo: object) -> "Tool":
        return self  # bound to a live bus, which has no copy; frameworks copy their tools

    def __repr__(self) -> str:
        return f"<Tool {signature(self.name, *declared(self.spec.input_schema))}>"


def failure_text(message: str) -> str:
    """The message of an error for a model; it may quote the server."""
    return fitted(cleaned(message), MAX_ERROR, None)
