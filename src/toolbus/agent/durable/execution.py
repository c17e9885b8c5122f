"""One execution of a durable run: the agent's loop with a journal, from the beginning or replayed."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from pydantic import TypeAdapter
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.exceptions import AgentRunError, FallbackExceptionGroup, UsageLimitExceeded
from pydantic_ai.messages import ModelResponse, UserContent
from pydantic_ai.models import Model
from pydantic_ai.toolsets import ToolsetTool

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
from toolbus.agent.durable.codec import read_messages
from toolbus.agent.durable.functions import called, returned
from toolbus.agent.durable.held import TEXT, HeldTools, short
from toolbus.agent.durable.journal import RunJournal
from toolbus.agent.durable.model import JournaledModel
from toolbus.agent.durable.questions import answer_allows, approval_question
from toolbus.agent.durable.steps import Steps
from toolbus.agent.limits import LimitReached, Limits, limit_error, usage_limits
from toolbus.agent.models import model_error
from toolbus.agent.tool_search import tool_search
from toolbus.agent.tools import RunTools, Toolbox
from toolbus.bus.tool import Tool
from toolbus.bus.view import View
from toolbus.core.approval import Approval, ApprovalRequest
from toolbus.core.elicitation import Pending
from toolbus.core.records import JSON

Elsewhere: TypeAlias = Callable[[Sequence[str]], Awaitable[Exception | None]]
"""Why a run that calls these tools cannot go on here; None if no other worker is better suited."""
PROMPT: TypeAdapter[str | list[UserContent] | None] = TypeAdapter(str | list[UserContent] | None)
"""The message that a run begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer:
    """What executes the runs of an agent."""

    model: Model
    agent: PydanticAgent[Any, str]
    toolbox: Toolbox
    approve: ApprovalRule[Approver]
    limits: Limits
    start_servers: Callable[[], Awaitable[None]]
    instructions: Callable[[], Awaitable[str]]


class Execution:
    """One execution of one run; the callbacks of its tools."""

    def __init__(self, performer: Performer, run: str, steps: Steps, elsewhere: Elsewhere) -> None:
        self.id = run
        """The `run` of the caller of its calls."""
        self._performer = performer
        self._steps = steps
        self._elsewhere = elsewhere
        self._held = HeldTools()
        self._journal = RunJournal(run, steps, self._held)
        self._calls = 0
        self._seconds: dict[str, float] = {}

    async def perform(self, request: Mapping[str, Any]) -> dict[str, JSON]:
        """Run to the end; the result as JSON."""
        own, limits = self._performer, self._performer.limits
        await own.start_servers()
        self._held.begin(await self._steps.run("offer", self._offered))
        tools = own.toolbox.for_run(self)
        check = partial(self._check, tools)
        model = JournaledModel(own.model, self._steps, tools.servers, self._seconds, check)
        try:
            # One after another: DBOS numbers the steps in the order they begin.
            with own.agent.parallel_tool_call_execution_mode("sequential"):
                result = await own.agent.run(
                    PROMPT.validate_python(request["prompt"]),
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
            "output": result.output,
            "requests": usage.requests,
            "calls": usage.tool_calls,
            "tokens": usage.total_tokens,
        }

    async def _check(self, tools: RunTools, response: ModelResponse, known: Set[str]) -> None:
        """Leave the run to another worker if that has the tools of a response, and this one lacks them."""
        missing = tools.lacking(response.tool_calls, known)
        if missing and (problem := await self._elsewhere(missing)) is not None:
            raise self._steps.abort(problem)

    async def _offered(self) -> dict[str, JSON]:
        """The definitions of all tools, to notice changes."""
        found: dict[str, JSON] = {}
        for view in self._performer.toolbox.all_buses:
            for spec in view.catalog:
                if (digest := view.definition_digest(spec)) is not None:
                    found[str(spec.origin)] = short(digest)
        return found

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

        async def decide() -> dict[str, JSON]:
            return await self._decide(call, name, arguments, tool)

        decision = await self._steps.run("approval", decide)
        if "approved" in decision:
            return Approval(call=decision["approved"], by="function", answer=decision["answer"])
        if "ask" in decision:
            answers = await self._journal.ask(Pending.from_json(decision["ask"]))
            return None if answer_allows(answers) else denial_text(False)
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
        """Make a call, or return what was recorded."""
        began = time.monotonic()
        try:
            if not isinstance(tool, BusTool):
                is_repeatable = name in self._performer.toolbox.repeatable
                return returned(
                    await self._journal.run_function(name, arguments, is_repeatable, lambda: called(work))
                )
            view = tool.tool.runner
            assert isinstance(view, View), "an agent's tools are those of views"
            with self._journal.calls(view.definition_digest):
                return await work()
        finally:
            self._seconds[call] = time.monotonic() - began

    async def held(self, tools: Mapping[str, Tool]) -> Mapping[str, str]:
        """The tools that changed, by name, with what the model reads of them."""
        return {
            name: TEXT
            for name, tool in tools.items()
            if self._held.changed(str(tool.origin), tool_digest(tool)) is not None
        }

    def report_progress(
        self, call: str, name: str, progress: float, total: float | None, message: str | None
    ) -> None:
        """Progress is not recorded: whoever joins later has no use for it."""
