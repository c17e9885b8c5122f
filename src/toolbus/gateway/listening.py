"""What clients learn unasked: changed lists, and updates of the resources that they subscribe to.

A legacy client gets it on the stream of its session, a modern one on the streams that it asked for
(`subscriptions/listen`), with only what it asked for.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from toolbus.bus.view import View
from toolbus.core.errors import CallRefused, CallRejected, ToolbusError
from toolbus.core.events import CatalogChanged, Event, ListChanged, ResourceUpdated
from toolbus.core.operation import request_spec
from toolbus.core.records import JSON, JSONObject
from toolbus.gateway.exchange import Exchange
from toolbus.gateway.naming import Located
from toolbus.gateway.offering import Offering
from toolbus.gateway.protocol import INTERNAL_ERROR, INVALID_PARAMS, SUBSCRIPTION_ID, list_in
from toolbus.gateway.protocol_error import ProtocolError
from toolbus.gateway.request import Request
from toolbus.gateway.results import is_not_found, resource_not_found
from toolbus.gateway.sessions import Session

logger = logging.getLogger("toolbus")
MAX_STREAMS = 10_000
SUBSCRIBE_WITHIN = 5.0
"""Seconds for servers to take the subscriptions of a stream, before it begins."""
_KINDS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}


@dataclass(slots=True, eq=False)
class Listener:
    """A session, or a stream of a modern client."""

    offering: Offering
    view: View
    send: "_Send"
    kinds: frozenset[str]
    """The lists whose changes it wants."""
    subscribed: dict[str, Located] = field(default_factory=dict[str, Located])
    """The resources that it subscribes to, by the URIs that it knows."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class _Send:
    """How notifications go to a listener."""

    def __init__(self, to: Session | Exchange) -> None:
        self._to = to

    def __call__(self, method: str, params: JSONObject, about: str = "") -> None:
        if isinstance(self._to, Session):
            self._to.notify(method, params or None, about)
        else:
            stamped = {**params, "_meta": {SUBSCRIPTION_ID: self._to.id}}
            self._to.channel.send({"jsonrpc": "2.0", "method": method, "params": stamped})


class Listening:
    """Everyone who listens."""

    def __init__(self) -> None:
        self._sessions: dict[str, Listener] = {}
        self._streams: set[Listener] = set()
        self._changed: dict[Offering, set[str]] = {}
        """The lists that changed, until that is reported."""
        self._background: set[asyncio.Task[None]] = set()

    # What happens

    def take(self, offering: Offering, event: Event) -> None:
        """Take an event of a view: those who listen to it are notified."""
        match event:
            case CatalogChanged():
                self._note_change(offering, "tools")
            case ListChanged():
                self._note_change(offering, event.kind)
            case ResourceUpdated():
                self._report_update(offering, event)
            case _:
                pass

    def _note_change(self, offering: Offering, kind: str) -> None:
        # One change of a server may be several events: they are reported together.
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._report_changes)
        self._changed.setdefault(offering, set()).add(kind)

    def _report_changes(self) -> None:
        changed, self._changed = self._changed, {}
        for listener in self._all:
            for kind in sorted(changed.get(listener.offering, set()) & listener.kinds):
                listener.send(f"notifications/{kind}/list_changed", {})

    def _report_update(self, offering: Offering, event: ResourceUpdated) -> None:
        for listener in self._all:
            if listener.offering is offering:
                for public, one in listener.subscribed.items():
                    if one.server == event.server and _is_within(event.uri, one.uri):
                        uri = public if event.uri == one.uri else self._public(offering, event)
                        listener.send("notifications/resources/updated", {"uri": uri}, uri)
                        break

    @staticmethod
    def _public(offering: Offering, event: ResourceUpdated) -> str:
        return offering.now.uris.public_link(event.server, event.uri)

    @property
    def _all(self) -> list[Listener]:
        return [*self._sessions.values(), *self._streams]

    # Legacy sessions

    def open(self, session: Session, offering: Offering, view: View) -> None:
        """Report to a session until it ends."""
        listener = Listener(offering, view, _Send(session), frozenset(_KINDS.values()))
        self._sessions[session.id] = listener
        session.on_close(lambda: self._close_session(session))

    def _close_session(self, session: Session) -> None:
        listener = self._sessions.pop(session.id, None)
        if listener is not None:
            self._leave(listener)

    def restore(self, session: Session, uris: Iterable[str]) -> None:
        """Report to a session that another replica had: all that may have changed meanwhile."""
        for kind in sorted(_KINDS.values()):
            session.notify(f"notifications/{kind}/list_changed")
        session.subscriptions.update(uris)
        self._run(self._resubscribe(session))

    async def _resubscribe(self, session: Session) -> None:
        listener, uris = self._sessions[session.id], sorted(session.subscriptions)
        await self._subscribe_all(listener, uris)
        for uri in uris:
            if uri in listener.subscribed:
                session.notify("notifications/resources/updated", {"uri": uri}, uri)
            else:
                session.subscriptions.discard(uri)

    async def subscribe(self, request: Request) -> JSONObject:
        """Subscribe a session to a resource."""
        session, uri = request.exchange.session, request.text("uri")
        assert session is not None, "only legacy clients subscribe by a request"
        listener = self._sessions[session.id]
        if uri not in session.subscriptions:
            listener.subscribed[uri] = await self._subscribed(listener, uri)
            session.subscriptions.add(uri)
        return {}

    async def unsubscribe(self, request: Request) -> JSONObject:
        """End a subscription of a session."""
        session, uri = request.exchange.session, request.text("uri")
        assert session is not None, "only legacy clients unsubscribe by a request"
        listener = self._sessions[session.id]
        session.subscriptions.discard(uri)
        if (one := listener.subscribed.pop(uri, None)) is not None:
            await listener.view.unsubscribe(one.server, one.uri)
        return {}

    async def _subscribed(self, listener: Listener, uri: str) -> Located:
        """Subscribe to a resource, at the server that has it; `ProtocolError` if none takes it."""
        error: ToolbusError | None = None
        for one in listener.offering.now.uris.located(uri):
            try:
                await listener.view.subscribe(one.server, one.uri)
                return one
            except CallRejected as rejected:
                if not is_not_found(rejected):
                    error = rejected
            except CallRefused as refused:
                spec = request_spec("resources/subscribe", one.server, one.uri)
                if not listener.view.calls.is_hidden(spec, {"uri": one.uri}):
                    error = refused
        if error is not None:
            raise error
        raise resource_not_found(uri, modern=False)

    # Streams of modern clients

    async def listen(self, request: Request) -> JSONObject:
        """Report to a modern client until it cancels the request, or the gateway closes."""
        if len(self._streams) >= MAX_STREAMS:
            raise ProtocolError(INTERNAL_ERROR, "too many streams are open")
        wanted = request.object("notifications")
        kinds = frozenset(kind for key, kind in _KINDS.items() if wanted.get(key) is True)
        exchange = request.exchange
        listener = Listener(request.client.offering, request.client.view, _Send(exchange), kinds)
        await self._subscribe_all(listener, _uris(wanted))
        self._streams.add(listener)
        try:
            honored: dict[str, JSON] = {key: True for key, kind in _KINDS.items() if kind in kinds}
            if listener.subscribed:
                honored["resourceSubscriptions"] = list(listener.subscribed)
            listener.send("notifications/subscriptions/acknowledged", {"notifications": honored})
            await listener.ended.wait()
        finally:
            self._streams.discard(listener)
            self._leave(listener)
        return {"_meta": {SUBSCRIPTION_ID: exchange.id}}

    async def _subscribe_all(self, listener: Listener, uris: list[str]) -> None:
        """Subscribe to all that servers take, as far as they do it soon."""
        async with asyncio.TaskGroup() as group:
            for uri in uris:
                group.create_task(self._try_subscribing(listener, uri))

    async def _try_subscribing(self, listener: Listener, uri: str) -> None:
        try:
            async with asyncio.timeout(SUBSCRIBE_WITHIN):
                listener.subscribed[uri] = await self._subscribed(listener, uri)
        except (ToolbusError, ProtocolError, TimeoutError) as error:
            logger.debug("no subscription to %r: %s", uri, error)

    # The end

    def _leave(self, listener: Listener) -> None:
        """End the subscriptions of a listener, whose client has left."""
        for one in listener.subscribed.values():
            self._run(_unsubscribed(listener.view, one))
        listener.subscribed.clear()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="toolbus subscriptions")
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        """End all streams in good order."""
        for listener in tuple(self._streams):
            listener.ended.set()
        await asyncio.sleep(0)
        if self._background:
            await asyncio.wait(tuple(self._background), timeout=1)
            for task in tuple(self._background):
                task.cancel()


async def _unsubscribed(view: View, one: Located) -> None:
    try:
        await view.unsubscribe(one.server, one.uri)
    except ToolbusError as error:  # the server has left, too
        logger.debug("%s", error)


def _uris(wanted: JSONObject) -> list[str]:
    listed = list_in(wanted, "resourceSubscriptions")
    if not all(isinstance(uri, str) for uri in listed):
        raise ProtocolError(INVALID_PARAMS, "resourceSubscriptions must be a list of URIs")
    return list(dict.fromkeys(listed))


def _is_within(uri: str, parent: str) -> bool:
    return f"{uri}/".startswith(f"{parent.removesuffix('/')}/")
