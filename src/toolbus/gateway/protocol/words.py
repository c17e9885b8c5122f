"""The words of the protocol that a gateway uses itself, and results and errors as each era expects them."""

from collections.abc import Callable
from typing import Final, TypeGuard, cast

from pydantic_core import to_json

from toolbus.core.operation.quota import OverQuota
from toolbus.core.values.errors import (
    ArgumentsError,
    CallDenied,
    ServerNotFound,
    ServerRejected,
    ToolbusError,
    ToolNotFound,
)
from toolbus.core.values.records import JSON, JSONObject

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
"""In the legacy era; the modern one has `INVALID_PARAMS` for it."""
MISSING_CAPABILITY: Final = -32021
URL_REQUIRED: Final = -32042
"""A legacy server wants the user to visit a URL before it takes the call."""

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS: Final = ("2026-07-28",)
"""As in the SDK, which the first answer to a client must not wait for."""
PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
RESERVED: Final = "io.modelcontextprotocol/"
"""The prefix of the protocol's own keys in `_meta`."""
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
TASKS: Final = "io.modelcontextprotocol/tasks"

ELICITATION: Final = "elicitation/create"
SAMPLING: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"
CAPABILITY: Final[dict[str, str]] = {ELICITATION: "elicitation", SAMPLING: "sampling", ROOTS: "roots"}
"""The capability that a client declares to be asked."""

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of log messages, the lowest first."""
MAX_DECLARED: Final = 10_000
"""Bytes of the capabilities that a legacy client declares, as far as they are used."""


def has_level(level: str, lowest: str) -> bool:
    """Whether a log message of that level is wanted; unknown levels are."""
    return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(lowest)


def is_object(value: JSON) -> TypeGuard[dict[str, JSON]]:
    return isinstance(value, dict)


def object_in(values: JSONObject, key: str) -> JSONObject:
    """The object under a key; empty if there is something else, or nothing."""
    value: JSON = values.get(key)
    return value if is_object(value) else {}


def list_in(values: JSONObject, key: str) -> list[JSON]:
    """The list under a key; empty if there is something else, or nothing."""
    value: JSON = values.get(key)
    return cast("list[JSON]", value) if isinstance(value, list) else []


def modern_capabilities(declared: JSONObject) -> JSONObject:
    """A legacy client's capabilities in modern form; tasks are followed for it, so it has them."""
    found: JSONObject = {}
    if isinstance(declared.get("elicitation"), dict):
        elicitation = object_in(declared, "elicitation")
        modes: dict[str, JSON] = {
            mode: {} for mode in ("form", "url") if isinstance(elicitation.get(mode), dict)
        }
        found = {**found, "elicitation": modes or {"form": {}}}
    if isinstance(declared.get("sampling"), dict):
        found = {**found, "sampling": object_in(declared, "sampling")}
    if isinstance(declared.get("roots"), dict):
        found = {**found, "roots": {}}
    extensions = object_in(declared, "extensions")
    return {**found, "extensions": {**extensions, TASKS: {}}}


def declared_capabilities(params: JSONObject) -> JSONObject:
    """The capabilities in a legacy client's `initialize`, within the limit for its session."""
    found = modern_capabilities(object_in(params, "capabilities"))
    if len(to_json(found)) > MAX_DECLARED:
        what = f"the capabilities of the client have more than {MAX_DECLARED:,} bytes"
        raise ProtocolError(INVALID_PARAMS, f"initialize: {what}")
    return found


def can_ask(capabilities: JSONObject, method: str, params: JSONObject) -> bool:
    """Whether a client with these capabilities, in modern form, takes that request."""
    capability = CAPABILITY.get(method)
    if capability is None or not isinstance(capabilities.get(capability), dict):
        return False
    if capability != "elicitation":
        return True
    modes = object_in(capabilities, "elicitation")
    mode = params.get("mode", "form")
    return mode in modes or (mode == "form" and not modes)


def can_be_asked(capabilities: JSONObject) -> bool:
    """Whether a client with these capabilities takes any request."""
    return "elicitation" in capabilities or "sampling" in capabilities or "roots" in capabilities


def knows_tasks(capabilities: JSONObject) -> bool:
    return TASKS in object_in(capabilities, "extensions")


BUSY: Final = -32029
"""Our own code, in the range for servers: the call was not made, and may be retried."""


class ProtocolError(Exception):
    """A JSON-RPC error."""

    def __init__(self, code: int, message: str, data: JSON = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{message} (code {code})")

    @property
    def json(self) -> dict[str, JSON]:
        error: dict[str, JSON] = {"code": self.code, "message": self.message}
        return error if self.data is None else error | {"data": self.data}


def over_quota(limit: str, problem: str) -> ProtocolError:
    """The error for a client that wants more than its share, or more than there is."""
    return ProtocolError(BUSY, f"{problem} ({limit}); end some, or try again later", {"limit": limit})


class WrongReplica(Exception):
    """Another replica has the session or the call of a request; the receiving replica forwards it."""

    def __init__(self, replica: str) -> None:
        self.replica = replica
        super().__init__(f"the replica {replica} has it")


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


RETRY_AFTER: Final = "toolbus/retryAfter"
"""In the `_meta` of a result: the seconds after which to try again."""


def tool_failure(error: ToolbusError, words: str = "") -> JSONObject:
    """The result of a tool call that could not be made; a model reads the `words`, or the error's own."""
    result: JSONObject = {"content": [{"type": "text", "text": words or error.public}], "isError": True}
    return {**result, "_meta": {RETRY_AFTER: error.retry_after}} if isinstance(error, OverQuota) else result


def protocol_error(error: ToolbusError, *, modern: bool = True) -> ProtocolError:
    """The error that a client gets for one of ours."""
    match error:
        case ServerRejected():
            code = MISSING_CAPABILITY if modern and _lacks_capability(error) else error.code
            return ProtocolError(code, error.message, error.data)
        case ToolNotFound() | ServerNotFound() | ArgumentsError():
            return ProtocolError(INVALID_PARAMS, error.public)
        case OverQuota():
            data: JSONObject = {"limit": error.limit, "retryAfter": error.retry_after}
            return ProtocolError(BUSY, error.public, data)
        case CallDenied():
            return ProtocolError(INVALID_REQUEST, error.public)
        case _:
            return ProtocolError(INTERNAL_ERROR, error.public)


def _lacks_capability(error: ServerRejected) -> bool:
    """Whether a legacy server passes on that the client cannot be asked."""
    data: JSON = error.data
    return error.code == INVALID_REQUEST and is_object(data) and is_object(data.get("requiredCapabilities"))


def resource_not_found(uri: str, *, modern: bool) -> ProtocolError:
    code = INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
    return ProtocolError(code, "Resource not found", {"uri": uri})


def is_not_found(error: ServerRejected) -> bool:
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
