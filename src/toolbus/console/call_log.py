"""The calls of a bus, as its console remembers them: those in flight, the last ones, and counts for charts.

It observes every operation: what it keeps is bounded, and it costs a call a few microseconds. With a history,
a thread writes each call to a file.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Literal, NamedTuple, TypeAlias

from toolbus.audit.history.record import CallFilter, CallProgress, RecordedCall, bucket_of
from toolbus.audit.history.write import HistoryWriter
from toolbus.audit.trail import REQUESTS
from toolbus.config.secrets.redact import redacted_by_all
from toolbus.console.record.contents import kept_arguments, kept_result
from toolbus.console.record.counts import CallCounts
from toolbus.console.widgets import short_session
from toolbus.core.operation.events import Reason
from toolbus.core.operation.operation import Caller, Failure, Operation
from toolbus.core.operation.phases import CallClock
from toolbus.core.values.records import JSON, OWN, Audio, Embedded, Image, Text, ToolResult

MOST_CALLS = 1_000
"""How many calls are remembered after their end."""
MOST_CONTENTS = 20
"""Of how many calls that the console itself made the arguments and the result are remembered."""
LARGEST_CONTENT = 1_000_000
"""In bytes, of a result."""
LONGEST_TEXT = 500
"""Characters of a name or an error that are kept."""
MOST_PROGRESS = 10
OWN_FACE = "console"
_UNSENT: frozenset[Reason] = frozenset({"refused", "invalid_arguments", "not_json", "unknown_tool"})
"""Failures that no server took time for."""
Outcome: TypeAlias = Literal["ok", "pending"] | Reason
"""`pending`: a question waits for its answer, or the server goes on with it as a task."""
Waiting: TypeAlias = Literal["", "approval", "answer"]
Clock: TypeAlias = Callable[[], float]


class _Content(NamedTuple):
    arguments: Mapping[str, JSON]
    result: ToolResult | None


class CallRecord:
    """One call in flight, or another request to a server; also its observation."""

    ignores_progress = True

    def __init__(self, log: "CallLog", operation: Operation, began: float) -> None:
        spec = operation.spec
        server, name = spec.origin.server, spec.name
        self.id = f"{log.prefix}-{operation.id}"
        self.route = spec.route
        if server == OWN:
            server = str(operation.server)
        if spec.route != "tools/call" or not server:  # a URI, or a name that nobody knows
            name = redacted_by_all(name)
        self.name: str = name if len(name) <= LONGEST_TEXT else _cut(name)
        self.server = server if len(server) <= LONGEST_TEXT else _cut(server)
        """Empty for an unknown tool."""
        self.caller: Caller = operation.caller
        self.at = time.time()
        self.began = began
        """By the clock of the log."""
        self.operation = operation
        self.clock = operation.clock
        self._log = log
        self._progress: tuple[CallProgress, ...] = ()

    @property
    def asked(self) -> float:
        """Seconds in which a person was asked so far."""
        people = self.operation.people
        return 0.0 if people is None else people.seconds

    @property
    def waits_for(self) -> Waiting:
        """The person that it waits for: one who approves it, or who answers its server."""
        people = self.operation.people
        if people is None or not people.is_asking:
            return ""
        phase = "" if self.clock is None else self.clock.phase
        return "answer" if phase in ("server", "task", "connection") else "approval"

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Remember the last reports, which the caller asked for."""
        at = self._log.running_for(self) + self.asked
        text = None if message is None else _cut(redacted_by_all(message[: 4 * LONGEST_TEXT]))
        self._progress = (*self._progress, CallProgress(at, progress, total, text))[-MOST_PROGRESS:]

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        self._log.end(self, result, failure)

    def recorded(self, outcome: Outcome | Literal[""] = "", *, with_content: bool = True) -> RecordedCall:
        """What is known of it now; with an outcome, it has ended."""
        people, clock, caller = self.operation.people, self.clock, self.caller
        asked = () if people is None else people.asked
        if people is not None and people.is_asking and (since := people.since):
            asked = (*asked, (since, time.perf_counter()))
        tool = self.operation.spec.origin.tool if self.route == "tools/call" else self.name
        is_kept = with_content and self._log.keeps_content(self)
        return RecordedCall(
            id=self.id,
            at=self.at - (0.0 if clock is None else clock.queued),
            ended=time.time() if outcome else None,
            route=self.route,
            server=self.server,
            tool=_cut(tool),
            name=self.name,
            face=_cut(caller.face),
            user=_cut(caller.user),
            session=_cut(short_session(caller.session)),
            run=_cut(caller.run),
            outcome=outcome,
            seconds=self._log.running_for(self),
            server_seconds=None if clock is None else clock.server_seconds(asked),
            phases=() if clock is None else clock.phases(asked),
            progress=self._progress,
            arguments=kept_arguments(self.operation.arguments) if is_kept else None,
        )


class CallLog:
    """Remembers calls; observed operations may come from any thread."""

    times_stations = True

    def __init__(self, clock: Clock = time.monotonic, history: HistoryWriter | None = None) -> None:
        self.history = history
        self.prefix = secrets.token_hex(3)
        """Begins the ids of calls: their numbers are those of this process alone."""
        self.counts = CallCounts(clock)
        self._clock = clock
        self._in_flight: dict[int, CallRecord] = {}
        """By the ids of their operations."""
        self._ended: OrderedDict[str, RecordedCall] = OrderedDict()
        """By id, the newest last."""
        self._contents: OrderedDict[str, _Content] = OrderedDict()
        self._lock = Lock()

    # As an observer

    def start(self, operation: Operation, /) -> CallRecord | None:
        """Remember an operation; what servers ask meanwhile is on another page."""
        if operation.spec.route in REQUESTS:
            return None
        if operation.clock is None:  # else another console times it
            object.__setattr__(operation, "clock", CallClock())
        record = CallRecord(self, operation, self._clock())
        self._in_flight[operation.id] = record
        return record

    def end(self, record: CallRecord, result: ToolResult | None, failure: Failure | None) -> None:
        self._in_flight.pop(record.operation.id, None)
        if failure is not None:
            outcome: Outcome = failure.reason
        else:
            outcome = "ok" if result is None or result.pending is None else "pending"
        call = record.recorded(outcome, with_content=False)
        error = None if failure is None or not failure.error else _cut(redacted_by_all(failure.error))
        if error is not None or result is not None:
            call = replace(call, error=error, size=0 if result is None else _size(result))
        took = call.server_seconds
        if took is None and record.clock is not None and not record.clock.phase and outcome not in _UNSENT:
            took = call.seconds  # nobody timed its stations
        bucket = None if took is None else bucket_of(took)
        self.counts.add(record.server, is_error=failure is not None, bucket=bucket)
        with self._lock:
            self._ended[call.id] = call
            if len(self._ended) > MOST_CALLS:
                self._ended.popitem(last=False)
        self._keep(record, call, result)

    def _keep(self, record: CallRecord, call: RecordedCall, result: ToolResult | None) -> None:
        arguments, history = record.operation.arguments, self.history
        if history is not None and history.setting.keep == "everything":
            history.put_call(partial(_finished, call, arguments, result))
        elif history is not None:
            history.put_call(lambda: call)
        if record.caller.face == OWN_FACE:
            kept = None if call.size > LARGEST_CONTENT else result
            with self._lock:
                self._contents[call.id] = _Content(arguments, kept)
                if len(self._contents) > MOST_CONTENTS:
                    self._contents.popitem(last=False)

    def keeps_content(self, record: CallRecord) -> bool:
        """Whether the arguments of a call are kept: the user wants it, or the console made the call."""
        keeps_all = self.history is not None and self.history.setting.keep == "everything"
        return keeps_all or record.caller.face == OWN_FACE

    # What pages show

    @property
    def in_flight(self) -> list[CallRecord]:
        """The calls that have not ended, the newest first."""
        return list(self._in_flight.values())[::-1]

    @property
    def ended(self) -> list[RecordedCall]:
        """The last calls that ended, the newest first."""
        with self._lock:
            return list(self._ended.values())[::-1]

    def running(self, id_: str) -> CallRecord | None:
        """A call in flight, by its id."""
        prefix, _, number = id_.partition("-")
        is_own = prefix == self.prefix and number.isascii() and number.isdigit() and len(number) < 20
        return self._in_flight.get(int(number)) if is_own else None

    def remembered(self, id_: str) -> RecordedCall | None:
        """A call that ended, by its id; with its content if this console made it."""
        with self._lock:
            call, content = self._ended.get(id_), self._contents.get(id_)
        return call if call is None or content is None else _finished(call, *content)

    def matching(self, wanted: CallFilter) -> list[RecordedCall]:
        """The last calls that ended and match, the newest first."""
        return [call for call in self.ended if wanted.matches(call)]

    def running_for(self, record: CallRecord) -> float:
        """Seconds that a call has taken so far, without those of people."""
        return self._clock() - record.began - record.asked


def _finished(call: RecordedCall, arguments: Mapping[str, JSON], result: ToolResult | None) -> RecordedCall:
    """The call with its content, as it is kept."""
    shown = None if result is None else kept_result(result, call.route)
    return replace(call, arguments=kept_arguments(arguments), result=shown)


def _size(result: ToolResult) -> int:
    """About the bytes of texts and data in a result."""
    size = 0
    for block in result.content:
        if isinstance(block, Text):
            size += len(block.text)
        elif isinstance(block, Image | Audio):
            size += len(block.data)
        elif isinstance(block, Embedded):
            size += len(block.text or "") + len(block.data or b"")
    return size


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."
