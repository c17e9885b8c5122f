"""The journal of one execution of a run: each call is noted before it is made, and recorded when it is done.

A later execution that finds a note of a call without a record cannot know whether the call took effect. It
repeats the call if that is safe. Otherwise the result is an error that the model reads.
"""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pydantic_ai.messages import ToolCallPart

from toolbus.agent.durable.execution.codec import read_result, result_json
from toolbus.agent.durable.execution.steps import Clock, HeldTools, Steps, short
from toolbus.agent.durable.questions import LATE, WaitingCall, answer_allows, changed_question
from toolbus.agent.durable.store import dbos_private as seam
from toolbus.agent.durable.store.notes import Intent, Notes
from toolbus.bus.catalog.tool import failure_text
from toolbus.bus.tasks import given_approval, is_begun
from toolbus.core.operation.operation import JOURNAL, Make, Operation, Resumed
from toolbus.core.operation.run_errors import RunDiverged
from toolbus.core.values.elicitation import Answer, Pending
from toolbus.core.values.errors import CallTimeout, ToolbusError
from toolbus.core.values.records import JSON, ToolResult, ToolSpec, with_notes

logger = logging.getLogger("toolbus")
Record: TypeAlias = dict[str, Any]
"""The record of a call: a `result`, an `error`, a `pending` call, `refused` or `unknown`."""
Digest: TypeAlias = Callable[[ToolSpec], str | None]
Checkers: TypeAlias = Callable[[str], Sequence[str]]
"""The tools with which a model can check the outcome of a tool call."""
_NUMBERS = 1000
"""For the steps of one call, if a turn has several: they may be made at the same time."""
_DIGITS = 32
"""Of the digest of a call."""
_SHOWN = 500
"""Characters of the arguments of a call whose outcome is unknown."""


class CallFailed(ToolbusError):
    """A call that failed, as it was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The subject of a call."""

    name: str
    """The tool: `server/tool`, or the name of a function."""
    arguments: Mapping[str, JSON]
    call: str
    """The digest of the tool and the arguments."""
    definition: str | None
    """The digest of the tool's definition; None if it does not matter whether that changed."""
    is_repeatable: bool
    called: "ModelCall | None" = None

    def is_of(self, record: Record) -> bool:
        """Whether a record is of this call.

        A function may have got a parameter with a default meanwhile, so the model's own calls are told by id.
        """
        if self.called is not None:
            return (record["tool"], record.get("id")) == (self.name, self.called.id)
        return record["call"] == self.call


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A call of the model, which its record is about."""

    id: str
    name: str
    """The tool, as the model knows it."""
    server: str | None
    origin: object = None
    """Of the tool; None for a function."""

    @property
    def about(self) -> Record:
        """The members of an event about this call."""
        return {"id": self.id, "name": self.name, "server": self.server}


class RunJournal:
    """The journal of one execution of one run."""

    def __init__(
        self,
        run: str,
        steps: Steps,
        held: HeldTools,
        clock: Clock,
        checkers: Checkers,
        answer_within: float | None,
    ) -> None:
        """`answer_within` seconds a person has to answer; None for any time."""
        self.run_id = run
        self.steps = steps
        self.returned: set[str] = set()
        """The calls of the model whose records tell what they returned."""
        self._held = held
        self._clock = clock
        self._checkers = checkers
        self._answer_within = answer_within
        self._notes = Notes(run)
        self._numbers: dict[str, int] = {}
        self._asking = asyncio.Lock()

    async def replay(self) -> None:
        """Begin with what earlier executions recorded."""
        self.steps.recorded = await self.steps.note(self._notes.load())

    async def run_model(self, ask: Callable[[], Awaitable[Record]]) -> Record:
        """Ask the model, or return its recorded response."""

        async def timed() -> Record:
            return {**await ask(), "elapsed": self._clock.seconds}

        if seam.next_number() in self._notes.intents:  # a call was made here
            raise self.steps.abort(RunDiverged(self.run_id))
        record = await self.steps.run("model", timed)
        self._clock.replay(record["elapsed"])
        return record

    # Calls of the model

    def number_calls(self, calls: Sequence[str]) -> None:
        """Give each of several calls of one turn numbers of its own, in whatever order they are made."""
        self._numbers.clear()
        if len(calls) > 1:
            self._numbers = {call: seam.reserve_numbers(_NUMBERS) for call in calls}

    def has_made(self, calls: Iterable[ToolCallPart]) -> bool:
        """Whether an earlier execution made one of several calls of this turn."""
        made = {*self.steps.recorded, *self._notes.intents}
        begun = [self._numbers[call.tool_call_id] for call in calls if call.tool_call_id in self._numbers]
        return any(first < number <= first + _NUMBERS for first in begun for number in made)

    @contextmanager
    def call(self, call: str) -> Generator[None]:
        """Record the operations made within as one call of the model."""
        if call not in self._numbers:
            yield
            return
        with seam.numbered_from(self._numbers[call]) as last:
            yield
        self._numbers[call] = last()

    @contextmanager
    def calls(self, digest: Digest, called: ModelCall) -> Generator[None]:
        """Journal the operations that are made within; `digest` is of their tools' definitions."""
        token = JOURNAL.set(_Calls(self, digest, called))
        try:
            yield
        finally:
            JOURNAL.reset(token)

    # Calls of tools

    async def run_operation(
        self, operation: Operation, make: Make, definition: str | None, called: ModelCall | None
    ) -> ToolResult:
        """Make an operation until it has a result, or return its recorded result."""
        spec = operation.spec
        is_repeatable = is_safe_to_repeat(spec)
        subject = _subject(str(spec.origin), operation.arguments, definition, is_repeatable, called)
        waiting = replace(operation, on_input="suspend", detached=True, observed=None)
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
                resumed=resumed if is_begun(pending) else None,
                approval=given_approval(resumed),
            )
            return await self._attempt(subject, lambda _: _made(make, again))
        # The server holds the state of a task: it can be followed again, and says what it still waits for.
        is_safe = replace(subject, is_repeatable=True, definition=None)

        async def follow(is_first: bool) -> Record:
            known = pending if is_first else replace(pending, requests={})
            resumed = Resumed.of(known, answers if is_first else {})
            return await _followed(make, replace(operation, resumed=resumed, detached=False))

        return await self._attempt(is_safe, follow, is_noted=True)

    # Calls of functions

    async def run_function(
        self,
        called: ModelCall,
        arguments: Mapping[str, JSON],
        is_repeatable: bool,
        call: Callable[[], Awaitable[Record]],
    ) -> Record:
        """Call a function of the user, or return its recorded result."""
        subject = _subject(called.name, arguments, None, is_repeatable, called)
        return await self._attempt(subject, lambda _: call())

    # Both

    async def _attempt(
        self, subject: Subject, make: Callable[[bool], Awaitable[Record]], *, is_noted: bool = False
    ) -> Record:
        """Record the outcome of a call; `make` learns whether no other execution has made it.

        A call is noted first if it may not be repeated, or if `make` has to know. One of a changed tool is
        not made: a question follows, and if that is accepted, another attempt.
        """
        about = {"tool": subject.name, "call": subject.call, "definition": subject.definition}
        about |= subject.called.about if subject.called else {}
        is_noted = is_noted or not subject.is_repeatable

        async def outcome() -> Record:
            began = time.monotonic()
            record = await self._made(subject, make, is_noted)
            seconds = round(time.monotonic() - began, 6)
            return {**about, "seconds": seconds, "elapsed": self._clock.seconds, **record}

        while True:
            record = await self.steps.run("call", outcome)
            if not subject.is_of(record):
                raise self.steps.abort(RunDiverged(self.run_id))
            self._clock.replay(record["elapsed"])
            self._held.pin(subject.name, record["definition"])
            if (changed := record.get("held")) is None:
                if subject.called is not None and "pending" not in record:
                    self.returned.add(subject.called.id)
                return record
            question = changed_question(subject.name, subject.arguments, subject.call)
            if not answer_allows(await self.ask(question, {subject.name: changed})):
                return await self.steps.run("call", lambda: _refused({**about, "seconds": 0.0}, subject.name))
            self._held.accept(subject.name, changed)

    async def _made(
        self, subject: Subject, make: Callable[[bool], Awaitable[Record]], is_noted: bool
    ) -> Record:
        number = seam.next_number()
        earlier = self._notes.intents.get(number)
        changed = self._held.changed(subject.name, subject.definition)
        if earlier is not None and (changed is not None or not subject.is_repeatable):
            logger.warning("run %s: the outcome of a call of %r is unknown", self.run_id, subject.name)
            return {"unknown": unknown_text(subject.name, earlier, self._checkers(subject.name))}
        if changed is not None:
            return {"held": changed}
        if earlier is None and is_noted:
            await self.steps.note(self._notes.intend(number, subject.name, subject.arguments))
        outer = JOURNAL.set(None)  # what is called may call tools itself: that is part of this call
        try:
            return await make(earlier is None)
        finally:
            JOURNAL.reset(outer)

    # Questions

    async def _answers(self, pending: Pending) -> dict[str, Answer]:
        return await self.ask(pending) if pending.questions else {}

    async def ask(self, pending: Pending, held: Mapping[str, str] | None = None) -> dict[str, Answer]:
        """Wait until somebody has answered the questions of a suspended call, or about a held tool."""
        async with self._asking:  # one question at a time
            number = seam.next_number()
            asked = self._notes.asked.get(number)
            if asked is None:
                asked = WaitingCall(id=f"q{len(self._notes.asked) + 1}", pending=pending, held=held or {})
                await self.steps.note(self._notes.ask(number, asked))
            with self._clock.stopped():
                answers = await self._receive(asked)
            if self.steps.upcoming is None:
                await self.steps.note(self._notes.close(number))
            return answers

    async def _receive(self, asked: WaitingCall) -> dict[str, Answer]:
        while True:
            sent = await self.steps.receive(asked.id, self._answer_within)
            if sent is None:
                logger.warning("run %s: nobody answered %s in time", self.run_id, asked.id)
                return dict.fromkeys(asked.pending.questions, LATE)
            try:
                answers = asked.read_answers(sent)
                Resumed.of(asked.pending, answers)
            except ValueError as error:  # whoever can write to the store can send anything
                logger.warning("run %s: an answer to %s was ignored: %s", self.run_id, asked.id, error)
                continue
            return answers


class _Calls:
    """The journal as the path of operations knows it: one call of the model, which may make several."""

    def __init__(self, journal: RunJournal, digest: Digest, called: ModelCall) -> None:
        self._journal = journal
        self._digest = digest
        self._called: ModelCall | None = called
        self._turn = asyncio.Lock()

    async def run(self, operation: Operation, make: Make, /) -> ToolResult:
        async with self._turn:  # a script may make several at a time
            called, self._called = self._called, None
            if called is not None and called.origin != operation.spec.origin:
                called = None  # a script, or a tool that calls others: its record is not that of the call
            definition = self._digest(operation.spec)
            return await self._journal.run_operation(operation, make, definition, called)


def unknown_text(name: str, intent: Intent, checkers: Sequence[str]) -> str:
    """The text for the model in place of the result of a call whose outcome is unknown."""
    said = json.dumps(dict(intent.arguments), ensure_ascii=False, default=repr)
    shown = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}..."
    at = datetime.fromtimestamp(intent.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    how = f", for example with {', '.join(map(repr, checkers))}" if checkers else ""
    return (
        f"outcome unknown: the process that called {name!r} with {shown} at {at} ended before the result was "
        f"recorded; before repeating it, check whether it took effect{how}"
    )


def refused_text(name: str) -> str:
    """The text for the model in place of the result of a call of a changed tool that nobody accepted."""
    return f"{name!r} was not called: it changed since this run began, and a person did not accept that"


async def _refused(about: Record, name: str) -> Record:
    return {**about, "refused": refused_text(name)}


def _subject(
    name: str,
    arguments: Mapping[str, JSON],
    definition: str | None,
    is_repeatable: bool,
    called: ModelCall | None,
) -> Subject:
    text = json.dumps([name, dict(arguments)], sort_keys=True, default=repr)
    return Subject(
        name=name,
        arguments=arguments,
        call=hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGITS],
        definition=None if definition is None else short(definition),
        is_repeatable=is_repeatable,
        called=called,
    )


def is_safe_to_repeat(spec: ToolSpec) -> bool:
    """Whether a call that may have taken effect may be repeated: by the config, or by a trusted hint."""
    if spec.repeatable or spec.route != "tools/call":  # the others read
        return True
    return spec.reads_only or (spec.trusted and spec.annotations.get("idempotentHint") is True)


async def _made(make: Make, operation: Operation) -> Record:
    try:
        result = await make(operation)
    except ToolbusError as error:
        return {"error": failure_text(str(error))}
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
            return {"error": failure_text(str(error))}
        return {"pending": result.pending.to_json()} if result.pending else {"result": result_json(result)}


def _outcome(record: Record, tool: str) -> ToolResult:
    if "unknown" in record:
        return with_notes(ToolResult.failure(record["unknown"], tool), outcome="unknown")
    if (problem := record.get("refused", record.get("error"))) is not None:
        raise CallFailed(problem)
    return read_result(record["result"])
