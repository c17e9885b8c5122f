"""Long lists in pages."""

from collections.abc import Sequence

from toolbus.core.records import JSON, JSONObject
from toolbus.gateway.kernel import Kernel
from toolbus.gateway.protocol import INVALID_PARAMS
from toolbus.gateway.protocol_error import ProtocolError
from toolbus.gateway.request import Request


def page(kernel: Kernel, request: Request, key: str, entries: Sequence[JSONObject]) -> JSONObject:
    """The page of a list that a request asks for."""
    size, cursor = kernel.settings.page, request.params.get("cursor")
    first = _first(cursor, len(entries))
    found: dict[str, JSON] = {key: list(entries[first : first + size])}
    if first + size < len(entries):
        found["nextCursor"] = str(first + size)
    if request.is_modern:
        found |= {"ttlMs": round(kernel.settings.ttl * 1000), "cacheScope": "private"}
    return found


def _first(cursor: JSON, length: int) -> int:
    if cursor is None:
        return 0
    if isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and 0 < int(cursor[:18]) < length:
        return int(cursor)
    raise ProtocolError(INVALID_PARAMS, "Invalid cursor")
