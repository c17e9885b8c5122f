"""JSON-RPC messages as bytes: how a request is written, and how what a server sent is read."""

import json
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.context import get_current
from opentelemetry.propagate import inject
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic_core import from_json, to_json

from toolbus.config.settings.limits import ServerLimits
from toolbus.core.operation.tracing import SPAN, ConnectionFacts, RequestSpan

if TYPE_CHECKING:  # the gateway reads messages before the SDK is imported
    from mcp_types import RequestId

Message = dict[str, Any]
MAX_ID = 1_000
"""Characters of the id of a request; one with a longer id is ignored."""
_trace = TraceContextTextMapPropagator()
_TRACE = ("traceparent", "tracestate")
_MARKS = b",[{"
"""Every value but the first follows one of these."""
_TOO_DEEP = "recursion limit exceeded"
_DEEPEST_FAST = 200
"""The levels that the fast parser reads."""
MOST_LENIENT = 100_000
"""The values, per MiB, of a message that is parsed twice."""
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*[,}]')


def encoded_request(
    request_id: "RequestId",
    method: str,
    params: bytes,
    meta: bytes,
    with_progress: bool,
    with_baggage: bool = False,
    connection: ConnectionFacts | None = None,
) -> bytes:
    """The request as JSON: its params, with the constant part of their `_meta` and what this request adds.

    It includes the caller's trace; with `with_baggage`, also everything that the program forwards. The open
    span is told that it is sent over the connection.
    """
    more: dict[str, Any] = {}
    if with_progress:
        # The request id is also the progress token, so no second table is needed.
        more["progressToken"] = request_id
    if context := get_current():  # an empty context has no trace to pass on
        (inject if with_baggage else _trace.inject)(more)
        if b'"traceparent"' in meta and "traceparent" in more:  # that of a client of ours
            meta = to_json({key: value for key, value in from_json(meta).items() if key not in _TRACE})
        if connection is not None and (span := context.get(SPAN)) is not None:
            cast(RequestSpan, span).sent(request_id, connection)
    if more:
        meta = to_json(more) if meta == b"{}" else meta[:-1] + b"," + to_json(more)[1:]
    if meta != b"{}":
        params = b'{"_meta":' + meta + (b"}" if params == b"{}" else b"," + params[1:])
    name = request_id if isinstance(request_id, int) else to_json(request_id).decode()
    head = f'{{"jsonrpc":"2.0","id":{name},"method":"{method}"'.encode()
    return head + b"}" if params == b"{}" else head + b',"params":' + params + b"}"


def add_trace(headers: dict[str, str], *, with_baggage: bool) -> None:
    """Add the caller's trace to the headers of a request, for proxies on the way to the server."""
    if get_current():
        (inject if with_baggage else _trace.inject)(headers)


class UnreadableMessage(Exception):
    """A message exceeds a limit, as its text says."""


class TooDeep(UnreadableMessage):
    """A message exceeds `limits.depth`."""

    def __init__(self, deepest: int) -> None:
        super().__init__(f"is nested deeper than {deepest} levels (limits.depth)")


def parsed(data: bytes, limits: ServerLimits, key: str = "limits.values") -> Any:
    """The JSON that was read; ValueError if it is not JSON, `UnreadableMessage` if it exceeds a limit.

    `key` is the setting that limits the number of values.
    """
    # One function, not one for each step: every message is here.
    if len(data) > limits.values:
        _check_values(data, limits.values, key)
    deepest = limits.depth
    try:
        message = from_json(data)
    except ValueError:
        message = _parsed_leniently(data, deepest)
    else:
        if deepest >= _DEEPEST_FAST:
            return message
    if is_deeper(message, deepest):
        raise TooDeep(deepest)
    return message


def parsed_strictly(data: bytes, most: int) -> Any:
    """The same for the JSON of an HTTP client, which may have so many values (`serve.max_values`)."""
    _check_values(data, most, "serve.max_values")
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        if _TOO_DEEP in str(error):
            raise UnreadableMessage(f"is nested deeper than {_DEEPEST_FAST} levels") from None
        raise


def _check_values(data: bytes, most: int, key: str) -> None:
    # Counted before it is parsed: a value takes more memory than its few bytes in the message. Shorter
    # messages cannot have that many.
    if len(data) > most and value_count(data, most) > most:
        raise UnreadableMessage(f"has more than {most:,} values ({key})")


def _parsed_leniently(data: bytes, deepest: int) -> Any:
    """The fast parser refuses some JSON that servers send: lone surrogates, long numbers, many levels."""
    most = MOST_LENIENT * max(1, len(data) // 2**20)
    if value_count(data, most) > most:
        raise UnreadableMessage(
            f"has invalid parts, and too many values to read it leniently (more than {most:,})"
        )
    try:
        return json.loads(data, parse_int=_parsed_int)
    except RecursionError:
        raise TooDeep(deepest) from None


def is_deeper(value: Any, levels: int) -> bool:
    """Whether a value has more levels of objects and lists."""
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, dict | list)]
    return bool(level)


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def without_deep_parts(data: bytes, deepest: int) -> bytes:
    """The JSON with null in place of everything deeper; `TooDeep` if it has too many parts to do that."""
    if data.count(b"[") + data.count(b"{") > MOST_LENIENT:
        raise TooDeep(deepest)
    kept: list[bytes] = []
    depth = start = 0
    for found in _STRUCTURE.finditer(data):
        match found[0]:
            case b"[" | b"{":
                depth += 1
                if depth == deepest + 1:
                    kept.append(data[start : found.start()])
            case b"]" | b"}":
                if depth == deepest + 1:
                    kept.append(b"null")
                    start = found.end()
                depth -= 1
            case _:
                pass  # a text
    return b"".join((*kept, data[start:]))


def value_count(data: bytes, enough: int) -> int:
    """The minimum number of values in the JSON; more than `enough` is not counted exactly."""
    count = _marks_in(data)
    if count <= enough:
        return count
    # Many of these characters may be in texts: count again without them.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * enough:
        return enough + 1
    outside = b"".join(plain.split(b'"')[::2])
    return _marks_in(outside)


def _marks_in(data: bytes) -> int:
    return len(data) - len(data.translate(None, _MARKS))  # four times as fast as counting each of them


def _parsed_int(digits: str) -> float:
    """A number of any length, also one with more digits than Python reads."""
    return int(digits) if len(digits) < sys.int_info.default_max_str_digits else float(digits)


def likely_id(data: bytes) -> int | None:
    """The id of a response that cannot be parsed."""
    found = _ID.search(data[:200]) or _ID.search(data[-200:])
    return int(found[1]) if found else None


def is_usable_id(value: object) -> bool:
    """Whether a response can have this id, and a notification this progress token."""
    if isinstance(value, int):
        return value.bit_length() < MAX_ID and not isinstance(value, bool)
    try:
        return isinstance(value, str) and len(value.encode()) <= MAX_ID
    except UnicodeEncodeError:
        return False
