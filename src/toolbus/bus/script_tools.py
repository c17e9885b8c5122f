"""Scripts of a config as tools: the requests of their server, whose calls the bus makes itself.

The steps of a script are calls for the same caller. They take the path of every operation, and name the call
of the tool as their cause. The owner of the script decides which tools they may call.
"""

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from toolbus.bus.engine.tenant import Tenant
from toolbus.bus.rules.scope import Scope
from toolbus.bus.script_jobs import ScriptJob, jobs_of
from toolbus.bus.view import View
from toolbus.core.operation.operation import Operation
from toolbus.core.values.records import JSONObject, Text, ToolResult
from toolbus.policy.layers import layers_of

if TYPE_CHECKING:
    from toolbus.config.script_tools.files import ScriptCode

DEEPEST = 5
"""The most scripts that may run one in another."""


class ScriptRunner:
    """Runs the scripts that are tools of one bus."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[str, ...]] = {}
        """The names of the scripts in which each call runs, its own last, by the id of the call."""

    async def __call__(self, operation: Operation, code: "ScriptCode") -> ToolResult:
        """Run a script, or go on with it if it was suspended."""
        outer = self._running.get(operation.during or 0, ())
        chain = (*outer, code.name)
        if len(chain) > DEEPEST:
            problem = f"{' > '.join(chain)}: scripts may call each other {DEEPEST} deep"
            return ToolResult.failure(problem, code.name, sent=False)
        self._running[operation.id] = chain
        try:
            return _shown(operation, await self._run(operation, code))
        finally:
            del self._running[operation.id]

    async def _run(self, operation: Operation, code: "ScriptCode") -> ToolResult:
        job = replace(
            _job(code, operation.arguments), tool=str(operation.spec.origin), people=operation.people
        )
        jobs = jobs_of(_steps(operation, code))
        timeout = code.entry.timeout if operation.timeout is None else operation.timeout
        on_input, on_progress = operation.on_input, operation.on_progress
        if (resumed := operation.resumed) is None:
            return await jobs.run(job, timeout=timeout, on_input=on_input, on_progress=on_progress)
        return await jobs.resume(
            job,
            resumed.pending,
            resumed.answers,
            timeout=timeout,
            on_input=on_input,
            on_progress=on_progress,
        )


async def examine(bus: Tenant, code: "ScriptCode") -> tuple[str | None, tuple[str, ...]]:
    """The reason why a script must fail as a tool of this bus, None without one; and notes."""
    scope = Scope(during=0, uses=code.entry.uses)
    return await jobs_of(View(bus, scope)).examine(_job(code, {}))


def _job(code: "ScriptCode", arguments: JSONObject) -> ScriptJob:
    """The script with its arguments."""
    from toolbus.code.stubs import argument_types, argument_values

    schema = code.entry.input_schema
    return ScriptJob(
        text=code.text,
        file=PurePath(code.entry.script).name,
        inputs=argument_values(schema, arguments),
        types=argument_types(schema),
        output=code.entry.output_schema,
    )


def _steps(operation: Operation, code: "ScriptCode") -> View:
    """The view of the steps of a script: for the same caller, and within the same policies."""
    policies, uses = layers_of(operation.policies), code.entry.uses
    scope = Scope(caller=operation.caller, policies=policies, during=operation.id, uses=uses)
    return View(cast("Tenant", operation.tenant), scope)


def _shown(operation: Operation, result: ToolResult) -> ToolResult:
    """The result for a caller; an error if a question waits that a client cannot show."""
    if result.is_error:
        return replace(result, structured=None)  # it would have to fit the output schema
    if result.pending is None or operation.forwarding is None or operation.on_input == "suspend":
        return result
    problem = f"the script was stopped: {result.pending}; this client cannot show the question"
    return replace(result, content=(Text(text=problem),), is_error=True, pending=None)
