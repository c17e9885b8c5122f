"""A call that its server made a task of: asked for until it is done, also over a lost connection."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from toolbus.call.hooks import Call, Resumed
from toolbus.connect import CallInFlight, Link, Session, requests
from toolbus.core.elicitation import ELICITATION, Answer, Pending, question
from toolbus.core.errors import CallRejected, CallTimeout, ToolbusError
from toolbus.core.records import JSONObject, TaskState, ToolResult

T = TypeVar("T")
logger = logging.getLogger("toolbus")
POLL_AT_LEAST = 0.05
POLL_AT_MOST = 60.0
LAST_WORDS = 1.0
"""Seconds that telling the server to stop may take."""
FAILED = -32603


class TaskPoller:
    """One task, on behalf of one call."""

    def __init__(self, link: Link, in_flight: CallInFlight, call: Call, arguments: JSONObject) -> None:
        self._link = link
        self._in_flight = in_flight
        self._call = call
        self._arguments = arguments
        self._answered: set[str] = set()
        self._rounds = call.resumed.pending.rounds if call.resumed else 0
        self._looks = 0
        self._said: str | None = None
        # What nobody else can come back to is given up with the call.
        self._is_ours = call.resumed is None
        limit = call.timeout or call.longest or link.config.timeouts.longest
        self._limit = limit
        self._deadline = None if limit is None else _now() + limit

    async def resumed(self, resumed: Resumed) -> ToolResult:
        """Go on with a task that waited for answers, or was left alone."""
        pending = resumed.pending
        assert pending.task is not None, "only a task is resumed here"
        if pending.requests:
            await self._answer(pending.task, pending.requests, resumed.answers)
        return await self.to_the_end(await self._look(pending.task))

    async def to_the_end(self, state: TaskState) -> ToolResult:
        """The result, once there is one; or the question that the call is suspended by."""
        if self._call.detached:
            return self._waiting(state.id, {})
        try:
            while True:
                if (result := await self._settled(state)) is not None:
                    return result
                await self._report(state)
                async with asyncio.timeout_at(self._deadline):
                    await asyncio.sleep(min(max(state.poll_after, POLL_AT_LEAST), POLL_AT_MOST))
                    state = await self._look(state.id)
        except BaseException as end:
            if self._is_ours and state.status not in ("completed", "failed", "cancelled"):
                await self._give_up(state.id)
            if isinstance(end, TimeoutError) and not isinstance(end, CallTimeout):
                raise CallTimeout(self._server, self._what, self._limit or 0) from end
            raise

    async def _settled(self, state: TaskState) -> ToolResult | None:
        match state.status:
            case "completed":
                return state.result or ToolResult()
            case "failed":
                message = state.error or state.message or "no reason given"
                raise CallRejected(self._server, self._what, FAILED, message)
            case "cancelled":
                reason = f": {state.message}" if state.message else ""
                return ToolResult.failure(f"the server cancelled {self._what}{reason}")
            case "input_required":
                fresh = {key: asked for key, asked in state.requests.items() if key not in self._answered}
                if (
                    any(asked.get("method") == ELICITATION for asked in fresh.values())
                    and self._in_flight.suspends
                ):
                    return self._waiting(state.id, fresh)
                if fresh:
                    await self._answer(state.id, fresh, {})
                elif not state.requests:
                    await self._listen(state.id)
                return None
            case "working":
                return None

    async def _answer(self, task: str, asked: JSONObject, answers: Mapping[str, Answer]) -> None:
        began = _now()
        # Asked once, whatever becomes of the connection; what was answered already the server ignores.
        said = await self._asked(
            lambda session, _: requests.responses(session, self._in_flight, asked, answers), repeatable=False
        )
        await self._asked(
            lambda session, timeout: requests.update_task(session, task, said, timeout), repeatable=True
        )
        self._answered.update(asked)
        if self._deadline is not None:  # the time in which a person thought is the server's own
            self._deadline += _now() - began

    async def _listen(self, task: str) -> None:
        """Let a server of the legacy era ask what it wants to know."""
        began = _now()
        await self._asked(
            lambda session, timeout: requests.listen_to_task(session, self._in_flight, task, timeout),
            repeatable=True,
        )
        if self._deadline is not None:  # as above
            self._deadline += _now() - began

    async def _look(self, task: str) -> TaskState:
        return await self._asked(
            lambda session, timeout: requests.task_state(session, task, timeout), repeatable=True
        )

    async def _asked(self, send: Callable[[Session, float], Awaitable[T]], *, repeatable: bool) -> T:
        return await self._link.request(send, self._link.config.timeouts.call, repeatable=repeatable)

    async def _report(self, state: TaskState) -> None:
        self._looks += 1
        if state.message and state.message != self._said and self._in_flight.on_progress is not None:
            self._said = state.message
            try:
                await self._in_flight.on_progress(float(self._looks), None, state.message)
            except Exception:  # a user's callback: its failure must not end the call
                logger.exception("on_progress of %s raised", self._what)

    async def _give_up(self, task: str) -> None:
        with suppress(TimeoutError, ToolbusError):
            async with asyncio.timeout(LAST_WORDS):
                await requests.cancel_task(self._link.session, task, LAST_WORDS)

    def _waiting(self, task: str, asked: JSONObject) -> ToolResult:
        if asked and self._rounds >= self._link.handler.rounds:
            message = f"it asked more than {self._link.handler.rounds} times in one call"
            raise CallRejected(self._server, self._what, FAILED, message)
        for asked_of in asked.values():
            if asked_of["method"] == ELICITATION:
                fault = question(asked_of["params"], self._server, self._in_flight.tool).fault
                if fault is not None:
                    raise CallRejected(self._server, self._what, FAILED, fault)
        pending = Pending(
            server=self._server,
            tool=self._call.spec.origin.tool,
            arguments=dict(self._arguments),
            requests=asked,
            task=task,
            rounds=self._rounds + bool(asked),
        )
        return ToolResult.waiting(pending)

    @property
    def _server(self) -> str:
        return self._link.config.alias

    @property
    def _what(self) -> str:
        return f"tool {self._in_flight.tool!r}"


def _now() -> float:
    return asyncio.get_running_loop().time()
