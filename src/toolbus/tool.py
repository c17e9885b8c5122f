"""A tool as an agent takes it: what it is called, what it wants, and a way to run it."""

import logging
from copy import deepcopy
from typing import Protocol

from toolbus.errors import ToolbusError
from toolbus.records import JSON, JSONObject, Origin, ToolResult, ToolSpec
from toolbus.shape import Dialect, converted, original_arguments

logger = logging.getLogger("toolbus")


class Runner(Protocol):
    """Whoever runs a tool for its `Tool`: a bus."""

    async def run(self, spec: ToolSpec, arguments: dict[str, JSON]) -> ToolResult: ...

    def warn(self, server: str, tool: str | None, message: str) -> None: ...


class Tool:
    """A `ToolSpec` bound to the bus. It keeps working when its server comes back after a loss."""

    __slots__ = ("_runner", "spec")

    def __init__(self, spec: ToolSpec, runner: Runner) -> None:
        self.spec = spec
        self._runner = runner

    @property
    def name(self) -> str:
        """The public name."""
        return self.spec.name

    @property
    def description(self) -> str:
        """What the tool does, for the model."""
        return self.spec.description

    @property
    def parameters(self) -> JSONObject:
        """The arguments, as JSON Schema."""
        return self.spec.input_schema

    @property
    def origin(self) -> Origin:
        """Server and the server's own name of the tool."""
        return self.spec.origin

    @property
    def server(self) -> str:
        """The alias of the server."""
        return self.spec.origin.server

    def definition(self, dialect: Dialect) -> dict[str, JSON]:
        """The tool as a provider takes it, yours to change; what cannot be said there is a warning event."""
        found = converted(self.spec, dialect)
        if found.grade == "permissive":
            lost = [f"{loss.path}: {loss.what}" for loss in found.losses if loss.kind == "permissive"]
            message = f"{dialect} cannot say all of its schema: {'; '.join(lost)}"
            self._runner.warn(self.server, self.origin.tool, message)
        return deepcopy(found.value)

    # Positional-only, so that a tool may have an argument called "self".
    async def execute(self, /, **arguments: JSON) -> ToolResult:
        """Run the tool. Never raises: what goes wrong is a result with `is_error`, for the model to read."""
        for definition in self.spec.definitions.values():
            # A provider that refuses the name of an argument knows it under another one.
            if definition.renamed or definition.renamed_within:
                arguments = original_arguments(definition, arguments)
        try:
            return await self._runner.run(self.spec, arguments)
        except ToolbusError as error:
            return ToolResult.failure(str(error))
        except Exception as error:  # a hook of the user: `execute` never raises, whatever happens
            logger.exception("calling %r raised", self.name)
            return ToolResult.failure(f"{type(error).__name__}: {error}")

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, from {self.origin!s})"
