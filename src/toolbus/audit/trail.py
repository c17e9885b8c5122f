"""Records every decision and call of a bus: `decided` before anything is sent, `ended` when it is over.

A refused call has a line `decided` alone, and a call that failed before it could be decided a line `ended`
alone. A call with `decided` and without `ended` was cut off: its outcome is unknown.
"""

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from json.encoder import encode_basestring_ascii as _quoted
from typing import TypeAlias

from toolbus.audit.chain import Chain, Line
from toolbus.config import BusConfig
from toolbus.config.location import is_mapping
from toolbus.config.secrets.literals import literal_secrets
from toolbus.config.secrets.redact import Redactor, redacted_by_all
from toolbus.config.settings.audit import Audit
from toolbus.core.operation.operation import PROGRAM, Decision, Failure, Operation
from toolbus.core.operation.quota import OverQuota
from toolbus.core.text.canonical import digest_of
from toolbus.core.text.display import counted
from toolbus.core.values.elicitation import Answer
from toolbus.core.values.errors import AuditFailed
from toolbus.core.values.records import JSON, OWN, Audio, Block, Embedded, Image, Text, ToolResult, ToolSpec

logger = logging.getLogger("toolbus")
REQUESTS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
"""The requests that servers send to us; their lines record the answers."""
_WITH_DATA = (Image, Audio)
SHORT = 0.0002
"""Seconds; the end of a call that took longer is written at once, unless others go on."""
MOST_TARGETS = 1_000
"""The number of tools, and of decisions, that are remembered in encoded form."""


def open_trail(config: BusConfig) -> "AuditTrail | None":
    """The audit trail of a bus; None if its config has none. No file is opened before the first line."""
    if config.audit is None:
        return None
    literals = (secret.value for server in config.servers.values() for secret in literal_secrets(server))
    return AuditTrail(config.audit, Redactor(literals))


class AuditTrail:
    """Observes the operations of a bus, and records the decisions of its guard; for any thread."""

    def __init__(self, audit: Audit, redactor: Redactor | None = None) -> None:
        """`redactor` knows secrets that no connection knows yet."""
        self._chain = Chain(audit)
        self._calls: dict[int, _Call] = {}
        """The calls that are being observed, by id."""
        self._ended: deque[_Ended] = deque()
        """The ends that are yet to be written."""
        self._is_scheduled = False
        """Whether they will be in the next step of the loop."""
        self._targets: dict[int, tuple[ToolSpec, str]] = {}
        self._facts: dict[int, tuple[Decision, str]] = {}
        """Decisions as they stand in a line; a guard decides the same again and again."""
        self._content = _CONTENT[audit.content]
        self._redactor = redactor  # held: all that exist are asked
        self._shows_errors = audit.content == "full"

    def start(self, operation: Operation, /) -> "_Call":
        self._calls[operation.id] = call = _Call(self, operation)
        return call

    def decided(self, operation: Operation, decision: Decision, /) -> None:
        """Record a decision; `AuditFailed` if that is not possible, and then nothing may be sent."""
        about, facts = self._about(operation), self._facts_of(decision)
        content = self._content("arguments", operation.arguments)
        line = 0, "decided", f"{about}{facts}{content}"
        self._chain.extend([*self._take_ended(), line] if self._ended else [line])
        if (call := self._calls.get(operation.id)) is not None:
            call.decided(about, refused=decision.action == "deny")

    def ended(self, call: "_Call", result: ToolResult | None, failure: Failure | None) -> None:
        """Record the end of an operation, unless it was refused: then its decision was the end.

        The ends of calls that overlap, or follow each other at once, are written together. The next step of
        the loop or the next decision writes them.
        """
        self._calls.pop(call.operation.id, None)
        if call.refused:
            return
        at = time.perf_counter()
        self._ended.append((time.time_ns(), at, call, result, failure))
        is_plain = call.about is not None and failure is None
        if not self._calls and (at - call.began > SHORT or not is_plain):
            self._write_ended()
        elif not self._is_scheduled:
            try:
                asyncio.get_running_loop().call_soon(self._write_ended)
                self._is_scheduled = True
            except RuntimeError:  # in a thread without a loop
                self._write_ended()

    def _write_ended(self) -> None:
        self._is_scheduled = False
        lines = self._take_ended()
        if not lines:
            return
        try:
            self._chain.extend(lines)
        except AuditFailed as error:
            # The calls were made; further ones are refused until the file can be written again.
            logger.error("the end of %s is not recorded: %s", counted(len(lines), "call"), error)

    def _take_ended(self) -> list[Line]:
        lines: list[Line] = []
        try:  # not `suppress`, which takes longer
            while self._ended:
                lines.append(self._end_line(*self._ended.popleft()))
        except IndexError:  # another thread took the last one
            return lines
        return lines

    def _end_line(
        self, now: int, at: float, call: "_Call", result: ToolResult | None, failure: Failure | None
    ) -> Line:
        operation, about = call.operation, call.about
        if about is None:
            about = self._about(operation)
            if operation.arguments:  # of an unknown tool they are not known
                about += self._content("arguments", operation.arguments)
        is_request = operation.route in REQUESTS
        is_plain = failure is None and not is_request and (result is None or result.pending is None)
        outcome = "ok" if is_plain else _outcome(operation, result, failure)
        facts = f',"outcome":"{outcome}"'
        if call.began:
            facts += f',"ms":{(at - call.began - call.asked) * 1000:.3f}'
        if is_request and failure is None and result is not None:
            facts += self._content("answer", _answered(result.value))
        if failure is not None:
            facts += self._failure(operation, failure)
        if result is not None and (size := _size(result.content)):
            facts += f',"bytes":{size}'
        return now, "ended", f"{about}{facts}"

    def _failure(self, operation: Operation, failure: Failure) -> str:
        """The error, if it may be shown; and the quota, if one refused the operation."""
        facts = ""
        if self._shows_errors and failure.error:
            facts = f',"error":{_quoted(redacted_by_all(failure.error))}'
        if operation.observed is not None and isinstance(over := operation.observed.error, OverQuota):
            facts += f',"rule":{_quoted(over.rule or "")},"by":"quota"'
        return facts

    def close(self) -> None:
        """Release the file of this process."""
        self._write_ended()
        self._chain.close()

    def _about(self, operation: Operation) -> str:
        """The caller and the target of an operation."""
        chain, caller = self._chain.id, operation.caller
        about = f',"id":"{chain}-{operation.id}"'
        if operation.during is not None:
            about += f',"during":"{chain}-{operation.during}"'
        if caller is not PROGRAM:
            for key in ("run", "user", "face", "session"):
                if text := getattr(caller, key):
                    about += f',"{key}":{_quoted(text)}'
        return about + self._target(operation)

    def _facts_of(self, decision: Decision) -> str:
        """The decision, and the reason for it."""
        known = self._facts.get(id(decision))
        if known is not None and known[0] is decision:
            return known[1]
        definition, rule, reason = decision.definition, decision.rule, decision.reason
        facts = f',"definition":{_quoted(definition)}' if definition else ""
        if rule:
            facts += f',"rule":{_quoted(rule)}'
        facts += f',"decision":"{decision.action}","by":{_quoted(decision.by)}'
        if reason:
            facts += f',"reason":{_quoted(redacted_by_all(reason))}'
        if len(self._facts) >= MOST_TARGETS:
            self._facts.clear()
        self._facts[id(decision)] = decision, facts  # with the decision: or another one could get its id
        return facts

    def _target(self, operation: Operation) -> str:
        """The route, the server and the tool; most calls are of tools that were called before."""
        spec = operation.spec
        known = self._targets.get(id(spec))
        if known is not None and known[0] is spec:
            return known[1]
        text = _target(operation)
        if spec.route == "tools/call" and spec.origin.server:
            if len(self._targets) >= MOST_TARGETS:
                self._targets.clear()
            self._targets[id(spec)] = spec, text  # with the spec: or another one could get its id
        return text


_Ended: TypeAlias = "tuple[int, float, _Call, ToolResult | None, Failure | None]"
"""The time of an end in nanoseconds and on the clock of durations, the call, and its outcome."""


class _Call:
    """One operation, as the trail observes it."""

    __slots__ = ("_asked_before", "_trail", "about", "began", "operation", "refused")
    ignores_progress = True

    def __init__(self, trail: AuditTrail, operation: Operation) -> None:
        self._trail = trail
        self.operation = operation
        self.about: str | None = None
        """The text about the call in its `decided` line; None if there is no such line."""
        self.refused = False
        self.began = 0.0
        self._asked_before = 0.0

    @property
    def asked(self) -> float:
        """Seconds in which a person was asked since it was decided."""
        people = self.operation.people
        return 0.0 if people is None else people.seconds - self._asked_before

    def decided(self, about: str, *, refused: bool) -> None:
        """Note the decision; from now on, time is spent by the server, not by a person."""
        self.about = about
        self.refused = refused
        self._asked_before += self.asked
        self.began = time.perf_counter()

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Progress is not recorded."""

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        self._trail.ended(self, result, failure)


def _target(operation: Operation) -> str:
    spec = operation.spec
    server, tool = spec.origin.server, spec.origin.tool
    if server == OWN:
        server = str(operation.server)
    if spec.route == "resources/read" or not server:  # a URI, or a name that is of no tool
        tool = redacted_by_all(tool)
    text = f',"route":{_quoted(spec.route)}'
    if server:
        text += f',"server":{_quoted(server)}'
    return text + f',"tool":{_quoted(tool)}' if tool else text


def _outcome(operation: Operation, result: ToolResult | None, failure: Failure | None) -> str:
    if failure is not None:
        return failure.reason
    if result is None or operation.route not in REQUESTS or result.pending is not None:
        return "pending" if result is not None and result.pending is not None else "ok"
    answer = result.value
    if isinstance(answer, Answer):
        return answer.action
    return "accept" if answer is not None else "decline"


def _answered(value: object) -> JSON:
    if isinstance(value, Answer):
        return value.content
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    dump: Callable[..., JSON] | None = getattr(value, "model_dump", None)  # the SDK's models
    return value if dump is None else dump(mode="json", by_alias=True, exclude_none=True)


def _size(blocks: tuple[Block, ...]) -> int:
    """The bytes of texts and data in a result."""
    size = 0
    for block in blocks:
        if isinstance(block, Text):
            size += _length(block.text)
        elif isinstance(block, _WITH_DATA):
            size += len(block.data)
        elif isinstance(block, Embedded):
            size += _length(block.text or "") + len(block.data or b"")
    return size


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _digest(key: str, value: JSON) -> str:
    if value is None:
        return ""
    return f',"{key}":"{digest_of(value if type(value) is dict else _plain(value))}"'


def _full(key: str, value: JSON) -> str:
    """The value itself, without secrets; its digest if JSON cannot express it."""
    if value is None:
        return ""
    try:
        shown = _encoded(redacted_by_all(_plain(value)))
    except (ValueError, RecursionError):
        return _digest(key, value)
    return f',"{key}":{shown}'


def _none(key: str, value: JSON) -> str:
    return ""


def _plain(value: JSON) -> JSON:
    """The value; a mapping as a dict, which JSON can express."""
    if type(value) is dict or not is_mapping(value):
        return value  # pyright: ignore[reportUnknownVariableType]  # JSON
    return dict(value)


def _opaque(value: object) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else type(value).__name__


_encoded = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_opaque).encode
_CONTENT: dict[str, Callable[[str, JSON], str]] = {"digest": _digest, "full": _full, "none": _none}
