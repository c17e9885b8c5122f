"""JSON-RPC messages as bytes: how a request is written, and how what a server sent is read."""

import json
import re
import sys
from typing import Any

from mcp_types import RequestId
from opentelemetry.context import get_current
from opentelemetry.propagate import inject
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic_core import from_json, to_json

from toolbus.core.collector import paused_collector

Message = dict[str, Any]
LARGE = 64 * 1024
"""From how many bytes on the garbage collector is paused for a message."""
_trace = TraceContextTextMapPropagator()
_MARKS = (b",", b"[", b"{")
"""Every value but the first follows one of these."""
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*[,}]')


def encoded_request(
    request_id: RequestId,
    method: str,
    params: bytes,
    meta: bytes,
    *,
    with_progress: bool,
    with_baggage: bool = False,
) -> bytes:
    """The request as JSON: its params, with the constant part of their `_meta` and what this request adds.

    The trace of the caller goes with it; `with_baggage`, everything that the program passes on.
    """
    more: dict[str, Any] = {}
    if with_progress:
        # The request id is also the progress token, so no second table is needed.
        more["progressToken"] = request_id
    if get_current():  # an empty context has no trace to pass on
        (inject if with_baggage else _trace.inject)(more)
    if more:
        meta = to_json(more) if meta == b"{}" else meta[:-1] + b"," + to_json(more)[1:]
    if meta != b"{}":
        params = b'{"_meta":' + meta + (b"}" if params == b"{}" else b"," + params[1:])
    name = request_id if isinstance(request_id, int) else to_json(request_id).decode()
    head = f'{{"jsonrpc":"2.0","id":{name},"method":"{method}"'.encode()
    return head + b"}" if params == b"{}" else head + b',"params":' + params + b"}"


class TooManyValues(Exception):
    """A message has more values than it may have."""


def parsed(data: bytes, most_values: int) -> Any:
    """The JSON that was read.

    ValueError if it is not JSON, RecursionError if it is nested too deeply, `TooManyValues` before it is
    parsed: a value takes more memory than its few bytes in the message.
    """
    # Shorter messages cannot have that many.
    if len(data) > most_values and value_count(data, most_values) > most_values:
        raise TooManyValues
    if len(data) < LARGE:
        return _parsed(data)
    with paused_collector():
        return _parsed(data)


def _parsed(data: bytes) -> Any:
    try:
        return from_json(data)
    except ValueError:
        # The fast parser refuses some JSON that servers send (lone surrogates): try the lenient one.
        return json.loads(data, parse_int=_parsed_int)


def value_count(data: bytes, enough: int) -> int:
    """How many values the JSON has, at least; more than `enough` is not counted exactly."""
    count = sum(data.count(mark) for mark in _MARKS)
    if count <= enough:
        return count
    # Many of these characters may be in texts: count again without them.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * enough:
        return enough + 1
    outside = b"".join(plain.split(b'"')[::2])
    return sum(outside.count(mark) for mark in _MARKS)


def _parsed_int(digits: str) -> float:
    """A number of any length, also one with more digits than Python reads."""
    return int(digits) if len(digits) < sys.int_info.default_max_str_digits else float(digits)


def likely_id(data: bytes) -> int | None:
    """The id of a response that cannot be parsed."""
    found = _ID.search(data[:200]) or _ID.search(data[-200:])
    return int(found[1]) if found else None
