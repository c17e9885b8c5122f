"""The clients that operations are made for, as servers see them."""

import secrets

from toolbus.core.ask.interactions import ClientError, McpClient
from toolbus.core.values.records import JSONObject
from toolbus.gateway.calls.queue import Slot
from toolbus.gateway.protocol.channel import Channel
from toolbus.gateway.protocol.sessions import ClientSession
from toolbus.gateway.protocol.words import ELICITATION, INVALID_REQUEST, can_ask

_FIRST_WITH_MODES = "2025-11-25"


class PlainClient:
    """A client that cannot be asked in the middle of an operation."""

    __slots__ = ("capabilities",)

    def __init__(self, capabilities: JSONObject) -> None:
        self.capabilities = capabilities

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Refuse: there is no way to the client."""
        raise ClientError(INVALID_REQUEST, f"the client does not support {method}")


class LendingClient:
    """A client whose call lends its room to others while the client is asked."""

    __slots__ = ("_client", "_most", "_slot", "capabilities")

    def __init__(self, client: McpClient, slot: Slot, most: int) -> None:
        """`most` is for the questions that the server may ask at a time."""
        self.capabilities = client.capabilities
        self._client = client
        self._slot = slot
        self._most = most

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client."""
        with self._slot.asking(self._most):
            return await self._client.ask(server, method, params)


class StandaloneClient:
    """A legacy client with connections of its own: it is also asked what belongs to none of its requests."""

    def __init__(self, session: ClientSession) -> None:
        self.capabilities = session.capabilities
        self._session = session

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client, on the stream of its session."""
        if self._session.standalone is None:
            raise ClientError(INVALID_REQUEST, "the client has no stream for requests")
        return await SessionClient(self._session, self._session.standalone).ask(server, method, params)


class SessionClient:
    """A legacy client, which is asked on the stream of its request."""

    def __init__(self, session: ClientSession, channel: Channel) -> None:
        self.capabilities = session.capabilities
        self._session = session
        self._channel = channel

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client; returns its result as sent."""
        if not can_ask(self.capabilities, method, params):
            raise ClientError(INVALID_REQUEST, f"the client does not support {method}")
        return await self._session.ask(self._channel, method, self._legacy_params(method, params))

    def _legacy_params(self, method: str, params: JSONObject) -> JSONObject | None:
        if method != ELICITATION:
            return params or None
        if params.get("mode") == "url" and "elicitationId" not in params:  # the modern era has none
            return {**params, "elicitationId": f"toolbus-{secrets.token_hex(8)}"}
        if self._session.version < _FIRST_WITH_MODES and "mode" in params:
            return {key: value for key, value in params.items() if key != "mode"}
        return params
