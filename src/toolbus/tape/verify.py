"""The calls of a tape, repeated against live servers.

The calls are made one after the other, in the recorded order. The tape answers the questions of servers. A
call is made only if it is read-only, by the tape and by the server of today.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, Protocol, TypeAlias, cast

from toolbus.core.ask.interactions import Interactions, Sampling, SamplingResult
from toolbus.core.operation.events import Logged
from toolbus.core.operation.operation import Failure, OnInput, Operation
from toolbus.core.values.elicitation import ELICITATION, Answer, Elicitation
from toolbus.core.values.errors import CallDenied, ToolbusError, ToolNotFound
from toolbus.core.values.records import (
    JSON,
    Inventory,
    JSONObject,
    TaskState,
    Text,
    ToolResult,
    ToolSpec,
)
from toolbus.schema.values import entries_of, items_of
from toolbus.tape.comparison import Level, TapeChange, offered_changes, result_changes
from toolbus.tape.content import CANCELLED, failure_json, lists_of, request_of, result_of
from toolbus.tape.format import ListName, RecordedCall, Tape
from toolbus.tape.live import RequestingBus
from toolbus.tape.matching import Matching
from toolbus.tape.privacy import Privacy, has_mask

Status: TypeAlias = Literal["same", "changed", "skipped"]
_REPEATED = frozenset(("tools/call", "resources/read", "prompts/get", "completion/complete"))
NOT_READ_ONLY = "not read-only"
"""The reason to skip a call without `--writes`."""


class VerifiedBus(RequestingBus, Protocol):
    """The part of a bus that repeats calls."""

    @property
    def inventories(self) -> Mapping[str, Inventory]: ...

    @property
    def failures(self) -> Mapping[str, ToolbusError]: ...

    async def call(
        self, name: str, arguments: Mapping[str, JSON] | None = None, *, on_input: OnInput = "ask"
    ) -> ToolResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedServer:
    """A server, and the changes of its definitions."""

    name: str
    """Its name on the tape."""
    changes: tuple[TapeChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCall:
    """A repeated call of the tape, with its changes."""

    call: RecordedCall
    status: Status
    changes: tuple[TapeChange, ...] = ()
    reason: str = ""
    """The reason, if it was skipped."""
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class Verification:
    """The outcome of all calls."""

    level: Level
    servers: list[VerifiedServer] = field(default_factory=list[VerifiedServer])
    calls: list[VerifiedCall] = field(default_factory=list[VerifiedCall])
    is_interrupted: bool = False

    @property
    def changes(self) -> list[TapeChange]:
        """Every change."""
        return [change for one in (*self.servers, *self.calls) for change in one.changes]

    def count(self, status: Status) -> int:
        """The number of calls with this status."""
        return sum(one.status == status for one in self.calls)


class LiveOutcome:
    """An observer that keeps how the last request of a method ended, as a tape has it."""

    at_server: Literal[True] = True

    def __init__(self) -> None:
        self.target: tuple[str, str] = "", ""
        """The method and name that count."""
        self.result: JSONObject | None = None
        self.failure: JSONObject | None = None
        self._operation: Operation | None = None

    def expect(self, method: str, name: str) -> None:
        """Forget the last request, and wait for this one."""
        self.target, self.result, self.failure = (method, name), None, None

    def start(self, operation: Operation, /) -> "_OutcomeObservation | None":
        """Follow the request, if it is the expected one."""
        if operation.route != self.target[0] or request_of(operation)[0] != self.target[1]:
            return None
        return _OutcomeObservation(self, operation)

    def offered(self, inventories: Mapping[str, Inventory], /) -> None:
        """Nothing: the bus knows them."""

    def updated(self, server: str, uri: str, /) -> None:
        """Nothing: changes are not compared."""

    def closed(self) -> None:
        """Nothing is open."""


class _OutcomeObservation:
    """One request."""

    def __init__(self, outcome: LiveOutcome, operation: Operation) -> None:
        self._outcome, self._operation = outcome, operation

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Do nothing: this is not compared."""

    def log(self, event: Logged) -> None:
        """Do nothing: this is not compared."""

    def task(self, state: TaskState) -> None:
        """Do nothing: this is not compared."""

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        """Keep how it ended."""
        observed = self._operation.observed
        error = None if observed is None else observed.error
        if result is not None:
            self._outcome.result, self._outcome.failure = result_of(self._operation, result), None
        elif failure is not None and not isinstance(error, CallDenied):
            self._outcome.result, self._outcome.failure = None, failure_json(failure, error)


class RecordedAnswers:
    """Answers the questions of servers as the tape does."""

    def __init__(self, tape: Tape, privacy: Privacy) -> None:
        self._privacy = privacy
        self._asked: list[JSONObject] = []
        """The recorded questions of the call that are still to come."""
        self.unexpected: list[str] = []
        """Questions that the tape does not have."""
        self._roots = _roots_of(tape, privacy)

    @property
    def interactions(self) -> Interactions:
        """Handlers for a bus."""
        return Interactions(elicit=self._elicit, sample=self._sample, roots=self._roots)

    def expect(self, asked: Sequence[JSONObject]) -> None:
        """Answer these questions from now on."""
        self._asked, self.unexpected = list(asked), []

    @property
    def unasked(self) -> list[str]:
        """The recorded questions of people that were not asked."""
        return [_message(one) for one in self._asked if one["method"] == ELICITATION]

    def _take(self, method: str, message: str | None) -> JSON:
        alike = [one for one in self._asked if one["method"] == method]
        same = [one for one in alike if self._privacy.replayed(_message(one)) == message]
        if method == ELICITATION and not same:
            self.unexpected.append(str(message))
            return None
        if not alike:
            self.unexpected.append(method)
            return None
        found = (same or alike)[0]
        self._asked.remove(found)
        return self._privacy.replayed(found["answer"])

    def _elicit(self, question: Elicitation) -> Answer:
        answer = entries_of(self._take(ELICITATION, question.message))
        return Answer(action=answer.get("action", "cancel"), content=answer.get("content"))

    def _sample(self, request: Sampling) -> SamplingResult | None:
        answer = entries_of(self._take("sampling/createMessage", None))
        content = entries_of(answer.get("content"))
        if "text" not in content:
            return None
        model, stop = str(answer.get("model", "")), answer.get("stopReason", "endTurn")
        return SamplingResult(content=Text(text=content["text"]), model=model, stop_reason=stop)


def _message(asked: JSONObject) -> str:
    return str(entries_of(asked.get("params")).get("message"))


def _roots_of(tape: Tape, privacy: Privacy) -> list[str]:
    """The folders that servers were told when the tape was recorded."""
    for call in tape.calls():
        for asked in call.questions:
            if asked["method"] == "roots/list":
                told = items_of(entries_of(privacy.replayed(asked.get("answer"))).get("roots"))
                return [str(entries_of(one).get("uri")) for one in told]
    return []


class TapeVerifier:
    """Repeats the calls of a tape, one after the other."""

    def __init__(
        self,
        tape: Tape,
        aliases: Mapping[str, str],
        *,
        level: Level = "shape",
        writes: bool = False,
        timeout: float | None = None,
        matching: Matching | None = None,
        privacy: Privacy | None = None,
    ) -> None:
        """`aliases` are the servers to verify: by their name on the tape, their alias on the bus."""
        self._tape, self._aliases = tape, aliases
        self._writes, self._timeout = writes, timeout
        self._matching, self._privacy = matching or Matching(), privacy or Privacy()
        self.found = Verification(level=level)
        self.outcome = LiveOutcome()
        """An observer of the bus."""
        self.answers = RecordedAnswers(tape, self._privacy)
        self._chains = _chains(tape)

    @property
    def repeated(self) -> list[RecordedCall]:
        """The calls to repeat, in the recorded order."""
        if self.found.level == "schema":
            return []
        return [
            call
            for call in self._tape.calls()
            if call.method in _REPEATED and call.resumes is None and call.server in self._aliases
        ]

    async def run(self, bus: VerifiedBus, done: Callable[[int], None] = lambda _: None) -> None:
        """Compare the definitions, and repeat the calls; `found` is filled in meanwhile.

        `done` gets the number of calls after each of them.
        """
        try:
            for name, alias in self._aliases.items():
                self.found.servers.append(VerifiedServer(name=name, changes=self._offered(bus, name, alias)))
            for number, call in enumerate(self.repeated, 1):
                self.found.calls.append(await self._verified(bus, call))
                done(number)
        except asyncio.CancelledError:
            self.found.is_interrupted = True

    def _offered(self, bus: VerifiedBus, name: str, alias: str) -> tuple[TapeChange, ...]:
        if (error := bus.failures.get(alias)) is not None:
            return (TapeChange(kind="server", text=str(error)),)
        lists = self._privacy.recorded(cast("JSON", lists_of(bus.inventories[alias])))
        first: dict[ListName, list[JSON]] = {}
        for listing in self._tape.listings.get(name, ()):
            first.setdefault(listing.kind, listing.items)
        return tuple(offered_changes(first, lists))

    async def _verified(self, bus: VerifiedBus, call: RecordedCall) -> VerifiedCall:
        alias = self._aliases[call.server]
        if (reason := self._skipped(bus, call, alias)) is not None:
            return VerifiedCall(call=call, status="skipped", reason=reason)
        if not self._writes and call.method == "tools/call" and not self._tools_now(bus, call, alias):
            # Not even tried: a server could list it meanwhile, as a tool that writes.
            return VerifiedCall(call=call, status="changed", changes=(_gone(call),))
        chain = self._chains.get(call.id, [call])
        self.answers.expect(_asked(chain))
        self.outcome.expect(call.method, str(self._privacy.replayed(call.name)))
        loop = asyncio.get_running_loop()
        began = loop.time()
        caught: Exception | None = None
        try:
            async with asyncio.timeout(self._timeout):
                await self._make(bus, alias, call)
        except (ToolbusError, TimeoutError) as error:
            caught = error
        if isinstance(caught, CallDenied):
            return VerifiedCall(call=call, status="skipped", reason=str(caught))
        changes = tuple(self._changes(call, chain[-1], caught))
        seconds = round(loop.time() - began, 3)
        return VerifiedCall(
            call=call, status="changed" if changes else "same", changes=changes, seconds=seconds
        )

    async def _make(self, bus: VerifiedBus, alias: str, call: RecordedCall) -> None:
        name: str = self._privacy.replayed(call.name)
        arguments: dict[str, Any] = self._privacy.replayed(dict(call.arguments))
        match call.method:
            case "tools/call":
                await bus.call(f"{alias}/{name}", arguments)
            case "resources/read":
                await bus.read_resource(alias, name)
            case "prompts/get":
                await bus.get_prompt(alias, name, arguments)
            case _:
                argument, value = arguments["argument"], arguments["value"]
                await bus.complete(alias, name, argument, value, known=arguments.get("known"))

    # Which calls are made

    def _skipped(self, bus: VerifiedBus, call: RecordedCall, alias: str) -> str | None:
        """The reason to skip a call; None to make it."""
        if alias in bus.failures:
            return "its server cannot be used"
        chain = self._chains.get(call.id, [call])
        if has_mask(call.arguments) or has_mask(call.name):
            return "its arguments had a secret, which the tape does not have"
        if any(has_mask(one.get("answer")) for one in _asked(chain)):
            return "an answer had a secret, which the tape does not have"
        if any(one.get("answer") is None for one in _asked(chain)):
            return "nobody answered its question when it was recorded"
        if (chain[-1].failure or {}).get("error") == CANCELLED or chain[-1].is_suspended:
            return "it had not ended when it was recorded"
        if self._writes or call.method != "tools/call" or self._is_read_only(bus, call, alias):
            return None
        return NOT_READ_ONLY

    def _is_read_only(self, bus: VerifiedBus, call: RecordedCall, alias: str) -> bool:
        """Whether the tape and the server say so; of a tool that is gone, whether the tape does."""
        recorded = [
            entries_of(entries_of(one).get("annotations")).get("readOnlyHint")
            for listing in self._tape.listings.get(call.server, ())
            for one in listing.items
            if listing.kind == "tools" and entries_of(one).get("name") == call.name
        ]
        now = [(one.annotations or {}).get("readOnlyHint") for one in self._tools_now(bus, call, alias)]
        return all(one is True for one in (*recorded, *now)) and bool(recorded)

    def _tools_now(self, bus: VerifiedBus, call: RecordedCall, alias: str) -> list[ToolSpec]:
        name: str = self._privacy.replayed(call.name)
        return [one for one in bus.inventories[alias].tools if one.origin.tool == name]

    # What differs

    def _changes(
        self, call: RecordedCall, expected: RecordedCall, caught: Exception | None
    ) -> list[TapeChange]:
        if isinstance(caught, TimeoutError):
            return [TapeChange(kind="timeout", text=f"takes more than {self._timeout:g} s")]
        if isinstance(caught, ToolNotFound):
            return [_gone(call)]
        found = [
            TapeChange(kind="question", text=f"asks something else: {one}") for one in self.answers.unexpected
        ]
        result, failure = self.outcome.result, self.outcome.failure
        if result is None and failure is None and caught is not None:
            failure = {"error": type(caught).__name__, "message": str(caught)}
        if not found and result is not None and expected.failure is None:
            found += [
                TapeChange(kind="question", text=f"does not ask any more: {one}", is_breaking=False)
                for one in self.answers.unasked
            ]
        return found or self._ends_differently(expected, result, failure)

    def _ends_differently(
        self, expected: RecordedCall, result: JSONObject | None, failure: JSONObject | None
    ) -> list[TapeChange]:
        before = expected.failure
        if failure is not None:
            said = self._privacy.recorded(str(failure.get("text") or failure.get("message") or ""))
            if before is None:
                return [TapeChange(kind="error", text=f"fails now: {said}")]
            if before.get("error") != failure.get("error") or before.get("code") != failure.get("code"):
                text = f"failed with {before.get('error')}, and now with {failure.get('error')}: {said}"
                return [TapeChange(kind="error", text=text)]
            return []
        if before is not None:
            return [TapeChange(kind="error", text="does not fail any more", is_breaking=False)]
        now = entries_of(self._privacy.recorded(cast("JSON", result or {})))
        recorded = self._finished(expected)
        return list(result_changes(recorded, now, self._matching, self.found.level))

    def _finished(self, call: RecordedCall) -> JSONObject:
        """The result of a call, or of its task if it was detached."""
        result = call.result or {}
        task = result.get("taskId")
        for other in self._tape.calls() if task is not None else ():
            if other.method == "tasks/get" and other.name == task and "result" in (other.result or {}):
                result = entries_of((other.result or {})["result"])
        return result


def _chains(tape: Tape) -> dict[int, list[RecordedCall]]:
    """The calls that were suspended, each with those that went on with it, in order."""
    chains: dict[int, list[RecordedCall]] = {}
    for call in tape.calls():
        if call.resumes is not None:
            with suppress(KeyError):
                chain = chains.setdefault(call.resumes, [tape.call(call.resumes)])
                if chain[-1].is_suspended:  # else it was answered twice
                    chain.append(call)
                chains[call.id] = chain
    return chains


def _gone(call: RecordedCall) -> TapeChange:
    return TapeChange(kind="missing", text=f"there is no tool {call.name!r} any more")


def _asked(chain: Sequence[RecordedCall]) -> list[JSONObject]:
    """The questions during a call, with their answers."""
    found = [asked for call in chain for asked in call.questions]
    for suspended, going_on in pairwise(chain):
        requests = entries_of((suspended.result or {}).get("inputRequests"))
        answers = going_on.answers or {}
        found += [
            {**entries_of(asked), "answer": answers[key]} for key, asked in requests.items() if key in answers
        ]
    return found
