"""One request on its way through the gateway."""

from dataclasses import dataclass

from toolbus.core.text.canonical import digest_of
from toolbus.core.values.originals import EMPTY
from toolbus.core.values.records import JSON, JSONObject, ToolSpec
from toolbus.gateway.protocol.exchange import Exchange
from toolbus.gateway.protocol.protocol_error import ProtocolError
from toolbus.gateway.protocol.views import ClientView
from toolbus.gateway.protocol.words import INVALID_PARAMS, RESERVED, is_object, object_in


@dataclass(slots=True, eq=False)
class Request:
    """A request of a client, and what that client sees."""

    exchange: Exchange
    method: str
    params: JSONObject
    client: ClientView

    @property
    def is_modern(self) -> bool:
        """Whether a modern client made it."""
        return self.exchange.era == "modern"

    @property
    def forwarded_meta(self) -> JSONObject:
        """The `_meta` for the server: without the keys of the protocol itself."""
        meta = self.exchange.meta
        if not meta:
            return EMPTY
        return {
            key: value
            for key, value in meta.items()
            if not key.startswith(RESERVED) and key != "progressToken"
        }

    def text(self, key: str) -> str:
        """A parameter that must be a string."""
        value: JSON = self.params.get(key)
        if not isinstance(value, str):
            raise ProtocolError(INVALID_PARAMS, f"{self.method}: {key} must be a string")
        return value

    def object(self, key: str) -> JSONObject:
        """A parameter that must be an object, empty if it is missing."""
        value: JSON = self.params.get(key)
        if value is None:
            return {}
        if not is_object(value):
            raise ProtocolError(INVALID_PARAMS, f"{self.method}: {key} must be an object")
        return value


@dataclass(slots=True, eq=False)
class Target:
    """Where a request goes."""

    spec: ToolSpec
    arguments: JSONObject
    name: str
    """As the client named it."""
    is_unlisted: bool = False
    """Whether the client named it to `call_tool`."""

    @property
    def server(self) -> str:
        """The alias of the server."""
        return self.spec.origin.server

    def digest(self, method: str) -> str:
        """The same for the same request."""
        return digest_of([method, self.name, dict(self.arguments)])

    @property
    def is_task_only(self) -> bool:
        """Whether the tool of a legacy server has to be called as a task."""
        return object_in(self.spec.extras, "execution").get("taskSupport") == "required"

    @property
    def may_be_task(self) -> bool:
        """Whether a legacy client may call the tool as a task."""
        return object_in(self.spec.extras, "execution").get("taskSupport") in ("required", "optional")
