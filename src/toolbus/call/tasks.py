"""Polls a call that its server runs as a task until it is done, across lost connections."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from toolbus.core.operation.operation import CallInFlight, Operation, Resumed
from toolbus.core.values.elicitation import ELICITATION, Answer, Pending, question
from toolbus.core.values.errors import (
    INTERNAL_ERROR,
    CallTimeout,
    ServerRejected,
    ToolbusError,
    too_many_questions,
)
from toolbus.core.values.records import JSONObject, TaskState, ToolResult, pending_result

logger = logging.getLogger("toolbus")
MIN_POLL_INTERVAL = 0.05
MAX_POLL_INTERVAL = 60.0
CANCEL_TIMEOUT = 1.0
"""Seconds for the request that cancels a task."""


class TaskRequests(Protocol):
    """The requests about tasks to one server, over its link."""

    @property
    def alias(self) -> str: ...

    @property
    def timeout(self) -> float:
        """As `timeouts.call`."""
        ...

    @property
    def max_timeout(self) -> float | None:
        """As `timeouts.max`."""
        ...

    @property
    def question_limit(self) -> int:
        """The number of times the server may request input in one call."""
        ...

    @property
    def most_tasks(self) -> int:
        """As `limits.tasks`."""
        ...

    following: int
    """The number of tasks that are being polled."""

    async def task_state(self, task: str) -> TaskState: ...

    async def answer_task(
        self, in_flight: CallInFlight, task: str, asked: JSONObject, answers: Mapping[str, Answer]
    ) -> None: ...

    async def decline_task(self, in_flight: CallInFlight, suspended: ToolResult) -> dict[str, Answer] | None:
        """Answers that decline all its questions, if guards refuse them; None if a person is to answer."""
        ...

    async def listen_to_task(self, in_flight: CallInFlight, task: str) -> None: ...

    async def cancel_task(self, task: str, within: float | None = None) -> None: ...


class TaskPoller:
    """Polls one task on behalf of one call."""

    def __init__(self, server: TaskRequests, in_flight: CallInFlight, operation: Operation) -> None:
        self._server = server
        self._in_flight = in_flight
        self._operation = operation
        self._answered: set[str] = set()
        self._rounds = operation.resumed.pending.rounds if operation.resumed else 0
        self._polls = 0
        self._reported: str | None = None
        # Only a resumed task is stored elsewhere; any other one is cancelled with its call.
        self._cancels_task = operation.resumed is None
        self._limit = server.timeout if operation.timeout is None else operation.timeout
        self._deadline = self._last = _now() + self._limit
        max_timeout = server.max_timeout if operation.max_timeout is None else operation.max_timeout
        if max_timeout is not None:
            self._last = _now() + max(max_timeout, self._limit)

    async def resume(self, resumed: Resumed) -> ToolResult:
        """Continue a task that was suspended or detached."""
        pending = resumed.pending
        assert pending.task is not None, "only a task is resumed here"
        if pending.requests:
            await self._answer(pending.task, pending.requests, resumed.answers)
        return await self.poll(await self._server.task_state(pending.task))

    async def poll(self, state: TaskState) -> ToolResult:
        """Poll until there is a result; returns a pending one if the call is suspended."""
        if self._operation.detached:
            return self._suspend(state.id, {})
        self._server.following += 1
        try:
            if self._server.following > self._server.most_tasks:
                most = f"{self._server.most_tasks:,} calls as tasks at the same time (limits.tasks)"
                raise self._rejected(f"the server runs more than {most}")
            while True:
                if self._operation.observed is not None:
                    self._operation.observed.task(state)
                if (result := await self._handle(state)) is not None:
                    return result
                await self._report(state)
                async with asyncio.timeout_at(self._deadline):
                    await asyncio.sleep(min(max(state.poll_after, MIN_POLL_INTERVAL), MAX_POLL_INTERVAL))
                    state = await self._server.task_state(state.id)
        except BaseException as end:
            if self._cancels_task and state.status not in ("completed", "failed", "cancelled"):
                await self._cancel(state.id)
            if isinstance(end, TimeoutError) and not isinstance(end, CallTimeout):
                raise CallTimeout(self._server.alias, self._label, self._limit) from end
            raise
        finally:
            self._server.following -= 1

    async def _handle(self, state: TaskState) -> ToolResult | None:
        """Handle one state; returns the result, or None to poll again."""
        match state.status:
            case "completed":
                return state.result or ToolResult()
            case "failed":
                raise self._rejected(state.error or state.message or "no reason given")
            case "cancelled":
                reason = f": {state.message}" if state.message else ""
                return ToolResult.failure(f"the server cancelled {self._label}{reason}")
            case "input_required":
                fresh = {key: asked for key, asked in state.requests.items() if key not in self._answered}
                if (
                    any(asked.get("method") == ELICITATION for asked in fresh.values())
                    and self._in_flight.suspends
                ):
                    suspended = self._suspend(state.id, fresh)
                    declined = await self._server.decline_task(self._in_flight, suspended)
                    if declined is None:
                        return suspended
                    await self._answer(state.id, fresh, declined)
                elif fresh:
                    self._count_round()
                    await self._answer(state.id, fresh, {})
                elif not state.requests:
                    await self._listen(state.id)
                return None
            case "working":
                return None

    async def _answer(self, task: str, asked: JSONObject, answers: Mapping[str, Answer]) -> None:
        began = _now()
        await self._server.answer_task(self._in_flight, task, asked, answers)
        self._answered.update(asked)
        self._extend(began)

    async def _listen(self, task: str) -> None:
        """Let a legacy server send its requests for input."""
        began, asked = _now(), self._in_flight.asked
        await self._server.listen_to_task(self._in_flight, task)
        if self._in_flight.asked != asked:
            self._extend(began)

    def _extend(self, began: float) -> None:
        """The timeout pauses while the user answers."""
        paused = _now() - began
        self._deadline, self._last = self._deadline + paused, self._last + paused

    async def _report(self, state: TaskState) -> None:
        self._polls += 1
        if not state.message or state.message == self._reported:
            return
        self._reported = state.message
        self._deadline = max(self._deadline, min(_now() + self._limit, self._last))
        if self._in_flight.on_progress is not None:
            try:
                await self._in_flight.on_progress(float(self._polls), None, state.message)
            except Exception:  # the user's callback; its failure must not end the call
                logger.exception("on_progress of %s raised", self._label)

    async def _cancel(self, task: str) -> None:
        with suppress(TimeoutError, ToolbusError):
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await self._server.cancel_task(task, within=CANCEL_TIMEOUT)

    def _suspend(self, task: str, asked: JSONObject) -> ToolResult:
        alias = self._server.alias
        if asked:
            self._count_round()
        for request in asked.values():
            if request["method"] == ELICITATION:
                fault = question(request["params"], alias, self._in_flight.tool).fault
                if fault is not None:
                    raise self._rejected(fault)
        pending = Pending(
            server=alias,
            tool=self._operation.spec.origin.tool,
            arguments=dict(self._operation.arguments),
            requests=asked,
            task=task,
            rounds=self._rounds,
        )
        return pending_result(pending)

    def _count_round(self) -> None:
        limit = self._server.question_limit
        if self._rounds >= limit:
            raise too_many_questions(self._server.alias, self._label, limit)
        self._rounds += 1

    def _rejected(self, reason: str) -> ServerRejected:
        return ServerRejected(self._server.alias, self._label, INTERNAL_ERROR, reason)

    @property
    def _label(self) -> str:
        return f"tool {self._in_flight.tool!r}"


def _now() -> float:
    return asyncio.get_running_loop().time()
