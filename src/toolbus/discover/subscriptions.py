"""Resources whose changes somebody wants to hear of, in both eras, over every lost connection.

In the legacy era each is a request of its own. In the modern one all are named when a stream is opened: for
another one a new stream is opened before the old one is left, so that no change falls between them.
"""

import asyncio
import logging
from collections import Counter

from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from toolbus.connect import Session, WireError, requests
from toolbus.connect.transports.http import is_temporary
from toolbus.core.errors import CallRejected, CallTimeout, ToolbusError
from toolbus.core.events import Emit, ResourceUpdated

logger = logging.getLogger("toolbus")

LISTEN_AGAIN = 1.0
"""Seconds before what was lost is asked for again; ever longer while it is refused."""
LISTEN_AGAIN_AT_MOST = 60.0


class Subscriptions:
    """Those of one server."""

    def __init__(self, server: str, emit: Emit) -> None:
        self._server = server
        self._emit = emit
        self._wanted: Counter[str] = Counter()
        """How many want each; the last one who leaves ends it."""
        self._listening: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._wanted)

    def updated(self, uri: str) -> None:
        """The server says that a resource changed: one that is subscribed to, or a part of one."""
        if any(f"{uri}/".startswith(f"{wanted.removesuffix('/')}/") for wanted in self._wanted):
            self._emit(ResourceUpdated(server=self._server, uri=uri))

    async def add(self, session: Session, uri: str, timeout: float) -> None:
        """Hear of a resource from now on; `CallRejected` if the server does not tell."""
        resources = session.client.server_capabilities.resources
        if resources is None or not resources.subscribe:
            raise self._rejected(uri, "the server does not offer subscriptions")
        async with self._changing:
            if uri not in self._wanted:
                if session.era == "legacy":
                    await requests.subscribe(session, uri, timeout)
                else:
                    await self._listen_to(session, {*self._wanted, uri}, uri, timeout)
            self._wanted[uri] += 1

    async def remove(self, session: Session, uri: str, timeout: float) -> None:
        """Hear no more of it, once nobody else wants to."""
        async with self._changing:
            if uri not in self._wanted:
                return
            self._wanted[uri] -= 1
            if self._wanted[uri] > 0:
                return
            del self._wanted[uri]
            if session.era == "legacy":
                await requests.subscribe(session, uri, timeout, on=False)
            elif self._wanted:
                await self._listen_to(session, set(self._wanted), uri, timeout)
            else:
                await self._leave()

    async def attend(self, session: Session) -> None:
        """Keep them up while the session lives; what is known already is told as a change."""
        known = list(self._wanted)
        try:
            await self._renew(session, known)
            for uri in known:
                # Nothing is replayed: nobody knows what happened while the connection was away.
                self.updated(uri)
            await session.gone.wait()
        finally:
            await self._leave()

    async def _renew(self, session: Session, known: list[str]) -> None:
        """Subscribe again to what was known; what fails for a moment is tried again after a pause."""
        pause = LISTEN_AGAIN
        left = [known] if session.era == "modern" else [[uri] for uri in known]
        while left and not session.gone.is_set():
            async with self._changing:
                left = [uris for uris in left if not await self._settled(session, uris)]
            if left:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LISTEN_AGAIN_AT_MOST)

    async def _settled(self, session: Session, uris: list[str]) -> bool:
        """Whether these are subscribed to again, or never will be."""
        timeout = session.config.timeouts.list
        wanted = [uri for uri in uris if uri in self._wanted]  # others may have left meanwhile
        try:
            if wanted and session.era == "modern":
                await self._listen_to(session, set(self._wanted), wanted[0], timeout)
            elif wanted:
                await requests.subscribe(session, wanted[0], timeout)
        except ToolbusError as error:
            logger.warning("%s", error)
            return isinstance(error, CallRejected) and not is_temporary(error.status or 0)
        return True

    async def _listen_to(self, session: Session, uris: set[str], uri: str, timeout: float) -> None:
        """Open a stream for these addresses in place of the present one, if the server agrees to `uri`."""
        agreed: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
        fresh = asyncio.create_task(self._listen(session, uris, agreed))
        try:
            async with asyncio.timeout(timeout):
                honoured = await asyncio.shield(agreed)
            if uri in uris and uri not in honoured:
                raise self._rejected(uri, "the server does not tell of changes to it")
        except BaseException as error:
            await _ended(fresh)
            if isinstance(error, TimeoutError):
                raise CallTimeout(self._server, f"subscribing to {uri!r}", timeout) from error
            if session.gone.is_set():
                raise session.lost(f"subscribing to {uri!r}") from error
            if isinstance(error, MCPError):
                status = error.status if isinstance(error, WireError) else None
                raise self._rejected(uri, error.message, status) from error
            raise
        old, self._listening = self._listening, fresh
        await _ended(old)

    async def _listen(
        self, session: Session, uris: set[str], agreed: "asyncio.Future[frozenset[str]]"
    ) -> None:
        """Hear of them until cancelled; a stream that is lost is opened again."""
        while not session.gone.is_set():
            try:
                async with session.client.listen(resource_subscriptions=sorted(uris)) as subscription:
                    if not agreed.done():
                        agreed.set_result(frozenset(subscription.honored.resource_subscriptions or ()))
                    else:
                        for uri in uris:
                            self.updated(uri)  # what changed meanwhile was told to nobody
                    async for _ in subscription:
                        pass  # each event also arrives as the notice of the legacy era
            except (SubscriptionLost, MCPError, TimeoutError) as error:
                if not agreed.done():
                    lost = error if isinstance(error, MCPError) else MCPError(METHOD_NOT_FOUND, str(error))
                    agreed.set_exception(lost)
                    return
            await asyncio.sleep(LISTEN_AGAIN)

    async def _leave(self) -> None:
        old, self._listening = self._listening, None
        await _ended(old)

    def _rejected(self, uri: str, reason: str, status: int | None = None) -> CallRejected:
        return CallRejected(self._server, f"subscribing to {uri!r}", METHOD_NOT_FOUND, reason, status)


async def _ended(listening: asyncio.Task[None] | None) -> None:
    if listening is not None:
        listening.cancel()
        await asyncio.wait({listening})
