"""What a JSON-RPC message is, and which era it belongs to."""

from collections.abc import Mapping
from typing import Any, cast

from mcp_types import PROTOCOL_VERSION_META_KEY

from toolbus.connect.transports.wire.messages import MAX_ID, is_usable_id

ONE_MESSAGE = f"one JSON-RPC message, with an id of at most {MAX_ID:,} characters"


def kind_of(message: object) -> str | None:
    """What a JSON-RPC message is; None if it is not one."""
    if not isinstance(message, dict):
        return None
    fields = cast("dict[str, Any]", message)
    if fields.get("jsonrpc") != "2.0":
        return None
    has_id = "id" in fields
    if has_id and not is_usable_id(fields["id"]):
        return None
    method = fields.get("method")
    if isinstance(method, str):
        params = fields.get("params")
        if params is not None and not isinstance(params, dict):
            return None
        return "request" if has_id else "notification"
    return "response" if has_id and ("result" in fields or "error" in fields) else None


def has_envelope(message: Mapping[str, Any]) -> bool:
    """Whether a message says which modern version it is of."""
    if not isinstance(message, dict):
        return False
    params = message.get("params")
    if not isinstance(params, dict):
        return False
    meta = cast("dict[str, Any]", params).get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta
