"""The gateway: answers the requests of clients from the servers of a bus."""

from collections.abc import Callable
from typing import Self, TypeAlias

from toolbus.bus import Toolbus
from toolbus.bus.view import View
from toolbus.core.records import JSONObject
from toolbus.gateway.exchange import Exchange
from toolbus.gateway.principal import Principal
from toolbus.gateway.seal import Seal
from toolbus.gateway.sessions import Session, Sessions
from toolbus.gateway.settings import Settings

ViewOf: TypeAlias = Callable[[Principal, str], View]
"""The view that a principal gets; the second argument names its session, for the audit trail."""


class Gateway:
    """One MCP server in front of a bus, for clients of both eras; fronts bring it their requests.

    Use it as a context manager, on the loop of the bus; the bus may still be starting.
    """

    def __init__(
        self,
        bus: Toolbus,
        settings: Settings | None = None,
        *,
        view_of: ViewOf | None = None,
        seal: Seal | None = None,
    ) -> None:
        """`view_of` says what a principal sees, by default all; `seal` seals what clients carry for us."""
        self.bus = bus
        self.settings = settings or Settings()
        self.sessions = Sessions(self.settings.max_sessions, self.settings.session_idle)
        """The sessions of legacy clients."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End sessions, streams and parked calls."""
        raise NotImplementedError

    async def answer(self, exchange: Exchange, method: str, params: JSONObject | None) -> JSONObject:
        """The result of a request; notifications about it go to `exchange.channel` before.

        `ProtocolError` is the error to send instead, `RequestCancelled` says that a legacy client has
        cancelled the request and gets nothing. Cancel the task if the client leaves, or if a modern
        client cancels: the server is told, and the call ends. `initialize` is not answered here.
        A `subscriptions/listen` ends only when it is cancelled, or when the gateway closes.
        """
        raise NotImplementedError

    async def initialize(self, principal: Principal, params: JSONObject | None) -> tuple[Session, JSONObject]:
        """Open a session for a legacy client; returns it with the result of `initialize`.

        Give it a stream for messages that belong to no request: `session.standalone = channel`. A
        response of the client goes to `session.answered`; end it with `gateway.sessions.close(session.id)`.
        """
        raise NotImplementedError

    def notified(self, session: Session, method: str, params: JSONObject | None) -> None:
        """Take a notification of a legacy client: cancelled requests, changed roots."""
        raise NotImplementedError

    def tool_schema(self, principal: Principal, name: str) -> JSONObject | None:
        """The `inputSchema` of a tool as this principal gets it in the list; None if it does not."""
        raise NotImplementedError

    def view(self, principal: Principal, session: str = "") -> View:
        """What a principal sees of the bus."""
        raise NotImplementedError
