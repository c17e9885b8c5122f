"""The one client of a gateway over stdio: it can be asked what belongs to none of its requests, too."""

from toolbus.core.ask.forwarding import ClientError
from toolbus.core.values.records import JSONObject
from toolbus.gateway.protocol.clients import SessionClient
from toolbus.gateway.protocol.sessions import Sessions
from toolbus.gateway.protocol.words import INVALID_REQUEST


class OnlyClient:
    """For `Interactions(forwards=True, client=...)` of a bus whose gateway has one client.

    A server on a pipe does not say which of several calls a request of its belongs to.
    """

    def __init__(self) -> None:
        self.sessions: Sessions | None = None
        """Those of the gateway, once there is one."""

    @property
    def capabilities(self) -> JSONObject:
        """What the client declared; empty until it has connected."""
        client = self._client()
        return {} if client is None else client.capabilities

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client; `ClientError` if it cannot be asked."""
        client = self._client()
        if client is None:
            raise ClientError(INVALID_REQUEST, "there is no client to ask")
        return await client.ask(server, method, params)

    def _client(self) -> SessionClient | None:
        for session in self.sessions or ():
            if session.standalone is not None:
                return SessionClient(session, session.standalone)
        return None
