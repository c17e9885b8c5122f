"""Results and errors as a client of either era expects them."""

from collections.abc import Callable
from typing import cast

from toolbus.core.values.errors import (
    ArgumentsError,
    CallRefused,
    CallRejected,
    ServerNotFound,
    ToolbusError,
    ToolNotFound,
)
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.protocol.words import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CAPABILITY,
    RESERVED,
    RESOURCE_NOT_FOUND,
    SERVER_INFO,
    ProtocolError,
    is_object,
)

Rewrite = Callable[[str], str]
_MODERN_ONLY = ("resultType", "ttlMs", "cacheScope")


def for_modern(result: JSONObject, server_info: JSONObject) -> dict[str, JSON]:
    """The result with what the modern era requires: its type, and who answers."""
    meta: JSON = result.get("_meta")
    stamped = {**cast("JSONObject", meta), SERVER_INFO: server_info} if meta else {SERVER_INFO: server_info}
    if "resultType" in result:
        return {**result, "_meta": stamped}
    return {**result, "resultType": "complete", "_meta": stamped}


def for_legacy(result: JSONObject) -> JSONObject:
    """The result without what the legacy era does not know."""
    structured: JSON = result.get("structuredContent")
    odd = structured is not None and not isinstance(structured, dict)
    meta: JSON = result.get("_meta")
    stamped = isinstance(meta, dict) and any(key.startswith(RESERVED) for key in cast("JSONObject", meta))
    if not odd and not stamped and not any(key in result for key in _MODERN_ONLY):
        return result
    left = {key: value for key, value in result.items() if key not in _MODERN_ONLY}
    if odd:
        del left["structuredContent"]
    if stamped:
        kept = {key: value for key, value in cast("JSONObject", meta).items() if key != SERVER_INFO}
        if kept:
            left["_meta"] = kept
        else:
            del left["_meta"]
    return left


def tool_failure(message: str) -> JSONObject:
    """The result of a tool call that could not be made; a model reads the reason."""
    return {"content": [{"type": "text", "text": message}], "isError": True}


def protocol_error(error: ToolbusError, *, modern: bool = True) -> ProtocolError:
    """The error that a client gets for one of ours."""
    match error:
        case CallRejected():
            code = MISSING_CAPABILITY if modern and _lacks_capability(error) else error.code
            return ProtocolError(code, error.message, error.data)
        case ToolNotFound() | ServerNotFound() | ArgumentsError():
            return ProtocolError(INVALID_PARAMS, str(error))
        case CallRefused():
            return ProtocolError(INVALID_REQUEST, str(error))
        case _:
            return ProtocolError(INTERNAL_ERROR, str(error))


def _lacks_capability(error: CallRejected) -> bool:
    """Whether a legacy server passes on that the client cannot be asked."""
    data: JSON = error.data
    return error.code == INVALID_REQUEST and is_object(data) and is_object(data.get("requiredCapabilities"))


def resource_not_found(uri: str, *, modern: bool) -> ProtocolError:
    code = INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
    return ProtocolError(code, "Resource not found", {"uri": uri})


def is_not_found(error: CallRejected) -> bool:
    """Whether a server says that it has no such resource."""
    return error.code in (RESOURCE_NOT_FOUND, INVALID_PARAMS)


# URIs in results


def with_uris(result: JSONObject, rewrite: Rewrite) -> JSONObject:
    """The result of a call, a prompt or a read with its URIs rewritten."""
    changed = dict(result)
    for key in ("content", "contents"):
        if isinstance(blocks := result.get(key), list):
            changed[key] = [_block(block, rewrite) for block in cast("list[JSON]", blocks)]
    if isinstance(messages := result.get("messages"), list):
        changed["messages"] = [_message(one, rewrite) for one in cast("list[JSON]", messages)]
    if isinstance(meta := result.get("_meta"), dict):
        changed["_meta"] = with_ui_uri(cast("JSONObject", meta), rewrite)
    return changed


def with_ui_uri(meta: JSONObject, rewrite: Rewrite) -> JSONObject:
    """The `_meta` of a tool or a result with the URI of its user interface rewritten."""
    ui: JSON = meta.get("ui")
    if isinstance(ui, dict) and isinstance(uri := cast("JSONObject", ui).get("resourceUri"), str):
        meta = {**meta, "ui": {**cast("JSONObject", ui), "resourceUri": rewrite(uri)}}
    if isinstance(uri := meta.get("ui/resourceUri"), str):
        meta = {**meta, "ui/resourceUri": rewrite(uri)}
    return meta


def _message(message: JSON, rewrite: Rewrite) -> JSON:
    if not isinstance(message, dict):
        return message
    fields = cast("JSONObject", message)
    return {**fields, "content": _block(fields.get("content"), rewrite)}


def _block(block: JSON, rewrite: Rewrite) -> JSON:
    """A block of content, or a part of a resource, with its URI rewritten."""
    if not isinstance(block, dict):
        return block
    fields = cast("JSONObject", block)
    if isinstance(uri := fields.get("uri"), str):
        return {**fields, "uri": rewrite(uri)}
    if isinstance(resource := fields.get("resource"), dict):
        return {**fields, "resource": _block(resource, rewrite)}
    return fields
