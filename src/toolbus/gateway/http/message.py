"""What a message of a client is: its kind, its era, and what it is about."""

from collections.abc import Mapping
from typing import Any, cast

from mcp_types import PROTOCOL_VERSION_META_KEY

from toolbus.core.records import JSON
from toolbus.gateway.http.legacy import SESSION
from toolbus.gateway.http.request import HttpRequest


def kind_of(message: object) -> str | None:
    """What a JSON-RPC message is; None if it is not one."""
    if not isinstance(message, dict):
        return None
    fields = cast("dict[str, Any]", message)
    if fields.get("jsonrpc") != "2.0":
        return None
    has_id = "id" in fields
    if has_id and type(fields["id"]) not in (str, int):
        return None
    method = fields.get("method")
    if isinstance(method, str):
        params = fields.get("params")
        if params is not None and not isinstance(params, dict):
            return None
        return "request" if has_id else "notification"
    return "response" if has_id and ("result" in fields or "error" in fields) else None


def owned_names(http: HttpRequest, message: Mapping[str, Any], *, is_modern: bool) -> tuple[JSON, ...]:
    """What a message is about that may be in the memory of one worker."""
    if not is_modern:
        return (http.headers.get(SESSION),)
    params = message.get("params")
    if not isinstance(params, dict):
        return ()
    fields = cast("dict[str, Any]", params)
    return fields.get("requestState"), fields.get("taskId")


def has_envelope(message: Mapping[str, Any]) -> bool:
    """Whether a message says which modern version it is of."""
    if not isinstance(message, dict):
        return False
    params = message.get("params")
    if not isinstance(params, dict):
        return False
    meta = cast("dict[str, Any]", params).get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta
