"""The calls of a bus in its console's memory: active calls, the latest ones, and data for charts.

It observes every operation, with bounded memory, at a cost of a few microseconds per call. With a history, a
thread writes each call to a file.
"""

import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Literal, TypeAlias

from toolbus.audit.history.record import CallProgress, HistoryCall, bucket_of
from toolbus.audit.history.write import HistoryWriter
from toolbus.audit.trail import REQUESTS
from toolbus.config.secrets.redact import head_by_all, redacted_by_all
from toolbus.console.record.contents import kept_arguments, kept_result
from toolbus.console.record.counts import CallCounts
from toolbus.console.widgets import short_session
from toolbus.core.ask.interactions import PeopleTime
from toolbus.core.operation.events import Reason
from toolbus.core.operation.operation import Caller, Failure, Operation
from toolbus.core.operation.phases import CallClock
from toolbus.core.values.records import JSON, OWN, Audio, Embedded, Image, Text, ToolResult

MOST_CALLS = 1_000
"""The number of calls that are remembered after their end."""
MOST_CONTENTS = 20
"""Of how many calls that the console itself made the arguments and the result are remembered."""
LARGEST_CONTENT = 1_000_000
"""In bytes, of a result."""
LONGEST_TEXT = 500
"""Characters of a name or an error that are kept."""
MOST_PROGRESS = 10
OWN_FACES = ("console", "app")
_UNSENT: frozenset[Reason] = frozenset({"refused", "invalid_arguments", "not_json", "unknown_tool"})
"""Failures that no server took time for."""
Outcome: TypeAlias = Literal["ok", "pending"] | Reason
"""`pending`: a question waits for its answer, or the server goes on with it as a task."""
Waiting: TypeAlias = Literal["", "approval", "answer"]
Clock: TypeAlias = Callable[[], float]


class CallRecord:
    """One call in flight or one that ended, or another request to a server; also its observation."""

    ignores_progress = True

    def __init__(self, log: "CallLog", operation: Operation, began: float) -> None:
        spec = operation.spec
        server, name = spec.origin.server, spec.name
        self.number = operation.id
        """The id of its operation."""
        self.id = f"{log.prefix}-{operation.id}"
        """Unique, also among processes."""
        self.route = spec.route
        if server == OWN:
            server = str(operation.server)
        if spec.route != "tools/call" or not server:  # a URI, or a name that nobody knows
            name = redacted_by_all(name)
        self.name: str = name if len(name) <= LONGEST_TEXT else _cut(name)
        self.server = server if len(server) <= LONGEST_TEXT else _cut(server)
        """Empty for an unknown tool."""
        self.tool = _cut(spec.origin.tool) if spec.route == "tools/call" and server else self.name
        self.caller: Caller = operation.caller
        self.at = time.time()
        self.ended_at: float | None = None
        self.began = began
        """The start time, by the clock of the log."""
        self.elapsed: float | None = None
        """Seconds, without those in which a person was asked; None while it is in flight."""
        self.outcome: Outcome | None = None
        self.error: str | None = None
        """The message of a failure, or the beginning of what the tool reported; None if there is none."""
        self.size = 0
        self.arguments: Mapping[str, JSON] | None = operation.arguments
        """While it is in flight, and then only if this console made the call."""
        self.result: ToolResult | None = None
        """If this console made the call."""
        self._log = log
        self._clock = operation.clock
        self._known_people: PeopleTime | None = None
        self._operation: Operation | None = operation
        self._progress: tuple[CallProgress, ...] = ()
        self._recorded: HistoryCall | None = None
        """Once it has ended."""

    @property
    def _people(self) -> PeopleTime | None:
        if self._known_people is None and self._operation is not None:
            self._known_people = self._operation.people
        return self._known_people

    @property
    def asked(self) -> float:
        """Seconds in which a person was asked so far."""
        people = self._people
        return 0.0 if people is None else people.seconds

    @property
    def is_error(self) -> bool:
        return self.outcome not in (None, "ok", "pending")

    @property
    def waits_for(self) -> Waiting:
        """The person that it waits for now: one who approves it, or who answers its server."""
        people = None if self.outcome is not None else self._people
        if people is None or not people.is_asking:
            return ""
        phase = "" if self._clock is None else self._clock.phase
        return "answer" if phase in ("server", "task") else "approval"

    @property
    def server_seconds(self) -> float | None:
        """The time of its server so far; None if nothing was sent."""
        if self._clock is not None and self._clock.phase:
            return self._clock.server_seconds(self._asked_times())
        return None if self.outcome in _UNSENT else self.elapsed  # nobody timed its stations

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Remember the last reports, which the caller asked for."""
        at = self._log.running_for(self) + self.asked
        text = None if message is None else _head(message)
        self._progress = (*self._progress, CallProgress(at, progress, total, text))[-MOST_PROGRESS:]

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        if self._clock is not None:
            self._clock.end()
        self._log.end(self, result, failure)
        self._operation = None

    @property
    def shows_content(self) -> bool:
        """Whether its content is shown: the user keeps that, or the console made the call."""
        return self.caller.face in OWN_FACES or self._log.keeps_content

    def recorded(self) -> HistoryCall:
        """A record of it, without its content."""
        if self._recorded is None:
            recorded = self._made_record()
            if self.outcome is None:
                return recorded
            self._recorded = recorded
        return self._recorded

    def _made_record(self) -> HistoryCall:
        clock, caller, asked = self._clock, self.caller, self._asked_times()
        return HistoryCall(
            id=self.id,
            at=self.at - (0.0 if clock is None else clock.queued),
            ended=self.ended_at,
            route=self.route,
            server=self.server,
            tool=self.tool,
            name=self.name,
            face=_cut(caller.face),
            user=_cut(caller.user),
            session=_cut(short_session(caller.session)),
            run=_cut(caller.run),
            outcome=self.outcome or "",
            error=self.error,
            seconds=self._log.running_for(self),
            server_seconds=self.server_seconds,
            phases=() if clock is None else clock.phases(asked),
            progress=self._progress,
            size=self.size,
        )

    def with_content(self) -> HistoryCall:
        """The same with its arguments and its result, as far as they are kept."""
        return _with_content(self.recorded(), self.arguments, self.result)

    def _asked_times(self) -> tuple[tuple[float, float], ...]:
        people = self._people
        return () if people is None else people.asked_until_now


class CallLog:
    """Remembers calls; observed operations may come from any thread."""

    times_stations = True

    def __init__(self, clock: Clock = time.monotonic, history: HistoryWriter | None = None) -> None:
        self.history = history
        self.prefix = secrets.token_hex(3)
        """Begins the ids of calls, because another process has calls with the same numbers."""
        self.counts = CallCounts(clock)
        self._clock = clock
        self._in_flight: dict[int, CallRecord] = {}
        """The calls in flight, by the ids of their operations."""
        self._ended: OrderedDict[str, CallRecord] = OrderedDict()
        """By id, the newest last."""
        self._own: deque[CallRecord] = deque()
        """The last calls of the console, with their content."""
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
        self._in_flight.pop(record.number, None)
        record.ended_at = time.time()
        record.elapsed = self.running_for(record)
        if failure is not None:
            record.outcome = failure.reason
            error = failure.error or _error_text(result)
            record.error = _head(error) if error else None
        else:
            record.outcome = "ok" if result is None or result.pending is None else "pending"
        record.size = 0 if result is None else _size(result)
        took = record.server_seconds
        bucket = None if took is None else bucket_of(took)
        self.counts.add(record.server, is_error=failure is not None, bucket=bucket)
        with self._lock:
            self._ended[record.id] = record
            if len(self._ended) > MOST_CALLS:
                self._ended.popitem(last=False)
        self._keep(record, result)

    def _keep(self, record: CallRecord, result: ToolResult | None) -> None:
        """Have the call written, and forget its content unless the console made it."""
        arguments, history = record.arguments or {}, self.history
        if history is not None:
            keeps_all = history.setting.keep == "everything"
            history.put_call(partial(_written, record, arguments, result) if keeps_all else record.recorded)
        if record.caller.face not in OWN_FACES:
            record.arguments = None
            return
        record.result = None if record.size > LARGEST_CONTENT else result
        with self._lock:
            self._own.append(record)
            if len(self._own) > MOST_CONTENTS:
                oldest = self._own.popleft()
                oldest.arguments = oldest.result = None

    @property
    def keeps_content(self) -> bool:
        """Whether the user wants the content of all calls to be kept."""
        return self.history is not None and self.history.setting.keep == "everything"

    # What pages show

    @property
    def in_flight(self) -> list[CallRecord]:
        """The calls that have not ended, the newest first."""
        return list(self._in_flight.values())[::-1]

    @property
    def ended(self) -> list[CallRecord]:
        """The last calls that ended, the newest first."""
        with self._lock:
            return list(self._ended.values())[::-1]

    def get(self, id_: str) -> CallRecord | None:
        """A call by its id, in flight or one of the last."""
        with self._lock:
            ended = self._ended.get(id_)
        prefix, _, number = id_.partition("-")
        is_own = prefix == self.prefix and number.isascii() and number.isdigit() and len(number) < 20
        return self._in_flight.get(int(number)) if ended is None and is_own else ended

    def running_for(self, record: CallRecord) -> float:
        """Seconds that a call has taken so far, or took."""
        if record.elapsed is not None:
            return record.elapsed
        return self._clock() - record.began - record.asked


def _written(record: CallRecord, arguments: Mapping[str, JSON], result: ToolResult | None) -> HistoryCall:
    return _with_content(record.recorded(), arguments, result)


def _with_content(
    call: HistoryCall, arguments: Mapping[str, JSON] | None, result: ToolResult | None
) -> HistoryCall:
    """The call with its content, as it is kept and shown."""
    return replace(
        call,
        arguments=None if arguments is None else kept_arguments(arguments),
        result=None if result is None else kept_result(result, call.route),
    )


def _error_text(result: ToolResult | None) -> str | None:
    """The text with which a tool reports its error."""
    blocks = () if result is None else result.content
    return next((block.text for block in blocks if isinstance(block, Text) and block.text), None)


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


def _head(text: str) -> str:
    """The beginning of a text, without secrets."""
    shown = head_by_all(text, LONGEST_TEXT)
    return shown if len(text) <= LONGEST_TEXT else f"{shown[: LONGEST_TEXT - 3]}..."


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."
