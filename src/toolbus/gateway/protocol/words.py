"""The methods, error codes and keys of the protocol that a gateway uses itself."""

from typing import Final, TypeGuard, cast

from pydantic_core import to_json

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
    """What a legacy client declared, as a modern one would; tasks are followed for it, so it has them."""
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
    """What a legacy client declares in `initialize`: as much as is kept for its session."""
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


def knows_tasks(capabilities: JSONObject) -> bool:
    return TASKS in object_in(capabilities, "extensions")


BUSY: Final = -32029
"""Of ours, in the range for servers: the call was not made, and may be tried again."""


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
    """Another replica has the session or the call of a request; whoever took the request passes it on."""

    def __init__(self, replica: str) -> None:
        self.replica = replica
        super().__init__(f"the replica {replica} has it")
