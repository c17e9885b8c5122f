"""The router of questions on a bus for several people: each goes to the session that caused it.

A bus has one set of handlers. The handlers of `QuestionRouter.interactions` forward a question to the session
whose call caused it. A watcher of the bus, such as its console, sees the open questions and may answer them:
the first answer wins.
"""

import asyncio
import inspect
import itertools
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

from toolbus.core.ask.approval import ApprovalAnswer, ApprovalRequest, Approved, AttributedAnswer
from toolbus.core.ask.interactions import Interactions, Sampling, SamplingResult, routing_of
from toolbus.core.values.elicitation import Answer, Elicitation

Question: TypeAlias = Elicitation | ApprovalRequest
Reply: TypeAlias = Answer | ApprovalAnswer
WATCHER = "console"
"""The name of the watcher in the audit trail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingQuestion:
    """A question, or a call to approve, that waits for a person."""

    number: int
    kind: Literal["elicitation", "approval"]
    question: Question
    is_asked: bool
    """Whether the session's own people are asked; otherwise only who watches can answer."""
    since: float = field(default_factory=time.time)

    @property
    def session(self) -> str:
        """The session whose call waits."""
        return self.question.session


class QuestionRouter:
    """Passes questions on to the sessions they belong to; used from the bus's loop alone."""

    def __init__(self) -> None:
        self.is_watched = False
        """Whether somebody may answer for sessions without a handler; else their questions do not wait."""
        self._sessions: dict[str, Interactions] = {}
        self._waiting: dict[int, WaitingQuestion] = {}
        self._replies: dict[int, asyncio.Future[Reply]] = {}
        self._watchers: list[Callable[[], None]] = []
        self._numbers = itertools.count(1)

    def interactions(self, handlers: Interactions) -> Interactions:
        """These handlers, with questions, approvals and sampling forwarded to the sessions.

        A question for nobody is cancelled; with `declares_elicitation` or `forwards`, it fails its call with
        `InputNeeded`.
        """
        routing = routing_of(handlers)
        can_fail = handlers.declares_elicitation or routing.forwards
        return replace(
            handlers,
            elicit=self.elicit,
            approve=self._approve,
            sample=self._sample,
            _routing=replace(routing, reaches=self._reaches if can_fail else None),
        )

    @contextmanager
    def session(self, name: str, handlers: Interactions) -> Generator[None]:
        """Ask these handlers what the calls of a session need, until the block ends."""
        if not name or name in self._sessions:
            raise ValueError(f"a session needs a name of its own, not {name!r}")
        self._sessions[name] = handlers
        try:
            yield
        finally:
            del self._sessions[name]

    @property
    def waiting(self) -> Mapping[int, WaitingQuestion]:
        """The questions that wait for an answer, by number, oldest first."""
        return MappingProxyType(self._waiting)

    def reply(self, number: int, reply: Reply) -> bool:
        """Answer for a session; False if that question does not wait any more."""
        replied = self._replies.get(number)
        if replied is None or replied.done():
            return False
        replied.set_result(reply)
        return True

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` when a question comes or goes; returns a function that ends it."""
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    def _reaches(self, session: str) -> bool:
        handlers = self._sessions.get(session)
        return self.is_watched or (handlers is not None and handlers.elicit is not None)

    async def elicit(self, question: Elicitation) -> Answer:
        """The answer of the session, or of who watches; cancelled if there is nobody."""
        handlers = self._sessions.get(question.session)
        handler = None if handlers is None else handlers.elicit
        reply = await self._ask("elicitation", question, handler)
        return question.cancel() if reply is None else cast("Answer", reply)

    async def _approve(self, request: ApprovalRequest) -> Approved:
        handlers = self._sessions.get(request.session)
        handler = None if handlers is None else handlers.approve
        reply = await self._ask("approval", request, handler)
        nobody = f"rule {request.rule} asks a person, and nobody can be asked here"
        return nobody if reply is None else cast("Approved", reply)

    async def _sample(self, request: Sampling) -> SamplingResult | None:
        handlers = self._sessions.get(request.session)
        if handlers is None or handlers.sample is None:
            return None
        return cast("SamplingResult | None", await _awaited(handlers.sample(request)))

    async def _ask(
        self,
        kind: Literal["elicitation", "approval"],
        question: Question,
        handler: Callable[[Any], Any] | None,
    ) -> Reply | AttributedAnswer | None:
        """The first answer, of the session or of who watches; None if there is nobody."""
        if handler is None and not self.is_watched:
            return None
        number = next(self._numbers)
        replied: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        asked = None if handler is None else asyncio.ensure_future(_answer(handler, question))
        self._waiting[number] = WaitingQuestion(
            number=number, kind=kind, question=question, is_asked=handler is not None
        )
        self._replies[number] = replied
        self._changed()
        try:
            first: tuple[asyncio.Future[Any], ...] = (replied,) if asked is None else (asked, replied)
            done, _ = await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if replied not in done:
                return cast("Reply", done.pop().result())
            reply = replied.result()
            return reply if isinstance(reply, Answer) else AttributedAnswer(answer=reply, by=WATCHER)
        finally:
            del self._waiting[number], self._replies[number]
            self._changed()
            if asked is not None:
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)

    def _changed(self) -> None:
        for changed in tuple(self._watchers):
            changed()


async def _answer(handler: Callable[[Any], Any], question: Question) -> Any:
    return await _awaited(handler(question))


async def _awaited(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given
