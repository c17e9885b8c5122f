"""Lists, in pages, and how long clients may keep them."""

from collections.abc import Sequence

from toolbus.core.values.freshness import Freshness, ListKind
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.kernel import Kernel
from toolbus.gateway.protocol.protocol_error import ProtocolError
from toolbus.gateway.protocol.request import Request
from toolbus.gateway.protocol.view_listing import KINDS, Snapshot
from toolbus.gateway.protocol.words import INVALID_PARAMS


async def current(kernel: Kernel, request: Request, kind: ListKind) -> Snapshot:
    """What the client's view offers, once servers have listed again what has expired of that kind."""
    await kernel.listed(request)
    view, offering = request.client.view, request.client.offering
    if view.running:  # else what is known answers
        await view.calls.refresh(kind)
    offering.note_given(kind if kind in KINDS else "resources")
    return offering.now


def page(
    kernel: Kernel, request: Request, key: str, entries: Sequence[JSONObject], kind: ListKind
) -> JSONObject:
    """The page of a list that a request asks for."""
    size, cursor = kernel.settings.page, request.params.get("cursor")
    first = _first(cursor, len(entries))
    found: dict[str, JSON] = {key: list(entries[first : first + size])}
    if first + size < len(entries):
        found["nextCursor"] = str(first + size)
    if request.is_modern:
        found |= list_hints(kernel, request, kind)
    return found


def list_hints(kernel: Kernel, request: Request, kind: ListKind) -> JSONObject:
    """How long a client may keep a list: no longer than the stalest part of it is fresh."""
    left, longest = request.client.view.calls.seconds_left(kind), kernel.settings.ttl
    return Freshness(longest if left is None else min(left, longest), is_public=False).hints


def _first(cursor: JSON, length: int) -> int:
    if cursor is None:
        return 0
    if isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and 0 < int(cursor[:18]) < length:
        return int(cursor)
    raise ProtocolError(INVALID_PARAMS, "Invalid cursor")
