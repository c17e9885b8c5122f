"""Resources whose changes somebody wants to hear of, in both eras, over every lost connection.

In the legacy era each is a request of its own. In the modern one all are named when a stream is opened;
another one means another stream.
"""

import asyncio
import logging

from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from toolbus.connect import Session, requests
from toolbus.errors import CallRejected, CallTimeout, ToolbusError
from toolbus.events import Emit, ResourceUpdated

logger = logging.getLogger("toolbus")

LISTEN_AGAIN = 1.0
"""Seconds before a stream that was lost is opened again."""


class Subscriptions:
    """Those of one server."""

    def __init__(self, server: str, emit: Emit) -> None:
        self._server = server
        self._emit = emit
        self._wanted: dict[str, None] = {}
        """In the order in which they were asked for."""
        self._changed = asyncio.Event()
        """Set when another stream is needed."""
        self._heard: frozenset[str] = frozenset()
        """What the present stream is about, once the server has agreed to it."""
        self._refused: str | None = None
        self._settled = asyncio.Event()
        """Set, and replaced, when the server has agreed or refused."""

    def updated(self, uri: str) -> None:
        """The server says that a resource changed: one that is subscribed to, or a part of one."""
        if uri.startswith(tuple(self._wanted)):
            self._emit(ResourceUpdated(server=self._server, uri=uri))

    async def add(self, session: Session, uri: str, timeout: float) -> None:
        """Hear of a resource from now on; `CallRejected` if the server does not tell."""
        resources = session.client.server_capabilities.resources
        if resources is None or not resources.subscribe:
            raise self._rejected(uri, "the server does not offer subscriptions")
        if uri in self._wanted:
            return
        if session.era == "legacy":
            await requests.subscribe(session, uri, timeout)
            self._wanted[uri] = None
            return
        self._wanted[uri] = None
        try:
            await self._agreed(uri, timeout)
        except ToolbusError:
            self._wanted.pop(uri, None)
            raise

    async def remove(self, session: Session, uri: str, timeout: float) -> None:
        """Hear no more of it."""
        if uri not in self._wanted:
            return
        del self._wanted[uri]
        if session.era == "legacy":
            await requests.subscribe(session, uri, timeout, on=False)
        else:
            self._changed.set()

    async def _agreed(self, uri: str, timeout: float) -> None:
        self._refused = None
        self._changed.set()
        try:
            async with asyncio.timeout(timeout):
                while uri not in self._heard and self._refused is None:
                    await self._settled.wait()
        except TimeoutError as error:
            raise CallTimeout(self._server, f"subscribing to {uri!r}", timeout) from error
        if self._refused is not None:
            raise self._rejected(uri, self._refused)

    def _settle(self, heard: frozenset[str], refused: str | None = None) -> None:
        self._heard, self._refused = heard, refused
        settled, self._settled = self._settled, asyncio.Event()
        settled.set()

    def _rejected(self, uri: str, reason: str) -> CallRejected:
        return CallRejected(self._server, f"subscribing to {uri!r}", METHOD_NOT_FOUND, reason)

    async def attend(self, session: Session) -> None:
        """Keep them up while the session lives; what changed before that is told as a change."""
        known = list(self._wanted)
        if session.era == "legacy":
            for uri in known:
                try:
                    await requests.subscribe(session, uri, session.config.timeouts.list)
                except (CallRejected, CallTimeout) as error:
                    logger.warning("%s", error)
        for uri in known:
            # Nothing is replayed: nobody knows what happened while the connection was away.
            self.updated(uri)
        while session.era == "modern" and not session.gone.is_set():
            self._changed.clear()
            if self._wanted:
                listening = asyncio.create_task(self._listen(session, frozenset(self._wanted)))
                try:
                    await self._changed.wait()
                finally:
                    listening.cancel()
                    await asyncio.wait({listening})
            else:
                await self._changed.wait()

    async def _listen(self, session: Session, uris: frozenset[str]) -> None:
        while not session.gone.is_set():
            try:
                async with session.client.listen(resource_subscriptions=sorted(uris)) as subscription:
                    self._settle(uris)
                    async for _ in subscription:
                        pass  # each event also arrives as the notice of the legacy era
            except (SubscriptionLost, MCPError, TimeoutError) as error:
                if self._heard != uris:
                    self._settle(frozenset(), str(error))
                    return
            await asyncio.sleep(LISTEN_AGAIN)
