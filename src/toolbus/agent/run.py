"""One run of an agent: its events and its result."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast
from uuid import uuid4

from pydantic_ai.messages import (
    BinaryContent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.toolsets import ToolsetTool
from pydantic_ai.usage import RunUsage, UsageLimits

from toolbus.adapters.approval import (
    ApprovalRule,
    Approver,
    approval_request,
    decided,
    denial,
    is_allowed,
    request_of_call,
)
from toolbus.agent.events import (
    ApprovalAsked,
    RunEvent,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolProgressed,
    ToolReturned,
)
from toolbus.bus.catalog.tool import Tool
from toolbus.core.ask.approval import LASTING, Approval, ApprovalAnswer, ApprovalRequest, is_approval
from toolbus.core.ask.interactions import ANSWER_WITHIN
from toolbus.core.loop import OwnerLoop
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, Image

Limit: TypeAlias = Literal["turns", "tool_calls", "tokens", "seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run; None means unlimited."""

    turns: int | None = 50
    """Requests to the model."""
    tool_calls: int | None = None
    """Tool calls, including failed ones."""
    tokens: int | None = None
    """Input and output together."""
    seconds: float | None = None
    """The time limit, without the time that the run waits for earlier runs."""
    answer_within: float | None = ANSWER_WITHIN
    """Seconds to wait for the answer to `ApprovalAsked`; then the call is refused, and the run continues."""


class LimitReached(ToolbusError):
    """A run reached one of its limits; `limit` names it, `allowed` is its value."""

    def __init__(self, limit: Limit, allowed: float) -> None:
        self.limit: Limit = limit
        self.allowed = allowed
        unit = {"tool_calls": "tool calls"}.get(limit, limit)
        super().__init__(
            f"the run reached its limit of {allowed:g} {unit}; raise it with Limits({limit}=...)"
        )


def usage_limits(limits: Limits) -> UsageLimits:
    """The limits that Pydantic AI checks, in its type."""
    return UsageLimits(
        request_limit=limits.turns,
        tool_calls_limit=limits.tool_calls,
        total_tokens_limit=limits.tokens,
    )


# Pydantic AI's names; it reports a limit only in its message.
_PYDANTIC_NAMES: dict[str, Limit] = {
    "request_limit": "turns",
    "tool_calls_limit": "tool_calls",
    "total_tokens_limit": "tokens",
}


def limit_error(message: str, limits: Limits) -> LimitReached:
    for name, limit in _PYDANTIC_NAMES.items():
        if name in message:
            return LimitReached(limit, getattr(limits, limit))
    raise AssertionError(f"unknown limit: {message}")


T = TypeVar("T")
logger = logging.getLogger("toolbus")
FACE = "agent"
NO_LISTENER = "it needs approval, and nothing is reading the events of this run"
STOP_TIMEOUT = 10.0
"""Seconds to wait for a cancelled run to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Generic[T]):
    """The result of a run."""

    output: T
    """The text, or an object of the requested type."""
    messages: list[ModelMessage]
    """The messages that this run added to the conversation."""
    usage: RunUsage
    calls: tuple[ToolReturned, ...]

    @property
    def text(self) -> str:
        """The output as text."""
        return self.output if isinstance(self.output, str) else str(self.output)


class Run(Generic[T]):
    """A run, started when created. Await it for its output, or iterate over its events.

    ```python
    run = agent.send("Remember to buy tea.")
    async for event in run:
        print(type(event).__name__)  # ToolCalled, ToolReturned, TextDelta
    ```
    """

    def __init__(self, approve: ApprovalRule[Approver], limits: Limits) -> None:
        self._approve: ApprovalRule[Approver] = approve
        self._limits = limits
        self.id = uuid4().hex
        """The `run` of the caller of its calls."""
        self._calls = 0
        self._events: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        self._pending: dict[asyncio.Future[ApprovalAnswer], ApprovalRequest] = {}
        self._has_listener = False
        self._task: asyncio.Task[RunResult[T]] | None = None

    def start(self, work: Coroutine[Any, Any, RunResult[T]], on_end: Callable[[], None]) -> "Run[T]":
        """Start the run's work; the agent calls this. `on_end` is called when it ends."""
        self._loop = OwnerLoop()
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda _: on_end())
        self._task.add_done_callback(lambda _: self._events.put_nowait(None))
        return self

    def __await__(self) -> Generator[Any, None, T]:
        return self._final().__await__()

    @property
    def final(self) -> Awaitable[T]:
        """Awaits the output, as awaiting the run does; cancelling the wait cancels the run."""
        return self._final()

    @property
    def result(self) -> RunResult[T] | None:
        """The result of a completed run; None before that, and if the run failed."""
        task = self._task
        if task is None or not task.done() or task.cancelled() or task.exception():
            return None
        return task.result()

    def cancel(self) -> None:
        """Stop the run; calls in flight are cancelled on their servers."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Cancel the run, and wait for its end up to `STOP_TIMEOUT`."""
        self.cancel()
        await asyncio.wait([self._started_task()], timeout=STOP_TIMEOUT)

    async def _final(self) -> T:
        return (await self._started_task()).output

    def __aiter__(self) -> AsyncGenerator[RunEvent]:
        """All events, for one listener, who answers questions; raises the error that ended the run."""
        return self.watch(answers=True)

    async def watch(self, *, answers: bool = False) -> AsyncGenerator[RunEvent]:
        """All events, for one listener; without `answers`, it is not asked about calls."""
        self._has_listener = answers
        try:
            while (event := await self._events.get()) is not None:
                yield event
            self._events.put_nowait(None)  # for another iteration
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._has_listener = False
            for answer in self._pending:
                if not answer.done():
                    answer.set_result(NO_LISTENER)
        await self._started_task()

    def _started_task(self) -> "asyncio.Task[RunResult[T]]":
        assert self._task is not None, "the agent starts a run"
        return self._task

    # Callbacks for the tools

    def emit(self, event: RunEvent) -> None:
        """Send an event to the listener."""
        self._events.put_nowait(event)

    async def approval(
        self, call: str, name: str, arguments: Mapping[str, JSON], tool: Tool | None
    ) -> Approval | str | None:
        """The approval of a call, or why it is denied; None if nobody has to be asked here.

        Raises `LimitReached` above the limit of calls.
        """
        self._calls += 1
        allowed = self._limits.tool_calls
        if allowed is not None and self._calls > allowed:
            raise LimitReached("tool_calls", allowed)
        question = None if tool is None else approval_request(tool, arguments, run=self.id)
        if question is not None:
            return await self._answer_rule(replace(question, id=call, name=name))
        if self._approve == "writes" and tool is not None and is_allowed(tool, arguments):
            return None
        request = request_of_call(call, name, arguments, tool)
        return await denial(request, self._approve, self._ask)

    async def _answer_rule(self, question: ApprovalRequest) -> Approval | str | None:
        """The answer to a rule, which the guard of the bus takes; `approve=` has the same answer."""
        if callable(self._approve):
            return question.approved("function", await decided(self._approve, question))
        if self._has_listener:
            return question.approved(FACE, await self._ask(question))
        # The bus may have somebody to ask; otherwise its guard refuses the call.
        return await denial(question, self._approve, self._ask)

    async def make(
        self,
        call: str,
        name: str,
        arguments: Mapping[str, JSON],
        tool: object,
        work: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Make a call."""
        return await work()

    async def shown(self, tools: Mapping[str, ToolsetTool[Any]]) -> Mapping[str, ToolsetTool[Any]]:
        """All as they are; the lockfile holds tools for all runs."""
        return {}

    def report_progress(
        self, call: str, name: str, progress: float, total: float | None, message: str | None
    ) -> None:
        """Emit the progress of a call; in the loop of the bus, which need not be ours."""
        event = ToolProgressed(id=call, name=name, progress=progress, total=total, message=message)
        self._loop.call_soon(lambda: self.emit(event))

    async def _ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        if not self._has_listener:
            return NO_LISTENER
        answer: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        self._pending[answer] = request
        self.emit(
            ApprovalAsked(
                id=request.id,
                name=request.name,
                arguments=request.arguments,
                server=request.server,
                digest=request.digest,
                rule=request.rule,
                reason=request.reason,
                answer=answer,
            )
        )
        within = self._limits.answer_within
        try:
            async with asyncio.timeout(within):
                said = await answer
        except TimeoutError:
            said = f"nobody answered within {within:g} s"
            logger.warning("the call of %r is refused: %s", request.name, said)
        finally:
            self._pending.pop(answer, None)
        if said in LASTING and request.rule is not None:
            self._settle_like(request, "once" if is_approval(said) else False)
        return said

    def _settle_like(self, request: ApprovalRequest, answer: ApprovalAnswer) -> None:
        """Answer equal questions about other calls of the tool, if the answer is a lasting one."""
        for waiting, other in self._pending.items():
            same = (other.name, other.digest, other.rule) == (request.name, request.digest, request.rule)
            if same and not waiting.done():
                waiting.set_result(answer)


class EventMapper:
    """Converts the events of one run."""

    def __init__(
        self,
        servers: Mapping[str, str],
        on_call: Callable[[str], None],
        explain: Callable[[ToolReturnPart], None],
    ) -> None:
        """`servers` maps tool names to servers; `on_call` gets the name of every called tool.

        `explain` may change the text of a result.
        """
        self._servers = servers
        self._on_call = on_call
        self._explain = explain
        self._started: dict[str, float] = {}
        self.calls: list[ToolReturned] = []
        """The completed calls."""

    def map(self, event: object) -> Iterator[RunEvent]:
        """The run events for an event of Pydantic AI: usually one or none."""
        match event:
            case (
                PartStartEvent(part=TextPart(content=text))
                | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
            ) if text:
                yield TextDelta(text=text)
            case PartStartEvent(part=ThinkingPart(content=text)) if text:
                yield ThinkingDelta(text=text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))) if text:
                yield ThinkingDelta(text=text)
            case FunctionToolCallEvent(part=part):
                yield self._called(part)
            case FunctionToolResultEvent(part=part):
                yield self._returned(part)
            case _:
                pass

    def _called(self, part: ToolCallPart) -> ToolCalled:
        self._on_call(part.tool_name)
        self._started[part.tool_call_id] = time.monotonic()
        return ToolCalled(
            id=part.tool_call_id,
            name=part.tool_name,
            arguments=part.args_as_dict(),
            server=self._servers.get(part.tool_name),
        )

    def _returned(self, part: ToolReturnPart) -> ToolReturned:
        self._explain(part)
        started = self._started.pop(part.tool_call_id, None)
        seconds = 0.0 if started is None else time.monotonic() - started
        self.calls.append(tool_returned(part, seconds, self._servers.get(part.tool_name)))
        return self.calls[-1]


def tool_returned(part: ToolReturnPart, seconds: float, server: str | None) -> ToolReturned:
    items = part.content_items(mode="str", wrap_if_error=False)
    return ToolReturned(
        id=part.tool_call_id,
        name=part.tool_name,
        text="\n".join(item for item in items if isinstance(item, str)),
        is_error=part.outcome != "success",
        seconds=seconds,
        server=server,
        images=tuple(
            Image(data=file.data, mime_type=file.media_type)
            for file in part.files
            if isinstance(file, BinaryContent) and file.is_image
        ),
        structured=cast(Mapping[str, Any], part.metadata or {}).get("structured"),
    )
