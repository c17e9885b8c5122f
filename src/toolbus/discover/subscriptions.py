"""Subscriptions to resources, in both eras; they survive a lost connection.

In the legacy era each subscription is a request. In the modern era, a stream names all of them when it is
opened. To add one, a new stream is opened before the old one is closed, so that no change is missed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, KeysView

from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from toolbus.connect import requests
from toolbus.connect.session import ServerSession
from toolbus.connect.transports.http import is_temporary
from toolbus.connect.transports.wire.pending import WireError
from toolbus.core.operation.events import Emit, ResourceUpdated
from toolbus.core.values.errors import CallTimeout, ServerRejected, ToolbusError
from toolbus.core.values.uri_templates import within

logger = logging.getLogger("toolbus")

RETRY_DELAY = 1.0
"""Seconds before a lost subscription is requested again; doubled after each refusal."""
MAX_RETRY_DELAY = 60.0
_AT_ONCE = 100
"""Resources that are reported as changed before others get their turn."""


class Subscriptions:
    """The subscriptions of one server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._subscribers: Counter[tuple[str, Emit]] = Counter()
        """The number of subscriptions to each URI, by subscriber; the last one to leave unsubscribes."""
        self._by_uri: dict[str, dict[Emit, None]] = {}
        """The subscribers of each URI."""
        self._listening: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    @property
    def active(self) -> bool:
        """Whether there are subscriptions, or one is being made: the link must not become idle."""
        return bool(self._subscribers) or self._lock.locked()

    @property
    def uris(self) -> KeysView[str]:
        """The resources that somebody subscribes to."""
        return self._by_uri.keys()

    def has(self, emit: Emit) -> bool:
        return any(subscriber == emit for _, subscriber in list(self._subscribers))

    def forget(self, emit: Emit) -> None:
        """Drop the subscriptions of a subscriber, who gets no more events."""
        for key in [key for key in self._subscribers if key[1] == emit]:
            self._delete(*key)

    def _delete(self, uri: str, emit: Emit) -> None:
        del self._subscribers[uri, emit]
        del self._by_uri[uri][emit]
        if not self._by_uri[uri]:
            del self._by_uri[uri]

    def emit_updated(self, uri: str) -> None:
        """Emit that a resource changed, to the subscribers of it and of its parents."""
        event = ResourceUpdated(server=self._server, uri=uri)
        wanted = (emit for parent in within(uri, self._by_uri) for emit in self._by_uri[parent])
        for emit in dict.fromkeys(wanted):
            emit(event)

    async def _emit_all_updated(self, uris: Iterable[str]) -> None:
        """Changes are not replayed: each of these may have changed while nobody reported it."""
        for number, uri in enumerate(uris, 1):
            self.emit_updated(uri)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    @staticmethod
    def are_offered(session: ServerSession) -> bool:
        """Whether the server has subscriptions in the era of this session."""
        resources = session.client.server_capabilities.resources
        return resources is not None and bool(resources.subscribe)

    async def add(self, session: ServerSession, uri: str, timeout: float, emit: Emit) -> None:
        """Subscribe to a resource; raises `ServerRejected` if the server does not support it."""
        if not self.are_offered(session):
            raise self._rejected(uri, "the server does not offer subscriptions")
        async with self._lock:
            if uri not in self.uris:
                if session.era == "legacy":
                    await requests.subscribe(session, uri, timeout)
                else:
                    await self._listen_to(session, {*self.uris, uri}, uri, timeout)
            self._subscribers[uri, emit] += 1
            self._by_uri.setdefault(uri, {})[emit] = None

    async def remove(self, session: ServerSession, uri: str, timeout: float, emit: Emit) -> None:
        """Remove one subscription of this subscriber; the last one of all unsubscribes."""
        async with self._lock:
            if (uri, emit) not in self._subscribers:
                return
            self._subscribers[uri, emit] -= 1
            if self._subscribers[uri, emit] > 0:
                return
            self._delete(uri, emit)
            if uri not in self.uris:
                await self._end(session, [uri], timeout)

    async def drop(self, session: ServerSession, timeout: float, emit: Emit) -> None:
        """Remove all subscriptions of this subscriber; those that nobody else has end at the server."""
        async with self._lock:
            before = set(self.uris)
            self.forget(emit)
            if gone := sorted(before - self.uris):
                await self._end(session, gone, timeout)

    async def _end(self, session: ServerSession, gone: list[str], timeout: float) -> None:
        """End the subscriptions that nobody has any more."""
        if session.era == "legacy":
            for uri in gone:
                await requests.unsubscribe(session, uri, timeout)
        elif self._subscribers:
            await self._listen_to(session, {*self.uris}, gone[0], timeout)
        else:
            await self.stop_listening()

    async def renew(self, session: ServerSession) -> None:
        """Renew the subscriptions for a new session; each renewed one is treated as changed."""
        known = sorted(self.uris)
        await self._resubscribe_all(session, known)
        await self._emit_all_updated(known)

    async def _resubscribe_all(self, session: ServerSession, known: list[str]) -> None:
        """Subscribe again to the known URIs; temporary failures are retried after a delay."""
        delay = RETRY_DELAY
        left = [known] if session.era == "modern" else [[uri] for uri in known]
        while left and not session.gone.is_set():
            async with self._lock:
                left = [uris for uris in left if not await self._resubscribe(session, uris)]
            if left:
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_DELAY)

    async def _resubscribe(self, session: ServerSession, uris: list[str]) -> bool:
        """Subscribe again; returns False if it should be retried."""
        timeout = session.config.timeouts.list
        wanted = [uri for uri in uris if uri in self.uris]  # some may have been removed meanwhile
        try:
            if wanted and session.era == "modern":
                await self._listen_to(session, {*self.uris}, wanted[0], timeout)
            elif wanted:
                await requests.subscribe(session, wanted[0], timeout)
        except ToolbusError as error:
            logger.warning("%s", error)
            return isinstance(error, ServerRejected) and not is_temporary(error.status or 0)
        return True

    async def _listen_to(self, session: ServerSession, uris: set[str], uri: str, timeout: float) -> None:
        """Open a stream for these URIs and close the current one, if the server honors `uri`."""
        honored: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
        listening = asyncio.create_task(self._listen(session, uris, honored))
        try:
            async with asyncio.timeout(timeout):
                accepted = await asyncio.shield(honored)
            if uri in uris and uri not in accepted:
                raise self._rejected(uri, "the server does not report changes to it")
        except BaseException as error:
            await _cancel(listening)
            if isinstance(error, TimeoutError):
                raise CallTimeout(self._server, f"subscribing to {uri!r}", timeout) from error
            if session.gone.is_set():
                raise session.loss_error(f"subscribing to {uri!r}") from error
            if isinstance(error, MCPError):
                status = error.status if isinstance(error, WireError) else None
                raise self._rejected(uri, error.message, status) from error
            raise
        old, self._listening = self._listening, listening
        await _cancel(old)

    async def _listen(
        self, session: ServerSession, uris: set[str], honored: "asyncio.Future[frozenset[str]]"
    ) -> None:
        """Listen for changes until cancelled; a lost stream is opened again."""
        while not session.gone.is_set():
            try:
                async with session.client.listen(resource_subscriptions=sorted(uris)) as subscription:
                    if not honored.done():
                        honored.set_result(frozenset(subscription.honored.resource_subscriptions or ()))
                    else:
                        await self._emit_all_updated(uris)
                    async for _ in subscription:
                        pass  # each event also arrives as a legacy notification
            except Exception as error:  # a task's edge: the SDK may raise anything about what it reads
                if not isinstance(error, SubscriptionLost | MCPError | TimeoutError):
                    logger.debug("a subscription of server %r failed", self._server, exc_info=error)
                if not honored.done():
                    lost = error if isinstance(error, MCPError) else MCPError(METHOD_NOT_FOUND, str(error))
                    honored.set_exception(lost)
                    return
            await asyncio.sleep(RETRY_DELAY)

    async def stop_listening(self) -> None:
        """End the stream of a modern session; the subscriptions stay known."""
        old, self._listening = self._listening, None
        await _cancel(old)

    def _rejected(self, uri: str, reason: str, status: int | None = None) -> ServerRejected:
        return ServerRejected(self._server, f"subscribing to {uri!r}", METHOD_NOT_FOUND, reason, status)


async def _cancel(listening: asyncio.Task[None] | None) -> None:
    if listening is not None:
        listening.cancel()
        await asyncio.wait({listening})
