"""One request of a client on its way through the gateway, and the reports about it meanwhile."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolbus.core.ask.interactions import ClientError
from toolbus.core.fast_init import with_fast_init
from toolbus.core.operation.events import Logged, OnLog
from toolbus.core.text.canonical import digest_of
from toolbus.core.values.argument_restore import EMPTY
from toolbus.core.values.records import JSON, Era, JSONObject, LogLevel, Progress, ToolSpec
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.protocol.sessions import Channel, ClientSession
from toolbus.gateway.protocol.views import ClientView
from toolbus.gateway.protocol.words import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    RESERVED,
    ProtocolError,
    has_level,
    is_object,
    object_in,
)


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientExchange:
    """One request of a client."""

    principal: Principal
    era: Era
    version: str
    """The protocol version: of this request (modern), or of the session (legacy)."""
    capabilities: JSONObject
    """As the client declared them: in this request (modern), or in the handshake (legacy), in modern form."""
    id: str | int
    """The JSON-RPC id of the request."""
    channel: Channel
    """Notifications about this request, and requests to the client that belong to it, go here."""
    meta: JSONObject = field(default_factory=dict[str, object])
    """The `_meta` of the request."""
    log_level: LogLevel | None = None
    """The lowest level of the log messages that it wants; None for none (modern), or the default (legacy)."""
    size: int = 0
    """The bytes of the request."""
    session: ClientSession | None = None
    """The session of a legacy client."""
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    """The headers of the HTTP request, with names in lower case; None over stdio."""

    @classmethod
    def of_session(
        cls,
        session: ClientSession,
        principal: Principal,
        request_id: str | int,
        params: JSONObject | None,
        channel: Channel,
        *,
        size: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> "ClientExchange":
        return cls(
            principal=principal,
            era="legacy",
            version=session.version,
            capabilities=session.capabilities,
            id=request_id,
            channel=channel,
            meta={} if params is None else object_in(params, "_meta"),
            log_level=session.log_level,
            size=size,
            session=session,
            headers=headers,
        )


class Reports:
    """Reports to the client that waits for the result; later rounds of a call may have another stream."""

    __slots__ = ("exchange",)

    def __init__(self, exchange: ClientExchange) -> None:
        self.exchange: ClientExchange | None = exchange
        """The request that waits; None while there is none."""

    @property
    def on_progress(self) -> Progress | None:
        """Reports progress; None if the client did not ask for it."""
        exchange = self.exchange
        return None if exchange is None or "progressToken" not in exchange.meta else self.progressed

    @property
    def on_log(self) -> OnLog | None:
        """Passes log messages on; None if the client wants none."""
        exchange = self.exchange
        if exchange is None or (exchange.log_level is None and exchange.session is None):
            return None
        return self.logged

    def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Send progress, if a client waits that asked for it."""
        exchange = self.exchange
        if exchange is None or "progressToken" not in exchange.meta:
            return
        params: dict[str, JSON] = {"progressToken": exchange.meta["progressToken"], "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        exchange.channel.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def logged(self, message: Logged) -> None:
        """Send a log message, if a client waits that wants its level."""
        exchange = self.exchange
        if exchange is None:
            return
        lowest = exchange.log_level
        if exchange.session is not None:  # it may have changed since the request was made
            lowest = exchange.session.log_level or "debug"
        if lowest is None or not has_level(message.level, lowest):
            return
        params: dict[str, JSON] = {"level": message.level, "data": message.data}
        if message.logger is not None:
            params["logger"] = message.logger
        exchange.channel.send({"jsonrpc": "2.0", "method": "notifications/message", "params": params})


@dataclass(slots=True, eq=False)
class ClientRequest:
    """A request of a client, and what that client sees."""

    exchange: ClientExchange
    method: str
    params: JSONObject
    client: ClientView

    @property
    def is_modern(self) -> bool:
        return self.exchange.era == "modern"

    @property
    def session(self) -> ClientSession:
        session = self.exchange.session
        assert session is not None, "a legacy client has a session"
        return session

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
class RequestTarget:
    """The target of a request."""

    spec: ToolSpec
    arguments: JSONObject
    name: str
    """The name that the client used."""
    is_unlisted: bool = False
    """Whether the client named it to `call_tool`."""

    @property
    def server(self) -> str:
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
        return object_in(self.spec.extras, "execution").get("taskSupport") in ("required", "optional")


_MOST_KNOWN = 10_000


class PlainClient:
    """A client that cannot be asked in the middle of an operation."""

    __slots__ = ("capabilities",)

    def __init__(self, capabilities: JSONObject) -> None:
        self.capabilities = capabilities

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Refuse: there is no way to the client."""
        raise ClientError(INVALID_REQUEST, f"the client does not support {method}")


class HeaderArguments:
    """Checks the `Mcp-Param-*` headers of tool calls."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[JSONObject, bool]] = {}
        """By tool: its schema, and whether it wants arguments in headers."""

    def check(self, spec: ToolSpec, arguments: JSONObject, headers: Mapping[str, str]) -> None:
        """`ProtocolError` if the headers do not match the arguments."""
        schema = spec.input_schema
        if not self._is_wanted(spec.name, schema):
            return
        from mcp.shared.inbound import validate_mcp_param_headers

        rejection = validate_mcp_param_headers(dict(schema), dict(arguments), headers)
        if rejection is not None:
            raise ProtocolError(rejection.code, rejection.message, rejection.data)

    def _is_wanted(self, name: str, schema: JSONObject) -> bool:
        known = self._known.get(name)
        if known is None or known[0] is not schema:
            from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map

            # Reading a schema takes longer than all the rest, and hardly any has such headers.
            wanted = find_invalid_x_mcp_header(schema) is None and bool(x_mcp_header_map(schema))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[name] = schema, wanted
        return known[1]
