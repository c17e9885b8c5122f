"""Scripts that call the tools of a view: checked, run in a sandbox, suspended and resumed."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, cast

from toolbus.bus.script_jobs import ScriptCalls, ScriptJob, ScriptJobs, ScriptView
from toolbus.code.stubs import Library, joined
from toolbus.core.ask.interactions import Interactions
from toolbus.core.operation.operation import OnInput
from toolbus.core.values.elicitation import Answer, Pending
from toolbus.core.values.records import JSON, Progress, ToolResult
from toolbus.state.seal import SharedSeal

if TYPE_CHECKING:
    from toolbus.config.settings.limits import CodeLimits


class Scripts:
    """The scripts of one view."""

    def __init__(
        self,
        view: ScriptView,
        calls: ScriptCalls,
        interactions: Interactions,
        shared: Callable[[], SharedSeal | None],
    ) -> None:
        """`interactions` are the handlers that can ask a person during a call.

        `shared` returns what seals suspended scripts, if other processes are to resume them.
        """
        self._parts = view, calls, interactions, shared

    @cached_property
    def _jobs(self) -> ScriptJobs:
        """Made when they are needed: each client of a gateway has a view, and few of them run scripts."""
        return ScriptJobs(*self._parts)

    @property
    def limits(self) -> "CodeLimits":
        """The most that a script may use."""
        return self._jobs.limits

    def library(self) -> Library:
        """The tools as functions, named once for each catalog."""
        return self._jobs.library()

    def stubs(self, script: str | None = None) -> str:
        """The stubs of the tools that a script names, or of all."""
        library = self.library()
        names = library.names if script is None else library.mentioned(script)
        return joined(map(library.stub, names))

    async def check(self, script: str, inputs: Mapping[str, JSON] | None = None) -> str | None:
        """Check a script without running it; None if it has no errors, otherwise a description of them."""
        return (await self.examine(script, inputs))[0]

    async def examine(
        self, script: str, inputs: Mapping[str, JSON] | None = None
    ) -> tuple[str | None, tuple[str, ...]]:
        """As `check`, and what else the type checker notes, which may work."""
        return await self._jobs.examine(ScriptJob(text=script, inputs=inputs or {}))

    async def run(
        self,
        script: str,
        inputs: Mapping[str, JSON] | None = None,
        *,
        timeout: float | None = None,
        on_input: OnInput = "ask",
        on_progress: Progress | None = None,
    ) -> ToolResult:
        """Check a script and run it; the result says what ran, and is pending if a person has to be asked.

        `inputs` are its global variables. `timeout` is for all of it, the waiting for tools included.
        """
        job = ScriptJob(text=script, inputs=dict(inputs or {}))
        return await self._jobs.run(job, timeout=timeout, on_input=on_input, on_progress=on_progress)

    async def run_for_model(
        self, arguments: Mapping[str, JSON], on_input: OnInput, on_progress: Progress | None
    ) -> ToolResult:
        """Answer a call of `run_code`."""
        script = arguments.get("script")
        return await self.run(cast("str", script), on_input=on_input, on_progress=on_progress)

    async def resume(
        self,
        pending: Pending,
        answers: Mapping[str, Answer] | Answer | None,
        *,
        timeout: float | None = None,
        on_input: OnInput,
        on_progress: Progress | None = None,
    ) -> ToolResult:
        """Go on with a suspended script; it can be resumed once."""
        job = ScriptJob(text="")
        return await self._jobs.resume(
            job, pending, answers, timeout=timeout, on_input=on_input, on_progress=on_progress
        )
