"""The recorder: an observer that writes a tape.

It uses nothing but the public interface of observers: `bus.observe(Recorder("tape.jsonl"))` works as well as
`Toolbus(..., record="tape.jsonl")`. A thread redacts and writes, so a slow disk slows no call. If the disk
fails, that is logged once, and the tape has no end line.
"""

import asyncio
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from toolbus.config import BusConfig
from toolbus.core.operation.events import Logged
from toolbus.core.operation.operation import Failure, Operation
from toolbus.core.values.errors import CallDenied, InputNeeded, ToolbusError
from toolbus.core.values.records import JSON, OWN, Inventory, JSONObject, TaskState, ToolResult
from toolbus.core.values.tape_errors import TapeError
from toolbus.tape.content import (
    ASKED,
    RECORDED,
    answer_json,
    answer_of,
    failure_json,
    lists_of,
    request_of,
    result_of,
)
from toolbus.tape.format import (
    Entry,
    ListName,
    RecordedCall,
    RecordedList,
    RecordedUpdate,
    Tape,
    TapeFile,
    from_line,
    to_line,
)
from toolbus.tape.privacy import Privacy

logger = logging.getLogger("toolbus")
MOST_WAITING = 10_000
"""Lines that are yet to be written; of a disk that is slower than the calls, more are lost."""
MOST_SUSPENDED = 1_000
"""Suspended calls that are remembered, to know which call goes on with them."""
CLOSE_TIMEOUT = 10.0
"""Seconds to write the remaining lines when the bus stops."""


_NOT_LISTED = Inventory()


class Recorder:
    """Records what servers receive, send and offer."""

    at_server: Literal[True] = True

    def __init__(
        self,
        path: str | Path,
        config: BusConfig | None = None,
        *,
        appends: bool = False,
        privacy: Privacy | None = None,
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        """Record to that file, which is written from `begin` on; `appends` continues the tape in it.

        `prefixes` are the tool prefixes of the config, for a replay without it.
        """
        self._prefixes: JSONObject = (privacy or Privacy()).recorded(prefixes or {})
        self.path = Path(path)
        self._privacy = privacy or Privacy(config)
        self._appends = appends
        self._file: TapeFile | None = None
        self._last = 0
        """The id of the last call that has begun."""
        self._last_of: dict[str, int] = {}
        """The same for each server."""
        self._began = time.monotonic()
        self._open: dict[int, _Recording] = {}
        """The calls in flight, by the id of the operation."""
        self._suspended: dict[_CallKey, int] = {}
        """The ids of suspended calls."""
        self._lists: dict[str, dict[ListName, list[JSON]]] = {}
        """The lists of each server, as they were recorded last."""
        self._inventories: dict[str, Inventory] = {}
        self._known: dict[tuple[str, ListName], list[JSON]] = {}
        """The lists that the tape had before, as far as they were not made since."""
        self._updated: tuple[str, str, int] | None = None
        self._problem: str | None = None
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[Entry | Callable[[], Entry] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="toolbus tape", daemon=True)
        self._is_closed = False

    def begin(self) -> None:
        """Begin the file; by itself with the first event. `TapeError` if it cannot be written."""
        with self._lock:
            if self._file is not None or self._is_closed:
                return
            try:
                self._file = TapeFile(self.path, appends=self._appends, prefixes=self._prefixes)
            except OSError as error:
                self._problem = (error.strerror or "cannot be written").lower()
                raise TapeError(self.path, self._problem, "choose another file") from None
            self._last = self._file.last_id
            if self._appends and self._last:
                tape = Tape(self.path)
                listed = {server: tape.latest(server) for server in tape.servers}
                self._known = {
                    (one, kind): items for one, kinds in listed.items() for kind, items in kinds.items()
                }
                tape.close()
            self._began = time.monotonic()
            self._writer.start()

    @property
    def problem(self) -> str | None:
        """The reason why the tape is incomplete; None if nothing is missing so far."""
        return self._problem

    # What an observer is told

    def start(self, operation: Operation, /) -> "_Recording | _Question | None":
        """Follow a request to a server, or a question of one."""
        if self._is_closed or operation.server == OWN:
            return None
        self.begin()
        if operation.route in ASKED:
            asking = self._asking(operation)
            return None if asking is None else _Question(asking, operation)
        if operation.route not in RECORDED:
            return None
        recording = _Recording(self, operation, self._next_id(operation.server))
        self._open[operation.id] = recording
        return recording

    def offered(self, inventories: Mapping[str, Inventory], /) -> None:
        """Record the lists that are new."""
        self.begin()
        for alias, inventory in inventories.items():
            if self._inventories.get(alias) is inventory or inventory == _NOT_LISTED:
                continue
            self._inventories[alias] = inventory
            before, now = self._lists.get(alias, {}), lists_of(inventory)
            self._lists[alias] = now
            after, at = self._last_of.get(alias, 0), self.now
            for name, items in now.items():
                if items != before.get(name, []) or (not before and name == "tools"):
                    self.put(RecordedList(server=alias, after=after, kind=name, items=items, at=at))

    def updated(self, server: str, uri: str, /) -> None:
        """Record that a resource changed; once, if several subscribe to it."""
        after, at = self._last_of.get(server, 0), self.now
        if self._updated != (server, uri, after):
            self._updated = server, uri, after
            self.put(RecordedUpdate(server=server, after=after, uri=uri, at=at))

    def closed(self) -> None:
        """Write the rest, and end the tape; any number of times."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if self._file is not None:
            self._waiting.put(None)
            self._writer.join(CLOSE_TIMEOUT)

    # For its observations

    @property
    def now(self) -> float:
        """Seconds since the tape began."""
        return round(time.monotonic() - self._began, 3)

    def _next_id(self, server: str) -> int:
        with self._lock:
            self._last += 1
            self._last_of[server] = self._last
            return self._last

    def put(self, entry: Entry | Callable[[], Entry]) -> None:
        """Write an entry soon, or one that the thread makes."""
        if self._problem is not None or self._is_closed:
            return
        if self._waiting.qsize() >= MOST_WAITING:
            self._fail("the disk is slower than the calls")
            return
        self._waiting.put(entry)

    def ended(self, operation: Operation) -> None:
        """A call has ended."""
        self._open.pop(operation.id, None)

    def _asking(self, question: Operation) -> "_Recording | None":
        """The call that a question belongs to: if that is unknown, the latest that waits for no answer."""
        if question.during is not None:
            return self._open.get(question.during)
        of_server = [
            one for one in self._open.values() if one.server == question.server and not one.is_asking
        ]
        return max(of_server, key=lambda one: one.id, default=None)

    def suspended_by(self, key: "_CallKey | None") -> int | None:
        """The suspended call that a call goes on with."""
        return None if key is None else self._suspended.get(key)

    def note_suspended(self, key: "_CallKey", id_: int) -> None:
        """Remember a call that waits for answers."""
        self._suspended[key] = id_
        while len(self._suspended) > MOST_SUSPENDED:
            del self._suspended[next(iter(self._suspended))]

    # The thread

    def _write(self) -> None:
        file = self._file
        assert file is not None, "it has begun"
        while (make := self._waiting.get()) is not None:
            if self._problem is None:
                try:
                    entry = self._hidden(make() if callable(make) else make)
                    if not self._is_known(entry):
                        file.add(entry)
                except OSError as error:
                    self._fail((error.strerror or str(error)).lower())
                except Exception as error:  # what cannot be recorded must not end the thread
                    logger.debug("a call cannot be recorded", exc_info=error)
                    self._fail(f"{type(error).__name__}: {error}")
        try:
            file.close(is_complete=self._problem is None)
        except OSError as error:
            self._fail((error.strerror or str(error)).lower())

    def _is_known(self, entry: Entry) -> bool:
        """Whether it is a list that the tape had before."""
        if not isinstance(entry, RecordedList):
            return False
        return self._known.pop((entry.server, entry.kind), None) == entry.items

    def _hidden(self, entry: Entry) -> Entry:
        """The entry without secrets and paths."""
        line: dict[str, JSON] = self._privacy.recorded(to_line(entry))
        hidden = from_line(line)
        assert hidden is not None, "it is an entry"
        return hidden

    def _fail(self, problem: str) -> None:
        if self._problem is None:
            self._problem = problem
            logger.error("tape %s is incomplete: %s; nothing more is recorded", self.path, problem)


class _Recording:
    """One request that is recorded."""

    def __init__(self, recorder: Recorder, operation: Operation, id_: int) -> None:
        self._recorder = recorder
        self._operation = operation
        self._began = recorder.now
        self.id = id_
        self.events: list[JSONObject] = []
        self._name, self._arguments = request_of(operation)
        self._resumes = recorder.suspended_by(self._key(_resumed_state(operation)))
        resumed = operation.resumed
        self._answered = (
            [] if resumed is None else [resumed.pending.requests.get(key) for key in resumed.answers]
        )
        """Questions that were asked before: guards see them again, with their answers."""

    def _key(self, state: str | None) -> "_CallKey | None":
        if state is None:
            return None
        arguments = json.dumps(self._arguments, sort_keys=True, default=str)
        return _CallKey(self._operation.server, self._name, arguments, state)

    @property
    def server(self) -> str:
        """The server that is called."""
        return self._operation.server

    @property
    def is_asking(self) -> bool:
        """Whether a question of it waits for an answer."""
        return any("answer" not in one["ask"] for one in self.events if "ask" in one)

    def was_asked(self, question: JSONObject) -> bool:
        """Whether a question was asked before, as the call was suspended: it is not recorded again."""
        for known in self._answered:
            if known and known["params"].get("message") == question["params"].get("message"):
                self._answered.remove(known)
                return True
        return False

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Record progress."""
        values: list[JSON] = [progress, total, message]
        while values[-1] is None:
            values.pop()
        self.events.append({"progress": values})

    def log(self, event: Logged) -> None:
        """Record a log message."""
        named = {} if event.logger is None else {"logger": event.logger}
        self.events.append({"log": {"level": event.level, **named, "data": event.data}})

    def task(self, state: TaskState) -> None:
        """Record the state of a task, if it is another one."""
        more = {} if state.message is None else {"message": state.message}
        event: JSONObject = {"task": {"status": state.status, **more}}
        states = [one for one in self.events if "task" in one]
        if not states or states[-1] != event:
            self.events.append(event)

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        """Record how it ended."""
        recorder, operation = self._recorder, self._operation
        recorder.ended(operation)
        error = None if operation.observed is None else operation.observed.error
        if isinstance(error, CallDenied) or (
            isinstance(error, ToolbusError) and not error.sent and not self.events
        ):
            return  # its server got nothing
        if result is not None and (pending := result.pending) is not None:
            key = self._key(pending.state or pending.task or "")
            if key is not None:
                recorder.note_suspended(key, self.id)
        ended = recorder.now

        def entry() -> RecordedCall:
            return RecordedCall(
                id=self.id,
                server=operation.server,
                method=operation.route,
                name=self._name,
                arguments=self._arguments,
                events=list(self.events),
                result=None if result is None else result_of(operation, result),
                failure=failure_json(failure, error) if failure is not None and result is None else None,
                resumes=self._resumes,
                answers=_answers(operation),
                at=self._began,
                seconds=round(ended - self._began, 3),
            )

        recorder.put(entry)


class _Question:
    """A request of a server during a call."""

    def __init__(self, asking: _Recording, operation: Operation) -> None:
        self._asking = asking
        self._operation = operation
        self._asked: dict[str, JSON] = {"method": operation.route, "params": dict(operation.arguments)}
        self._event: JSONObject | None = None if asking.was_asked(self._asked) else {"ask": self._asked}
        if self._event is not None:
            asking.events.append(self._event)

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Questions have none."""

    def log(self, event: Logged) -> None:
        """Questions have none."""

    def task(self, state: TaskState) -> None:
        """Questions have none."""

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        """Record the answer; a call that ends before is recorded without one."""
        observed = self._operation.observed
        error = None if observed is None else observed.error
        if result is not None and result.pending is None:
            answer = answer_of(result.value)
        elif isinstance(error, CallDenied):
            answer = {"action": "decline"}
        elif error is None or isinstance(error, InputNeeded):
            answer = None
        elif isinstance(error, asyncio.CancelledError):
            return
        else:
            answer = {"action": "cancel"}
        if answer is not None:
            self._asked["answer"] = answer
        elif self._event in self._asking.events:
            self._asking.events.remove(self._event)  # it was put to nobody


class _CallKey(NamedTuple):
    """The identity of a suspended call."""

    server: str
    name: str
    arguments: str
    state: str
    """The state that the server gave; empty without one."""


def _resumed_state(operation: Operation) -> str | None:
    """The state of the suspended call that an operation continues; None for a new call."""
    if operation.resumed is not None:
        return operation.resumed.pending.state or operation.resumed.pending.task or ""
    forwarding = operation.forwarding
    if forwarding is None or (forwarding.state is None and forwarding.responses is None):
        return None
    return forwarding.state or ""


def _answers(operation: Operation) -> dict[str, JSON] | None:
    if operation.resumed is not None:
        return {key: answer_json(one) for key, one in operation.resumed.answers.items()}
    if operation.forwarding is not None and operation.forwarding.responses is not None:
        return dict(operation.forwarding.responses)
    return None
