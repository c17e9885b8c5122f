"""One execution of a durable run: the agent's loop with a journal, from the beginning or replayed."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from pydantic import TypeAdapter
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.exceptions import (
    AgentRunError,
    FallbackExceptionGroup,
    ModelRetry,
    ToolFailed,
    UsageLimitExceeded,
)
from pydantic_ai.messages import ModelResponse, ToolReturn, UserContent
from pydantic_ai.models import Model
from pydantic_ai.toolsets import ToolsetTool
from pydantic_core import to_jsonable_python

from toolbus.adapters.approval import (
    ApprovalRule,
    Approver,
    approval_request,
    decided,
    denial,
    denial_text,
    is_allowed,
    request_of_call,
    tool_digest,
)
from toolbus.adapters.pydantic_ai import BusTool
from toolbus.agent.durable.execution.codec import read_result, result_json
from toolbus.agent.durable.execution.journal import ModelCall, RunJournal, is_safe_to_repeat
from toolbus.agent.durable.execution.model import JournaledModel, Output, read_messages
from toolbus.agent.durable.execution.steps import TEXT, Clock, HeldTools, Steps, short
from toolbus.agent.durable.questions import LATE, answer_allows, approval_question
from toolbus.agent.models import model_error
from toolbus.agent.run import LimitReached, Limits, limit_error, usage_limits
from toolbus.agent.tools import RunTools, Toolbox, by_name_only, tool_search
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.inner import calls_of, view_of
from toolbus.core.ask.approval import Approval, ApprovalRequest
from toolbus.core.operation.run_errors import RunDiverged
from toolbus.core.values.elicitation import Pending
from toolbus.core.values.records import JSON, ToolResult, marks_read_only

Elsewhere: TypeAlias = Callable[[Sequence[str]], Awaitable[Exception | None]]
"""The reason to move a run that calls these tools; None if no other worker is better suited."""
PROMPT: TypeAdapter[str | list[UserContent] | None] = TypeAdapter(str | list[UserContent] | None)
"""The message that a run begins with."""
_CHECKERS = 5
"""The maximum number of tools to check with that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer:
    """The parts that execute the runs of an agent."""

    model: Model
    agent: PydanticAgent[Any, str]
    toolbox: Toolbox
    approve: ApprovalRule[Approver]
    limits: Limits
    start_servers: Callable[[], Awaitable[None]]
    instructions: Callable[[], Awaitable[str]]


class Execution:
    """One execution of one run; the callbacks of its tools."""

    def __init__(
        self,
        performer: Performer,
        run: str,
        steps: Steps,
        elsewhere: Elsewhere,
        answer_within: float | None = None,
    ) -> None:
        """`answer_within` seconds a person has to answer; None for any time."""
        self.id = run
        """The `run` of the caller of its calls."""
        self._performer = performer
        self._steps = steps
        self._elsewhere = elsewhere
        self._held = HeldTools()
        self._clock = Clock()
        self._journal = RunJournal(run, steps, self._held, self._clock, self._checkers, answer_within)
        self._calls = 0
        self._seconds: dict[str, float] = {}

    async def perform(self, request: Mapping[str, Any]) -> dict[str, JSON]:
        own, limits = self._performer, self._performer.limits
        await own.start_servers()
        await self._begin()
        tools = own.toolbox.for_run(self)
        output = Output.of(request)
        check = partial(self._check, tools)
        model = JournaledModel(own.model, self._journal, tools.servers, self._seconds, check)
        try:
            with own.agent.parallel_tool_call_execution_mode("parallel_ordered_events"):
                async with self._clock.limit(limits.seconds):
                    result = await own.agent.run(
                        PROMPT.validate_python(request["prompt"]),
                        output_type=output.type,
                        message_history=read_messages(request["history"]),
                        model=model,
                        instructions=await own.instructions() or None,
                        usage_limits=usage_limits(limits),
                        toolsets=[tools],
                        capabilities=tool_search(own.toolbox.buses, own.model),
                        deps=self,
                    )
        except UsageLimitExceeded as error:
            raise limit_error(str(error), limits) from error
        except (AgentRunError, FallbackExceptionGroup) as error:
            raise model_error(own.model, error) from error
        usage = result.usage
        return {
            **output.stored(result.output),
            "requests": usage.requests,
            "calls": usage.tool_calls,
            "tokens": usage.total_tokens,
        }

    async def _check(self, tools: RunTools, response: ModelResponse, known: Set[str]) -> None:
        """Leave the run to another worker if that has the tools of a response, and this one lacks them."""
        missing = tools.lacking(response.tool_calls, known)
        if not missing:
            return
        problem = await self._elsewhere(missing)
        if problem is None and self._journal.has_made(response.tool_calls):
            problem = RunDiverged(self.id, missing)
        if problem is not None:
            raise self._steps.abort(problem)

    async def _begin(self) -> None:
        """Start with the tools that the run was offered, and with what earlier executions recorded."""
        is_first = False

        async def offered() -> dict[str, JSON]:
            nonlocal is_first
            is_first = True
            return self._offered()

        self._held.begin(await self._steps.run("offer", offered))
        if not is_first:
            await self._journal.replay()

    def _offered(self) -> dict[str, JSON]:
        """The definitions of all tools, to notice changes."""
        found: dict[str, JSON] = {}
        for view in self._performer.toolbox.all_buses:
            for spec in view.catalog:
                if (digest := calls_of(view).definition_digest(spec)) is not None:
                    found[str(spec.origin)] = short(digest)
        return found

    def _checkers(self, tool: str) -> Sequence[str]:
        """Tools that only read, of the same server; for a function, those that may be repeated."""
        server, is_mcp, _ = tool.partition("/")
        toolbox = self._performer.toolbox
        if not is_mcp:
            return sorted(toolbox.repeatable - {tool})[:_CHECKERS]
        found = (spec for view in toolbox.all_buses for spec in view.catalog if spec.origin.server == server)
        return [spec.name for spec in found if marks_read_only(spec.annotations)][:_CHECKERS]

    # Callbacks of the tools

    async def approval(
        self, call: str, name: str, arguments: Mapping[str, JSON], tool: Tool | None
    ) -> Approval | str | None:
        """The approval of a call, or why it is denied; None if nobody has to be asked here.

        A rule of the policy asks when the call is made, and suspends it.
        """
        self._calls += 1
        allowed = self._performer.limits.tool_calls
        if allowed is not None and self._calls > allowed:
            raise LimitReached("tool_calls", allowed)
        if self._performer.approve == "never":
            return None

        with self._journal.call(call):
            return await self._approval(call, name, arguments, tool)

    async def _approval(
        self, call: str, name: str, arguments: Mapping[str, JSON], tool: Tool | None
    ) -> Approval | str | None:
        is_recorded = self._steps.upcoming == "approval"
        decision = (
            {} if is_recorded or self._steps.upcoming else await self._decide(call, name, arguments, tool)
        )
        if not decision and not is_recorded:
            return None  # which is not recorded: the record of the call is the next one

        async def decided_before() -> dict[str, JSON]:
            return {**decision, "about": name}

        decision = await self._steps.run("approval", decided_before)
        if "approved" in decision:
            return Approval(call=decision["approved"], by="function", answer=decision["answer"])
        if "ask" in decision:
            answers = await self._journal.ask(Pending.from_json(decision["ask"]))
            if answer_allows(answers):
                return None
            return denial_text("nobody answered in time" if LATE in answers.values() else False)
        return decision.get("denied")

    async def _decide(
        self, call: str, name: str, arguments: Mapping[str, JSON], tool: Tool | None
    ) -> dict[str, JSON]:
        """Ask the function of the user, or decide whether a person has to be asked."""
        rule = self._performer.approve
        question = None if tool is None else approval_request(tool, arguments, run=self.id)
        if question is not None:
            if not callable(rule):
                return {}  # the guard of the bus suspends the call
            answer = await decided(rule, replace(question, id=call, name=name))
            return {"approved": question.call, "answer": answer}
        if rule == "writes" and tool is not None and is_allowed(tool, arguments):
            return {}
        request = request_of_call(call, name, arguments, tool)
        asked: list[ApprovalRequest] = []

        def note(request: ApprovalRequest) -> bool:
            asked.append(request)
            return True

        denied = await denial(request, rule, note)
        return {"ask": approval_question(request).to_json()} if asked else {"denied": denied}

    async def make(
        self,
        call: str,
        name: str,
        arguments: Mapping[str, JSON],
        tool: ToolsetTool[Any],
        work: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Make a call, or return its recorded result."""
        began = time.monotonic()
        try:
            with self._journal.call(call):
                if isinstance(tool, BusTool):
                    calls = calls_of(view_of(tool.tool))
                    made = ModelCall(id=call, name=name, server=tool.tool.server, origin=tool.tool.origin)
                    with self._journal.calls(calls.definition_digest, made):
                        return await work()
                is_repeatable = _is_repeatable(tool, self._performer.toolbox)
                made = ModelCall(id=call, name=name, server=None)
                record = self._journal.run_function(made, arguments, is_repeatable, lambda: called(work))
                return returned(await record)
        finally:
            self._seconds[call] = time.monotonic() - began

    async def shown(self, tools: Mapping[str, ToolsetTool[Any]]) -> dict[str, ToolsetTool[Any]]:
        """The tools with their changes held back, and calls one by one of those that may not be repeated."""
        found: dict[str, ToolsetTool[Any]] = {}
        for name, tool in tools.items():
            if isinstance(tool, BusTool) and self._has_changed(tool.tool):
                tool = by_name_only(tool, TEXT)
            if not _is_repeatable(tool, self._performer.toolbox):
                tool = replace(tool, tool_def=replace(tool.tool_def, sequential=True))
            found[name] = tool
        return found

    def _has_changed(self, tool: Tool) -> bool:
        return self._held.changed(str(tool.origin), tool_digest(tool)) is not None

    def report_progress(
        self, call: str, name: str, progress: float, total: float | None, message: str | None
    ) -> None:
        """Progress is not recorded: later viewers have no use for it."""


def _is_repeatable(tool: ToolsetTool[Any], toolbox: Toolbox) -> bool:
    """Whether a call may be repeated: then it may also run concurrently with others."""
    if isinstance(tool, BusTool):
        return is_safe_to_repeat(tool.tool.spec)
    return tool.tool_def.name in toolbox.repeatable


_TOOL_RETURN: TypeAdapter[ToolReturn[Any]] = TypeAdapter(ToolReturn[Any])


async def called(work: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
    """Call a function; what it returned or raised, as a record."""
    try:
        value = await work()
    except ModelRetry as error:
        return {"retry": error.message}
    except ToolFailed as error:
        return {"failed": error.message}
    except Exception as error:  # from the user's function: the model can act on it, the run continues
        return {"failed": f"{type(error).__name__}: {error}"}
    if isinstance(value, ToolResult):
        return {"result": result_json(value)}
    if isinstance(value, ToolReturn):
        given = cast("ToolReturn[Any]", value)
        return {"tool_return": _TOOL_RETURN.dump_python(given, mode="json", fallback=str)}
    return {"value": to_jsonable_python(value, fallback=str)}


def returned(record: dict[str, Any]) -> Any:
    """The recorded value; raises a recorded exception of the function, for the model to read."""
    if "retry" in record:
        raise ModelRetry(record["retry"])
    if (text := record.get("failed", record.get("unknown", record.get("error")))) is not None:
        raise ToolFailed(text)
    if "result" in record:
        return read_result(record["result"])
    if "tool_return" in record:
        return _TOOL_RETURN.validate_python(record["tool_return"])
    return record["value"]
