"""The way of a script: checked, run in a sandbox, suspended and resumed."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from toolbus.bus.catalog.tool_search import library_of
from toolbus.code.check import forgotten_awaits, judged
from toolbus.code.journal import JournalEntry
from toolbus.code.stubs import Library, Stub, joined, stub, value_types
from toolbus.config import BusConfig
from toolbus.core.ask.approval import ApprovalRequest
from toolbus.core.ask.interactions import Interactions, PeopleTime, routing_of
from toolbus.core.operation.operation import Caller, OnInput, Resumed
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.elicitation import Answer, Pending
from toolbus.core.values.errors import CallDenied, LoginRequired, ToolNotFound
from toolbus.core.values.records import JSON, JSONObject, Progress, ToolResult, ToolSpec
from toolbus.search.hit import SearchHit
from toolbus.state.seal import SharedSeal

if TYPE_CHECKING:
    from toolbus.code.run import ScriptRun
    from toolbus.code.sandbox import SandboxResult
    from toolbus.code.suspended import SuspendedScript
    from toolbus.config.settings.limits import CodeLimits

_UNDEFINED = re.compile(r"Name `(\w+)` used when not defined")
_MOST_LOOKUPS = 20


class ScriptView(Protocol):
    """The parts of a view that scripts use."""

    @property
    def config(self) -> BusConfig: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def caller(self) -> Caller: ...
    def search(self, queries: Sequence[str] | str, limit: int = 8) -> list[SearchHit]: ...
    async def call(
        self,
        name: str,
        arguments: Mapping[str, JSON] | None = None,
        *,
        on_input: OnInput = "ask",
        on_progress: Progress | None = None,
    ) -> ToolResult: ...
    async def resume(
        self,
        pending: Pending,
        answers: Mapping[str, Answer] | Answer | None = None,
        *,
        on_input: OnInput = "suspend",
        on_progress: Progress | None = None,
    ) -> ToolResult: ...


class ScriptCalls(Protocol):
    """The calls of a view, for its scripts."""

    async def find(self, name: str) -> ToolSpec: ...
    def approval_needed(self, spec: ToolSpec, arguments: Mapping[str, JSON]) -> ApprovalRequest | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """A script with its variables, and the form of its result."""

    text: str
    file: str = "script.py"
    """Its name in messages."""
    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    """Its global variables."""
    types: str = ""
    """The types of its variables as stubs; by default the types of their values."""
    tool: str = ""
    """The tool that it is, `server/tool`; empty for any other script."""
    output: JSONObject | None = None
    """The schema of what a tool returns."""
    people: PeopleTime | None = None
    """The time in which people are asked; its timeout excludes that."""

    @property
    def given(self) -> str:
        """The types of its variables, as stubs."""
        return self.types or value_types(self.inputs)


class ScriptJobs:
    """Checks and runs the scripts of one view."""

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
        self._shared = shared
        self._view, self._calls = view, calls
        self._interactions = interactions

    @property
    def limits(self) -> "CodeLimits":
        """The most that a script may use."""
        return self._view.config.code

    def library(self) -> Library:
        """The tools as functions, named once for each catalog."""
        return library_of(self._view.catalog.for_models)

    async def examine(self, job: ScriptJob) -> tuple[str | None, tuple[str, ...]]:
        """The reason why a script must fail, None without one; and notes of the type checker."""
        from toolbus.code.sandbox import ScriptError, ScriptSandbox

        if (problem := self._refused(job.text)) is not None:
            return problem, ()
        checked = await self._checked(job)
        while not checked.refusals and not checked.is_judged:
            async with ScriptSandbox(self.limits, job.file) as box:
                try:
                    await box.check(job.text, joined(checked.stubs.values(), job.given))
                    return None, ()
                except ScriptError as error:
                    if not await self._goes_on(checked, error):
                        head = _HEADS.get(error.kind, "the script is wrong")
                        return f"{head}:\n{self._text(checked, error)}", checked.findings.notes
        problem = f"{_HEADS['types']}:\n{checked.refusals}" if checked.refusals else None
        return problem, checked.findings.notes

    async def run(
        self, job: ScriptJob, *, timeout: float | None, on_input: OnInput, on_progress: Progress | None
    ) -> ToolResult:
        """Check a script and run it; the result says what ran, and is pending if a person has to be asked."""
        from toolbus.code.kept import variable_types
        from toolbus.code.outcome import failed
        from toolbus.code.run import ScriptRun
        from toolbus.code.sandbox import ScriptError, ScriptSandbox

        if (problem := self._refused(job.text)) is not None:
            return failed(problem, "", [], self.limits.output)
        checked = await self._checked(job)
        if checked.refusals:
            return failed(f"{_HEADS['types']}:\n{checked.refusals}", "", [], self.limits.output)
        tools = ViewTools(self._view, self._calls, self._interactions, on_input, on_progress)
        while True:
            async with ScriptSandbox(self.limits, job.file) as box:
                run = ScriptRun(box, job.text, checked.stubs, tools, self.limits.calls)
                run.tool, run.input = job.tool, variable_types(job.inputs)
                types = "" if checked.is_judged else joined(checked.stubs.values(), job.given)
                try:
                    async with _time_limit(timeout, job.people):
                        end = await run.drive(await box.start(job.text, types, job.inputs))
                    result = self._result(end, run, box, job)
                    await self._keep(job.text, checked.stubs, run, result)
                    return result
                except ScriptError as error:
                    if not await self._goes_on(checked, error):
                        return self._failed(error, box.printed, run.calls, checked)

    def tool_of(self, pending: Pending) -> str:
        """The tool that a suspended script is, `server/tool`; empty for any other script."""
        from toolbus.code.suspended import opened

        return opened(pending.script or "", self._view.caller.user, self._shared()).tool

    async def resume(
        self,
        job: ScriptJob,
        pending: Pending,
        answers: Mapping[str, Answer] | Answer | None,
        *,
        timeout: float | None,
        on_input: OnInput,
        on_progress: Progress | None,
    ) -> ToolResult:
        """Go on with a suspended script; it can be resumed once."""
        from toolbus.code.run import ScriptRun
        from toolbus.code.sandbox import ScriptError, ScriptSandbox
        from toolbus.code.suspended import opened

        saved = opened(pending.script or "", self._view.caller.user, self._shared())
        Resumed.of(saved.waiting, answers)  # ValueError if an answer is missing or invalid
        stubs = await self._resumed_stubs(saved.tools)
        tools = ViewTools(self._view, self._calls, self._interactions, on_input, on_progress)
        await saved.take(self._shared())
        async with ScriptSandbox(self.limits, job.file) as box:
            box.printed = saved.printed
            run = ScriptRun(box, saved.script, stubs, tools, self.limits.calls)
            run.tool, run.input = saved.tool, saved.input
            try:
                async with _time_limit(timeout, job.people):
                    turn = await box.load(saved.snapshot)
                    end = await run.continue_(saved, answers, turn)
                result = self._result(end, run, box, job)
                await self._keep(saved.script, stubs, run, result)
                return result
            except ScriptError as error:
                return self._failed(error, box.printed, run.calls)

    async def _keep(self, text: str, stubs: Mapping[str, Stub], run: "ScriptRun", result: ToolResult) -> None:
        """Keep a script that has called tools and ended well, for `toolbus script save`."""
        file, most = self._view.config.file, self.limits.keep
        if file is None or not most or run.tool or not run.calls or result.is_error or result.pending:
            return
        from toolbus.code.kept import KeptScript, KeptScripts

        caller = self._view.caller
        tools = {name: str(one.spec.origin) for name, one in stubs.items()}
        script = KeptScript.of(text, tools, run.input, caller.user, caller.face)
        await asyncio.to_thread(KeptScripts(file).add, script, most)

    # Results

    def _result(
        self, end: "SandboxResult | SuspendedScript", run: "ScriptRun", box: Any, job: ScriptJob
    ) -> ToolResult:
        from toolbus.code.outcome import finished, returned, suspended
        from toolbus.code.sandbox import SandboxResult

        if isinstance(end, SandboxResult) and run.tool:
            return returned(end.value, box.printed, job.output, self.limits.output)
        if isinstance(end, SandboxResult):
            return finished(end.value, box.printed, box.lost, run.calls, self.limits.output)
        return suspended(end.pending(self._view.caller.user, self._shared()), box.printed, run.calls)

    def _failed(
        self, error: Any, printed: str, calls: list[JournalEntry], checked: "_CheckedScript | None" = None
    ) -> ToolResult:
        from toolbus.code.outcome import failed

        head = _HEADS.get(error.kind, "the script failed")
        text = str(error) if checked is None else self._text(checked, error)
        return failed(f"{head}:\n{text}", printed, calls, self.limits.output)

    def _text(self, checked: "_CheckedScript", error: Any) -> str:
        """The error message for a failed script, with hints that may help to repair it."""
        is_refused = error.kind == "types"
        text = self._with_hints(checked.refusals, checked.lacking) if is_refused else str(error)
        return "\n".join(part for part in (text, checked.findings.as_notes) if part)

    async def _checked(self, job: ScriptJob) -> "_CheckedScript":
        """The script with the stubs of the tools that it names; a variable hides a tool of the same name."""
        found = await asyncio.to_thread(self.library().stubs, job.text)
        return _CheckedScript(job.text, {name: one for name, one in found.items() if name not in job.inputs})

    def _refused(self, script: str) -> str | None:
        if not isinstance(script, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # models may pass anything
            return f"the script must be a text, not {type(script).__name__}"
        if len(script) > self.limits.script:
            return f"the script has {len(script):,} characters, and may have {self.limits.script:,}"
        return None

    def _with_hints(self, text: str, lacking: Mapping[str, str]) -> str:
        """The messages of the type checker, with why a tool is lacking, or what an unknown name may mean."""
        library = self.library()
        by_tool = {tool: name for name, tool in library.names.items()}
        hints = list(dict.fromkeys(lacking.values()))
        for name in dict.fromkeys(_UNDEFINED.findall(text)):
            if name in lacking:
                continue
            close = [by_tool[hit.name] for hit in self._view.search([name], limit=3) if hit.name in by_tool]
            if close:
                hints.append(f"No tool is named {name}; near it: {', '.join(close)}.")
        return "\n".join([text, *hints[:_MOST_LOOKUPS]])

    # Tools

    async def _goes_on(self, checked: "_CheckedScript", error: Any) -> bool:
        """Whether a script may run although its types are not right, or with the stubs of more tools."""
        if error.kind != "types":
            return False
        if not checked.has_looked:
            checked.has_looked = True
            if more := await self._missing(str(error), checked.lacking):
                checked.stubs |= more
                return True
        checked.judge(str(error))
        return checked.is_judged

    async def _missing(self, text: str, lacking: dict[str, str]) -> dict[str, Stub]:
        """Stubs of tools that are not in the catalog: of servers that start on demand, or denied.

        Adds to `lacking` why others cannot be called: their server is down, or they are held.
        """
        found: dict[str, Stub] = {}
        for name in list(dict.fromkeys(_UNDEFINED.findall(text)))[:_MOST_LOOKUPS]:
            try:
                found[name] = await asyncio.to_thread(stub, name, await self._found(name))
            except ToolNotFound as error:
                if error.likely:
                    lacking[name] = error.public
            except (CallDenied, LoginRequired) as error:
                lacking[name] = error.public
        return found

    async def _found(self, name: str) -> ToolSpec:
        spec = await self._calls.find(name)
        if spec.is_app_only:
            raise ToolNotFound(name, ())
        return spec

    async def _resumed_stubs(self, tools: Mapping[str, str]) -> dict[str, Stub]:
        found: dict[str, Stub] = {}
        for name, origin in tools.items():
            try:
                found[name] = await asyncio.to_thread(stub, name, await self._found(origin))
            except (ToolNotFound, CallDenied, LoginRequired):
                continue
        return found


jobs_of: Callable[[object], ScriptJobs] = attrgetter("scripts._jobs")
"""The scripts of a view, for the parts of toolbus that run tools."""


class _CheckedScript:
    """A script on its way through the check."""

    def __init__(self, script: str, stubs: dict[str, Stub]) -> None:
        self._script = script
        self.stubs = stubs
        self.findings = forgotten_awaits(script, stubs)
        self.lacking: dict[str, str] = {}
        """The reasons why tools that the script names cannot be called."""
        self.has_looked = False
        """Whether tools were looked for that are not in the catalog."""
        self.is_judged = False
        """Whether all that the type checker says are notes."""

    @property
    def refusals(self) -> str:
        """The reasons not to run it; empty if there are none."""
        return "\n".join(self.findings.refusals)

    def judge(self, diagnostics: str) -> None:
        """Take what the type checker says."""
        self.findings = judged(self._script, diagnostics, self.stubs)
        self.is_judged = not self.findings.refusals


class ViewTools:
    """The calls of a script, made through its view."""

    def __init__(
        self,
        view: ScriptView,
        calls: ScriptCalls,
        interactions: Interactions,
        on_input: OnInput,
        on_progress: Progress | None,
    ) -> None:
        self._view, self._calls = view, calls
        self._interactions = interactions
        self._on_input: OnInput = on_input
        self._on_progress = on_progress

    async def call(self, spec: ToolSpec, arguments: Mapping[str, JSON], /) -> ToolResult:
        """Call a tool."""
        return await self._view.call(
            str(spec.origin), arguments, on_input=self._how(spec, arguments), on_progress=self._on_progress
        )

    def _how(self, spec: ToolSpec, arguments: Mapping[str, JSON]) -> OnInput:
        """Whether a person is asked during the call; without a handler, the script waits for the answer."""
        handlers, session = self._interactions, self._view.caller.session
        reaches = routing_of(handlers).reaches
        is_reached = reaches is None or reaches(session)
        if self._on_input == "suspend" or not is_reached:
            return "suspend"
        if handlers.approve is None and self._calls.approval_needed(spec, arguments) is not None:
            return "suspend"
        return "suspend" if handlers.elicit is None and handlers.approve is None else "ask"

    async def resume(self, pending: Pending, answers: Mapping[str, Answer] | Answer | None, /) -> ToolResult:
        """Go on with a call that a person was asked about."""
        on_input: OnInput = "suspend" if self._interactions.elicit is None else self._on_input
        return await self._view.resume(pending, answers, on_input=on_input, on_progress=self._on_progress)


@asynccontextmanager
async def _time_limit(seconds: float | None, people: PeopleTime | None = None) -> AsyncGenerator[None]:
    """Raise `ScriptError` after this time, without the time in which a person was asked."""
    from toolbus.code.sandbox import ScriptError

    loop = asyncio.get_running_loop()
    began, asked = loop.time(), 0.0 if people is None else people.seconds

    def check() -> None:
        waited = 0.0 if people is None else people.seconds - asked
        now = loop.time()
        if (left := began + (seconds or 0.0) + waited - now) > 0:
            timers.append(loop.call_later(left, check))
        else:
            limit.reschedule(now)

    timers: list[asyncio.TimerHandle] = []
    try:
        async with asyncio.timeout(None) as limit:
            if seconds is not None:
                timers.append(loop.call_later(seconds, check))
            yield
    except TimeoutError:
        raise ScriptError("limit", f"the script took longer than {seconds:g} s") from None
    finally:
        for timer in timers:
            timer.cancel()


_HEADS = {
    "types": "the script was not run, because it would fail",
    "syntax": "the script was not run, because it is not valid Python",
    "limit": "the script was stopped",
    "sandbox": "the script was stopped",
}
