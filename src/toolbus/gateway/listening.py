"""Notifications to clients: changed lists, and updates of the resources they subscribe to.

A legacy client gets it on the stream of its session. A modern client gets only the notifications that it
asked for, on the streams of its `subscriptions/listen`.
"""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from toolbus.bus.inner import calls_of
from toolbus.bus.view import View
from toolbus.core.operation.events import CatalogChanged, Event, ListChanged, ResourceUpdated, StateChanged
from toolbus.core.operation.operation import request_spec
from toolbus.core.operation.quota import Quota
from toolbus.core.values.errors import CallDenied, ServerRejected, ToolbusError
from toolbus.core.values.records import JSON, JSONObject
from toolbus.core.values.uri_templates import within
from toolbus.gateway.calls.queue import CallQueue, Slot
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.protocol.request import ClientExchange, ClientRequest
from toolbus.gateway.protocol.sessions import ClientSession
from toolbus.gateway.protocol.view_listing import ResourceOrigin, ViewListing
from toolbus.gateway.protocol.words import (
    INVALID_PARAMS,
    SUBSCRIPTION_ID,
    ProtocolError,
    is_not_found,
    list_in,
    over_quota,
    resource_not_found,
)
from toolbus.gateway.settings import GatewayLimits

logger = logging.getLogger("toolbus")
MAX_URIS = 1_000
"""Resources to which one session or one stream subscribes."""
MAX_URI = 2_048
"""Characters of the URI of one."""
SUBSCRIBE_WITHIN = 5.0
"""Seconds for servers to take the subscriptions of a stream, before it begins."""
_KINDS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}


@dataclass(slots=True, eq=False)
class Listener:
    """A session, or a stream of a modern client."""

    principal: Principal
    offering: ViewListing
    view: View
    to: ClientSession | ClientExchange
    """Its session, or the request that listens."""
    kinds: frozenset[str]
    """The lists whose changes it wants."""
    subscribed: dict[str, ResourceOrigin] = field(default_factory=dict[str, ResourceOrigin])
    """The resources that it subscribes to, by the URIs that it knows."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    has_left: bool = False

    def send(self, method: str, params: JSONObject, about: str = "") -> None:
        if isinstance(self.to, ClientSession):
            self.to.notify(method, params or None, about)
        else:
            stamped = {**params, "_meta": {SUBSCRIPTION_ID: self.to.id}}
            self.to.channel.send({"jsonrpc": "2.0", "method": method, "params": stamped})


class Notifications:
    """Everyone who listens."""

    def __init__(self, queue: CallQueue, settings: GatewayLimits) -> None:
        """Subscriptions wait in `queue` for their turn, like calls."""
        self._queue = queue
        self._slots = Quota(settings.max_streams)
        self._resources = Quota(settings.max_subscriptions)
        self._sessions: dict[str, Listener] = {}
        self._streams: set[Listener] = set()
        self._subscribers: defaultdict[tuple[ViewListing, str], dict[str, dict[Listener, str]]] = defaultdict(
            dict
        )
        """By offering and server: who subscribes to each URI of the server, and the URI that each knows."""
        self._leaving: dict[str, deque[tuple[View, ResourceOrigin]]] = {}
        """Subscriptions that end, by their owner; one owner's subscriptions end one after the other."""
        self._changed: dict[ViewListing, set[str]] = {}
        """The lists that changed, until that is reported."""
        self._is_due = False
        self._hold = settings.list_within
        self._held: WeakSet[ViewListing] = WeakSet()
        """Those whose changes wait, or waited, for servers that start."""
        self._background: set[asyncio.Task[None]] = set()

    # What happens

    def take(self, offering: ViewListing, event: Event) -> None:
        """Take an event of a view: those who listen to it are notified."""
        match event:
            case CatalogChanged():
                self._note_change(offering, "tools")
            case ListChanged():
                self._note_change(offering, event.kind)
            case ResourceUpdated():
                self._report_update(offering, event)
            case StateChanged() if offering in self._changed:
                self._report_soon()  # it may be the last that started
            case _:
                pass

    def _note_change(self, offering: ViewListing, kind: str) -> None:
        self._changed.setdefault(offering, set()).add(kind)
        self._report_soon()

    def _report_soon(self) -> None:
        # One change of a server may be several events: they are reported together.
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._report_changes)

    def _report_changes(self) -> None:
        for offering in tuple(self._changed):
            _ = offering.now.catalog  # a large catalog may not be up to date yet
        self._is_due = False
        due = {one: self._changed.pop(one) for one in tuple(self._changed) if not self._is_held(one)}
        for offering, kinds in due.items():
            kinds &= offering.changed_lists()
        for listener in self._all:
            for kind in sorted(due.get(listener.offering, set()) & listener.kinds):
                listener.send(f"notifications/{kind}/list_changed", {})

    def _is_held(self, offering: ViewListing) -> bool:
        """Whether the changes of a view wait, for a bounded time, until all of its servers have started."""
        left = offering.began + self._hold - time.monotonic()
        if left < 0 or not offering.is_starting:
            return False
        if offering not in self._held:
            self._held.add(offering)
            asyncio.get_running_loop().call_later(left, self._report_soon)
        return True

    def _report_update(self, offering: ViewListing, event: ResourceUpdated) -> None:
        known = self._subscribers.get((offering, event.server))
        if not known:
            return
        # Who subscribes to the resource itself knows its URI; the innermost is the last one.
        found = {one: (uri, public) for uri in within(event.uri, known) for one, public in known[uri].items()}
        for listener, (own, public) in found.items():
            uri = public if event.uri == own else self._public(offering, event)
            listener.send("notifications/resources/updated", {"uri": uri}, uri)

    @staticmethod
    def _public(offering: ViewListing, event: ResourceUpdated) -> str:
        return offering.now.uris.public_link(event.server, event.uri)

    @property
    def _all(self) -> list[Listener]:
        return [*self._sessions.values(), *self._streams]

    # Legacy sessions

    def open(self, session: ClientSession, offering: ViewListing, view: View) -> None:
        """Report to a session until it ends."""
        kinds = frozenset(_KINDS.values())
        listener = Listener(session.principal, offering, view, session, kinds)
        self._sessions[session.id] = listener
        session.on_close(lambda: self._close_session(session))

    def _close_session(self, session: ClientSession) -> None:
        listener = self._sessions.pop(session.id, None)
        if listener is not None:
            self._leave(listener)

    def restore(self, session: ClientSession, uris: Iterable[str]) -> None:
        """Report to a session that another replica had: all that may have changed meanwhile."""
        for kind in sorted(_KINDS.values()):
            session.notify(f"notifications/{kind}/list_changed")
        session.subscriptions.update(uris)
        self._run(self._resubscribe(session))

    async def _resubscribe(self, session: ClientSession) -> None:
        listener, uris = self._sessions[session.id], sorted(session.subscriptions)[:MAX_URIS]
        with suppress(ProtocolError):
            await self._subscribe_all(listener, uris)
        session.subscriptions.intersection_update(listener.subscribed)
        for uri in listener.subscribed:
            session.notify("notifications/resources/updated", {"uri": uri}, uri)

    async def subscribe(self, request: ClientRequest) -> JSONObject:
        session, uri = request.session, request.text("uri")
        listener = self._sessions[session.id]
        if uri not in listener.subscribed:
            _check([*listener.subscribed, uri])
            self._reserve(listener, 1)
            await self._subscribe_to(listener, uri, listener.offering.now.uris.located(uri))
            session.subscriptions.add(uri)
        return {}

    async def unsubscribe(self, request: ClientRequest) -> JSONObject:
        session, uri = request.session, request.text("uri")
        listener = self._sessions[session.id]
        session.subscriptions.discard(uri)
        if uri in listener.subscribed:
            one = self._forget(listener, uri)
            try:
                await self._unsubscribe_from(listener.principal, listener.view, one)
            finally:
                self._resources.release(listener.principal.owner)
        return {}

    # Subscriptions

    def _reserve(self, listener: Listener, number: int) -> None:
        if not self._resources.take(listener.principal.owner, number):
            raise over_quota("max_subscriptions", "you subscribe to too many resources")

    async def _subscribe_to(self, listener: Listener, uri: str, places: Sequence[ResourceOrigin]) -> None:
        """Subscribe to a resource for which there is room, at the server that has it."""
        try:
            one = await self._subscribed(listener, uri, places)
        except BaseException:
            self._resources.release(listener.principal.owner)
            raise
        if uri in listener.subscribed or listener.has_left:  # meanwhile
            self._end_later(listener, [one])
            return
        listener.subscribed[uri] = one
        self._subscribers[listener.offering, one.server].setdefault(one.uri, {})[listener] = uri

    async def _subscribed(
        self, listener: Listener, uri: str, places: Sequence[ResourceOrigin]
    ) -> ResourceOrigin:
        """Subscribe to a resource; `ProtocolError` if no server takes it."""
        error: ToolbusError | None = None
        for one in places:
            try:
                with await self._turn(listener.principal, listener.view, one.server):
                    await listener.view.subscribe(one.server, one.uri)
                return one
            except ServerRejected as rejected:
                if not is_not_found(rejected):
                    error = rejected
            except CallDenied as refused:
                spec = request_spec("resources/subscribe", one.server, one.uri)
                if not calls_of(listener.view).is_hidden(spec, {"uri": one.uri}):
                    error = refused
        if error is not None:
            raise error
        raise resource_not_found(uri, modern=False)

    async def _turn(self, principal: Principal, view: View, server: str) -> Slot:
        most = calls_of(view).most_at_once(server)
        return self._queue.take(principal.id, server, most) or await self._queue.wait(principal.id, server)

    async def _unsubscribe_from(self, principal: Principal, view: View, one: ResourceOrigin) -> None:
        with await self._turn(principal, view, one.server):
            await view.unsubscribe(one.server, one.uri)

    def _forget(self, listener: Listener, uri: str) -> ResourceOrigin:
        one = listener.subscribed.pop(uri)
        known = self._subscribers[listener.offering, one.server]
        del known[one.uri][listener]
        if not known[one.uri]:
            del known[one.uri]
        if not known:
            del self._subscribers[listener.offering, one.server]
        return one

    # Streams of modern clients

    async def listen(self, request: ClientRequest) -> JSONObject:
        """Report to a modern client until it cancels the request, or the gateway closes."""
        wanted = request.object("notifications")
        kinds = frozenset(kind for key, kind in _KINDS.items() if wanted.get(key) is True)
        uris, exchange, client = _uris(wanted), request.exchange, request.client
        owner = exchange.principal.owner
        if not self._slots.take(owner):
            raise over_quota("max_streams", "you have too many streams")
        listener = Listener(exchange.principal, client.offering, client.view, exchange, kinds)
        try:
            await self._subscribe_all(listener, uris)
            self._streams.add(listener)
            honored: dict[str, JSON] = {key: True for key, kind in _KINDS.items() if kind in kinds}
            if listener.subscribed:
                honored["resourceSubscriptions"] = list(listener.subscribed)
            listener.send("notifications/subscriptions/acknowledged", {"notifications": honored})
            await listener.ended.wait()
        finally:
            self._slots.release(owner)
            self._streams.discard(listener)
            self._leave(listener)
        return {"_meta": {SUBSCRIPTION_ID: exchange.id}}

    async def _subscribe_all(self, listener: Listener, uris: list[str]) -> None:
        """Subscribe to all that servers take, as far as they do it soon; one by one at each server."""
        self._reserve(listener, len(uris))
        left, by_server = set(uris), defaultdict[str, list[tuple[str, list[ResourceOrigin]]]](list)

        async def subscribe(those: list[tuple[str, list[ResourceOrigin]]]) -> None:
            for uri, places in those:
                left.remove(uri)
                try:
                    await self._subscribe_to(listener, uri, places)
                except (ToolbusError, ProtocolError) as error:
                    logger.debug("no subscription to %r: %s", uri, error)
                await asyncio.sleep(0)

        try:
            async with asyncio.timeout(SUBSCRIBE_WITHIN):
                for uri in uris:
                    places = listener.offering.now.uris.located(uri)
                    by_server[places[0].server if places else ""].append((uri, places))
                    await asyncio.sleep(0)  # to find a place may take long
                async with asyncio.TaskGroup() as group:
                    for those in by_server.values():
                        group.create_task(subscribe(those))
        except TimeoutError:
            logger.debug("a stream does not have all subscriptions: servers took too long")
        finally:
            self._resources.release(listener.principal.owner, len(left))

    # The end

    def _leave(self, listener: Listener) -> None:
        """End the subscriptions of a listener, whose client has left."""
        listener.has_left = True
        self._end_later(listener, [self._forget(listener, uri) for uri in tuple(listener.subscribed)])

    def _end_later(self, listener: Listener, places: list[ResourceOrigin]) -> None:
        owner = listener.principal.owner
        left = self._leaving.get(owner)
        if left is None and places:
            left = self._leaving[owner] = deque()
            self._run(self._end_in_turn(listener.principal, left))
        if left is not None:
            left.extend((listener.view, one) for one in places)

    async def _end_in_turn(self, principal: Principal, left: deque[tuple[View, ResourceOrigin]]) -> None:
        while left:
            view, one = left.popleft()
            try:
                await self._unsubscribe_from(principal, view, one)
            except (ToolbusError, ProtocolError) as error:  # the server has left, too
                logger.debug("%s", error)
            finally:
                self._resources.release(principal.owner)
        del self._leaving[principal.owner]

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="toolbus subscriptions")
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        for listener in tuple(self._streams):
            listener.ended.set()
        await asyncio.sleep(0)
        if self._background:
            await asyncio.wait(tuple(self._background), timeout=1)
            for task in tuple(self._background):
                task.cancel()


def _uris(wanted: JSONObject) -> list[str]:
    listed = list_in(wanted, "resourceSubscriptions")
    if not all(isinstance(uri, str) for uri in listed):
        raise ProtocolError(INVALID_PARAMS, "resourceSubscriptions must be a list of URIs")
    uris: list[str] = list(dict.fromkeys(listed))
    _check(uris)
    return uris


def _check(uris: list[str]) -> None:
    if len(uris) > MAX_URIS:
        raise ProtocolError(INVALID_PARAMS, f"you may subscribe to at most {MAX_URIS:,} resources at once")
    if any(len(uri) > MAX_URI for uri in uris):
        raise ProtocolError(INVALID_PARAMS, f"a URI may have at most {MAX_URI:,} characters")
