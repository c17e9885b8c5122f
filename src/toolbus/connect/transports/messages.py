"""JSON-RPC messages as bytes: how a request is written, and how what a server sent is read."""

import json
import re
import sys
from typing import Any

from mcp_types import RequestId
from opentelemetry.context import get_current
from opentelemetry.propagate import inject
from pydantic_core import from_json, to_json

Message = dict[str, Any]
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*[,}]')


def encoded_request(
    request_id: RequestId, method: str, params: bytes, meta: bytes, *, with_progress: bool
) -> bytes:
    """The request as JSON: its params, with the constant part of their `_meta` and what this request adds."""
    more: dict[str, Any] = {}
    if with_progress:
        # The request id is also the progress token, so no second table is needed.
        more["progressToken"] = request_id
    if get_current():  # an empty context has no trace to pass on
        inject(more)
    if more:
        meta = to_json(more) if meta == b"{}" else meta[:-1] + b"," + to_json(more)[1:]
    if meta != b"{}":
        params = b'{"_meta":' + meta + (b"}" if params == b"{}" else b"," + params[1:])
    name = request_id if isinstance(request_id, int) else to_json(request_id).decode()
    head = f'{{"jsonrpc":"2.0","id":{name},"method":"{method}"'.encode()
    return head + b"}" if params == b"{}" else head + b',"params":' + params + b"}"


def parsed(data: bytes) -> Any:
    """The JSON that was read; ValueError if it is not JSON, RecursionError if it is nested too deeply."""
    try:
        return from_json(data)
    except ValueError:
        # The fast parser refuses some JSON that servers send (lone surrogates): try the lenient one.
        return json.loads(data, parse_int=_parsed_int)


def _parsed_int(digits: str) -> float:
    """A number of any length, also one with more digits than Python reads."""
    return int(digits) if len(digits) < sys.int_info.default_max_str_digits else float(digits)


def likely_id(data: bytes) -> int | None:
    """The id of a response that cannot be parsed."""
    found = _ID.search(data[:200]) or _ID.search(data[-200:])
    return int(found[1]) if found else None
