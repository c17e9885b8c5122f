"""Ask a person to approve a call. Anything but a clear answer denies it."""

import asyncio
import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolbus.core.ask.approval import LASTING, ApprovalRequest, Approved, AttributedAnswer, is_approval
from toolbus.core.ask.interactions import Interactions, routing_of
from toolbus.policy.answers import AnswerKey, Answers

logger = logging.getLogger("toolbus")
DENIED = "a person did not allow it"
NOT_AGAIN = "do not repeat it unless the user asks for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalOutcome:
    """The outcome of a question."""

    allowed: bool
    by: str
    """The one who decided."""
    reason: str = ""
    """The reason for a denial."""


class Approvals:
    """Asks about calls, and keeps lasting answers; they also settle equal questions that wait."""

    def __init__(self, interactions: Interactions, answers: Answers) -> None:
        self._interactions = interactions
        self._answers = answers
        self._waiting: dict[AnswerKey, set[asyncio.Future[None]]] = {}
        """The calls that wait for an answer to a question; each is woken by a lasting one."""
        self._asked: set[asyncio.Future[Any]] = set()
        """Handlers that run, also those whose answer is not needed any more."""

    def can_ask(self, session: str) -> bool:
        """Whether there is a handler for the calls of a session."""
        reaches = routing_of(self._interactions).reaches
        return self._interactions.approve is not None and (reaches is None or reaches(session))

    def settled(self, keys: Sequence[AnswerKey]) -> ApprovalOutcome | None:
        """The outcome by lasting answers; None if one of the questions is open."""
        found = [self._answers.find(key) for key in keys]
        for answer in found:
            if answer is not None and not answer[0]:
                reason = f"{DENIED}, and answered 'never'; {NOT_AGAIN}"
                return ApprovalOutcome(allowed=False, by=answer[1], reason=reason)
        if None in found or not found:
            return None
        return ApprovalOutcome(allowed=True, by=next(answer[1] for answer in found if answer is not None))

    def take(self, answer: object, by: str, keys: Sequence[AnswerKey]) -> ApprovalOutcome:
        """Read an answer, and keep it if it is a lasting one."""
        if isinstance(answer, AttributedAnswer):
            answer, by = answer.answer, answer.by
        if not isinstance(answer, bool | str):
            logger.error("an approval must be True, False or a text, not %s", type(answer).__name__)
            return ApprovalOutcome(allowed=False, by=by, reason="the answer to the approval was invalid")
        if answer in LASTING:
            for key in keys:
                self._answers.add(key, answer)
                for waiting in self._waiting.get(key, ()):
                    if not waiting.done():
                        waiting.set_result(None)
        if is_approval(answer):
            return ApprovalOutcome(allowed=True, by=by)
        is_reason = isinstance(answer, str) and answer not in ("", "no", "never")
        denied = f"not allowed: {answer}" if is_reason else DENIED
        return ApprovalOutcome(allowed=False, by=by, reason=f"{denied}; {NOT_AGAIN}")

    async def ask(self, request: ApprovalRequest, keys: Sequence[AnswerKey]) -> ApprovalOutcome:
        """Ask the handler, unless a lasting answer to an equal question comes first."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, set()).add(woken)
        try:
            return await self._ask(request, keys, woken)
        finally:
            for key in keys:
                waiting = self._waiting[key]
                waiting.discard(woken)
                if not waiting:
                    del self._waiting[key]

    async def _ask(
        self, request: ApprovalRequest, keys: Sequence[AnswerKey], woken: asyncio.Future[None]
    ) -> ApprovalOutcome:
        by, within = routing_of(self._interactions).approver, self._interactions.answer_within
        asked = asyncio.ensure_future(self._handle(request))
        self._asked.add(asked)
        asked.add_done_callback(self._end)
        try:
            await asyncio.wait({asked, woken}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done() and woken.done():
                if (settled := self.settled(keys)) is not None:
                    return settled
                await asyncio.wait({asked}, timeout=within)  # of several rules, another one still asks
            if not asked.done():
                return ApprovalOutcome(allowed=False, by=by, reason=f"no person answered within {within:g} s")
        finally:
            asked.cancel()
        if asked.cancelled():
            logger.warning("the handler for approvals was cancelled")
            return ApprovalOutcome(allowed=False, by=by, reason="the question for approval was cancelled")
        if (error := asked.exception()) is not None:
            logger.error("the handler for approvals raised", exc_info=error)
            reason = f"the handler for approvals raised {type(error).__name__}"
            return ApprovalOutcome(allowed=False, by=by, reason=reason)
        return self.take(asked.result(), by, keys)

    async def _handle(self, request: ApprovalRequest) -> Approved:
        assert self._interactions.approve is not None, "there is a handler"
        answer = self._interactions.approve(request)
        return await answer if inspect.isawaitable(answer) else answer

    def _end(self, asked: asyncio.Future[Any]) -> None:
        self._asked.discard(asked)
        if not asked.cancelled():
            asked.exception()  # it may have ended after its answer was needed
