"""The journal of one execution of a run: each call is recorded before it is made and when it is done.

The first record, the intent, names the execution that makes the call. A later execution that finds an intent
of another one without a result cannot know whether the call took effect: it makes the call again if that is
safe, and otherwise the result is an error that the model reads. Two executions cannot both record an intent
for the same call, because DBOS lets only the owner of a run record anything.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias
from uuid import uuid4

from toolbus.agent.durable.codec import read_result, result_json
from toolbus.agent.durable.held import HeldTools
from toolbus.agent.durable.questions import Asked, answer_allows, changed_question
from toolbus.agent.durable.steps import Steps
from toolbus.bus.tasks import given_approval
from toolbus.core.elicitation import Answer, Pending
from toolbus.core.errors import CallTimeout, RunDiverged, ToolbusError
from toolbus.core.journal import JOURNAL, Make
from toolbus.core.operation import Operation, Resumed
from toolbus.core.records import JSON, ToolResult, ToolSpec

logger = logging.getLogger("toolbus")
Record: TypeAlias = dict[str, Any]
"""What is recorded of a call: a `result`, `error` or `pending` call, or that it is `refused` or `unknown`."""
Digest: TypeAlias = Callable[[ToolSpec], str | None]


class CallFailed(ToolbusError):
    """A call that failed, as it was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a call is about."""

    name: str
    """The tool: `server/tool`, or the name of a function."""
    arguments: Mapping[str, JSON]
    call: str
    """The digest of the tool and the arguments."""
    definition: str | None
    """The digest of the tool's definition; None if it does not matter whether that changed."""
    is_repeatable: bool


class RunJournal:
    """The journal of one execution of one run."""

    def __init__(self, run: str, steps: Steps, held: HeldTools) -> None:
        self.run_id = run
        self.steps = steps
        self.token = uuid4().hex
        """Names this execution."""
        self._held = held
        self._questions = 0
        self._turn = asyncio.Lock()

    @contextmanager
    def calls(self, digest: Digest) -> Generator[None]:
        """Journal the operations that are made within; `digest` is of their tools' definitions."""
        token = JOURNAL.set(_Calls(self, digest))
        try:
            yield
        finally:
            JOURNAL.reset(token)

    # Calls of tools

    async def run_operation(self, operation: Operation, make: Make, definition: str | None) -> ToolResult:
        """Make an operation until it has a result, or return what was recorded."""
        spec = operation.spec
        subject = _subject(str(spec.origin), operation.arguments, definition, is_safe_to_repeat(spec))
        waiting = replace(operation, on_input="suspend", detached=True, observed=None)
        async with self._turn:
            record = await self._attempt(subject, lambda _: _made(make, waiting))
            requests, answers = None, dict[str, Answer]()
            while (stored := record.get("pending")) is not None:
                pending = Pending.from_json(stored)
                if pending.task is None or pending.requests != requests:  # else the answer did not arrive
                    requests, answers = pending.requests, await self._answers(pending)
                record = await self._resume(subject, make, waiting, pending, answers)
        return _outcome(record, spec.name)

    async def _resume(
        self,
        subject: Subject,
        make: Make,
        operation: Operation,
        pending: Pending,
        answers: Mapping[str, Answer],
    ) -> Record:
        """Go on with a suspended call."""
        if pending.task is None:
            resumed = Resumed.of(pending, answers)
            again = replace(
                operation,
                # Of a call that was not approved yet, the server knows nothing.
                resumed=resumed if pending.call is None else None,
                approval=given_approval(resumed),
            )
            return await self._attempt(subject, lambda _: _made(make, again))
        # The server holds the state of a task: it can be followed again, and says what it still waits for.
        is_safe = replace(subject, is_repeatable=True, definition=None)

        async def follow(is_first: bool) -> Record:
            known = pending if is_first else replace(pending, requests={})
            resumed = Resumed.of(known, answers if is_first else {})
            return await _followed(make, replace(operation, resumed=resumed, detached=False))

        return await self._attempt(is_safe, follow)

    # Calls of functions

    async def run_function(
        self,
        name: str,
        arguments: Mapping[str, JSON],
        is_repeatable: bool,
        call: Callable[[], Awaitable[Record]],
    ) -> Record:
        """Call a function of the user, or return what was recorded."""
        subject = _subject(name, arguments, None, is_repeatable)
        async with self._turn:
            return await self._attempt(subject, lambda _: call())

    # Both

    async def _attempt(self, subject: Subject, make: Callable[[bool], Awaitable[Record]]) -> Record:
        """Record the intent, then the outcome; `make` learns whether no other execution has made the call."""
        token = await self._intend(subject)
        is_first = token == self.token

        async def outcome() -> Record:
            if token is None:
                return {"refused": refused_text(subject.name)}
            is_changed = self._held.changed(subject.name, subject.definition) is not None
            if not is_first and (is_changed or not subject.is_repeatable):
                logger.warning("run %s: the outcome of a call of %r is unknown", self.run_id, subject.name)
                return {"unknown": unknown_text(subject.name)}
            outer = JOURNAL.set(None)  # what is called may call tools itself: that is part of this call
            try:
                return await make(is_first)
            finally:
                JOURNAL.reset(outer)

        return await self.steps.run("call", outcome)

    async def _intend(self, subject: Subject) -> str | None:
        """Record the intent; the token of the execution that did, or None if a person refused a changed tool.

        An intent of a changed tool is followed by a question, and if that is accepted, by another intent.
        """
        while True:
            intent = await self.steps.run("intent", partial(self._intent, subject))
            if intent["call"] != subject.call:
                raise RunDiverged(self.run_id)
            self._held.pin(subject.name, intent["definition"])
            if (changed := intent.get("held")) is None:
                return intent["token"]
            question = changed_question(subject.name, subject.arguments, subject.call)
            if not answer_allows(await self.ask(question, {subject.name: changed})):
                return None
            self._held.accept(subject.name, changed)

    async def _intent(self, subject: Subject) -> Record:
        changed = self._held.changed(subject.name, subject.definition)
        intent: Record = {"token": self.token, "tool": subject.name, "call": subject.call}
        return intent | {"definition": subject.definition} | ({} if changed is None else {"held": changed})

    # Questions

    async def _answers(self, pending: Pending) -> dict[str, Answer]:
        return await self.ask(pending) if pending.questions else {}

    async def ask(self, pending: Pending, held: Mapping[str, str] | None = None) -> dict[str, Answer]:
        """Wait until somebody has answered the questions of a suspended call, or about a held tool."""
        self._questions += 1
        asked = Asked(id=f"q{self._questions}", pending=pending, held=held or {})
        await self.steps.show(asked.to_json())
        await self.steps.emit([asked.event])
        while True:
            try:
                answers = asked.read_answers(await self.steps.receive(asked.id))
                Resumed.of(pending, answers)
            except ValueError as error:  # whoever can write to the store can send anything
                logger.warning("run %s: an answer to %s was ignored: %s", self.run_id, asked.id, error)
                continue
            await self.steps.show(None)
            await self.steps.emit([asked.answered(answers)])
            return answers


class _Calls:
    """The journal as the path of operations knows it."""

    def __init__(self, journal: RunJournal, digest: Digest) -> None:
        self._journal = journal
        self._digest = digest

    async def run(self, operation: Operation, make: Make, /) -> ToolResult:
        return await self._journal.run_operation(operation, make, self._digest(operation.spec))


def unknown_text(name: str) -> str:
    """What the model reads instead of the result of a call whose outcome is unknown."""
    return (
        f"outcome unknown: the process that called {name!r} ended before the result was recorded, so the "
        f"call may or may not have taken effect; check before repeating it"
    )


def refused_text(name: str) -> str:
    """What the model reads instead of the result of a call of a changed tool that nobody accepted."""
    return f"{name!r} was not called: it changed since this run began, and a person did not accept that"


def _subject(
    name: str, arguments: Mapping[str, JSON], definition: str | None, is_repeatable: bool
) -> Subject:
    text = json.dumps([name, dict(arguments)], sort_keys=True, default=repr)
    call = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return Subject(
        name=name, arguments=arguments, call=call, definition=definition, is_repeatable=is_repeatable
    )


def is_safe_to_repeat(spec: ToolSpec) -> bool:
    """Whether a call that may have taken effect may be made again: by the config, or by a trusted hint."""
    if spec.repeatable or spec.route != "tools/call":  # the others read
        return True
    return spec.reads_only or (spec.trusted and spec.annotations.get("idempotentHint") is True)


async def _made(make: Make, operation: Operation) -> Record:
    try:
        result = await make(operation)
    except ToolbusError as error:
        return {"error": str(error)}
    if result.pending is not None:
        return {"pending": result.pending.to_json()}
    return {"result": result_json(result)}


async def _followed(make: Make, operation: Operation) -> Record:
    """The end of a task, or what it waits for, however long that takes."""
    while True:
        try:
            result = await make(operation)
        except CallTimeout:
            continue  # of one wait; the task goes on
        except ToolbusError as error:
            return {"error": str(error)}
        return {"pending": result.pending.to_json()} if result.pending else {"result": result_json(result)}


def _outcome(record: Record, tool: str) -> ToolResult:
    if "unknown" in record:
        return ToolResult.failure(record["unknown"], tool).with_notes(outcome="unknown")
    if (problem := record.get("refused", record.get("error"))) is not None:
        raise CallFailed(problem)
    return read_result(record["result"])
