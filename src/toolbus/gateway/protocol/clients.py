"""The clients of a gateway, for people who look at them: who they are, and when they last asked for anything.

A legacy client is there as long as its session. A modern client has none, so it is forgotten some time after
its last request.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from toolbus.core.values.records import JSON, Era, JSONObject
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.protocol.request import ClientExchange
from toolbus.gateway.protocol.sessions import ClientSession
from toolbus.gateway.protocol.words import RESERVED, object_in

MOST_CLIENTS = 1_000
"""Clients that are remembered; the one that was not seen for the longest time gives way."""
MODERN_SECONDS = 900.0
"""Seconds after its last request in which a modern client is listed."""
_INFO = f"{RESERVED}clientInfo"
_LONGEST = 100
"""Characters of what a client says of itself."""


@dataclass(slots=True, kw_only=True)
class ConnectedClient:
    """One client, as it describes itself, and whose it is."""

    name: str
    """As it says; empty if it does not."""
    version: str
    era: Era
    protocol: str
    """The protocol version."""
    principal: Principal
    session: str
    """The id of its session; empty for a modern client."""
    since: float
    """The time of its first request, in seconds since the epoch."""
    seen: float
    """The time of its last request."""
    called: float | None = None
    """The time of its last call of a tool."""
    calls: int = 0


class ConnectedClients:
    """The clients that were seen; on the loop of the gateway."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._known: dict[str, ConnectedClient] = {}
        self._last: dict[int, tuple[Principal, JSON, ConnectedClient]] = {}
        """The last modern client of each principal, by the object, with what it said of itself."""

    def opened(self, session: ClientSession, params: JSONObject) -> None:
        """A legacy client opened a session with these parameters."""
        self._add_session(session, object_in(params, "clientInfo"))

    def saw(self, exchange: ClientExchange, method: str) -> None:
        """A client asked for something; nearly always the one that its principal had before."""
        session, principal = exchange.session, exchange.principal
        if session is not None:
            known = self._known.get(session.id)
            if known is None:  # another replica had it before
                known = self._add_session(session, {})
        else:
            info, last = exchange.meta.get(_INFO), self._last.get(id(principal))
            if last is not None and last[0] is principal and last[1] == info:
                known = last[2]
            else:
                known = self._modern(exchange)
                if len(self._last) >= MOST_CLIENTS:
                    self._last.clear()
                self._last[id(principal)] = principal, info, known
        known.seen = self._clock()
        if method == "tools/call":
            known.called = known.seen
            known.calls += 1

    @property
    def all(self) -> list[ConnectedClient]:
        """Those that are connected, the one that was seen last first."""
        oldest = self._clock() - MODERN_SECONDS
        found = [one for one in self._known.values() if one.era == "legacy" or one.seen >= oldest]
        return sorted(found, key=lambda one: -one.seen)

    def _add_session(self, session: ClientSession, info: JSONObject) -> ConnectedClient:
        name, version = _described(info)
        now = self._clock()
        session.on_close(lambda: self._forget(session.id))
        return self._add(
            session.id,
            ConnectedClient(
                name=name,
                version=version,
                era="legacy",
                protocol=session.version,
                principal=session.principal,
                session=session.id,
                since=now,
                seen=now,
            ),
        )

    def _modern(self, exchange: ClientExchange) -> ConnectedClient:
        """The client of a request: one for each principal and program."""
        name, version = _described(object_in(exchange.meta, _INFO))
        key = f"{exchange.principal.owner}\0{name}\0{version}"
        known = self._known.get(key)
        if known is not None:
            return known
        now = self._clock()
        return self._add(
            key,
            ConnectedClient(
                name=name,
                version=version,
                era="modern",
                protocol=exchange.version,
                principal=exchange.principal,
                session="",
                since=now,
                seen=now,
            ),
        )

    def _add(self, key: str, client: ConnectedClient) -> ConnectedClient:
        self._known[key] = client
        if len(self._known) > MOST_CLIENTS:
            del self._known[min(self._known, key=lambda one: self._known[one].seen)]
            self._last.clear()
        return client

    def _forget(self, key: str) -> None:
        self._known.pop(key, None)


def _described(info: JSONObject) -> tuple[str, str]:
    """The name and version of a client, which may send anything."""
    name, version = info.get("name"), info.get("version")
    return (
        name[:_LONGEST] if isinstance(name, str) else "",
        version[:_LONGEST] if isinstance(version, str) else "",
    )
