"""A server with its link, and with a second one for the legacy clients of a gateway if it speaks both eras.

Over a modern link, a server cannot ask a client in the middle of a call. So the operations of legacy clients
that can be asked take a legacy link to the same server. All clients that share the first link share the
second one. The first of them opens it, and the last one that leaves closes it. An operation takes the first
link if the server does not speak the legacy era, describes the target differently in it, or fails in it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from toolbus.bus.engine.session_limit import SessionLimit
from toolbus.call.routes import repeatable
from toolbus.config import ServerConfig
from toolbus.core.operation.events import Emit, Event, ListChanged, StateChanged, Warned
from toolbus.core.operation.operation import Operation
from toolbus.core.values.catalog import Memo, Same
from toolbus.core.values.errors import INTERNAL_ERROR, CallDenied, ServerRejected, TooManySessions
from toolbus.core.values.freshness import KINDS
from toolbus.core.values.records import Inventory, ToolResult
from toolbus.lock.definitions import Kind, changed_fields, definitions
from toolbus.shape.as_tools import prompt_name

if TYPE_CHECKING:
    from toolbus.connect.link import Link
    from toolbus.connect.requests import LinkRequests
    from toolbus.discover import Discovery

NOT_OFFERED = -32601
"""The code of the error for a method that the server does not have: nothing was done."""
REFUSED_FOR = 600.0
"""Seconds for which a server gets no second link after it did not open one."""
Definition: TypeAlias = tuple[Kind, str]
"""The kind and the name of a definition."""


@dataclass(frozen=True, slots=True)
class Server:
    """One server: its link, its inventory and its requests."""

    link: "Link"
    discovery: "Discovery"
    requests: "LinkRequests"
    second: "SecondLink | None" = None
    """The legacy link beside it, if clients of both eras may use the server."""

    @property
    def both(self) -> "tuple[Server, ...]":
        """With the server of its second link, as long as there is one."""
        second = None if self.second is None else self.second.server
        return (self,) if second is None else (self, second)

    async def restart(self) -> None:
        """Disconnect from it, and connect to it again."""
        waiting = () if self.second is None else (self.second.restart(),)
        await asyncio.gather(self.link.restart(), *waiting)

    async def close(self) -> None:
        """Disconnect from it."""
        waiting = () if self.second is None else (self.second.close(),)
        await asyncio.gather(self.link.close(), *waiting)


def legacy_config(config: ServerConfig) -> ServerConfig:
    """The config of the second link to a server."""
    return config.model_copy(update={"era": "legacy", "required": False, "warnings": ()})


class SecondLink:
    """The legacy link to a server whose first link is modern; there is none until a client needs it."""

    def __init__(
        self, first: Server, build: "Callable[[SecondLink], Server]", limit: SessionLimit, owner: Hashable
    ) -> None:
        """`owner` is the one whose share of the limit it takes."""
        self._first = first
        self._build = build
        self._limit = limit
        self._owner = owner
        self._clients: set[str] = set()
        """The sessions of the clients that use it."""
        self._refused: tuple[int, float] | None = None
        """The restarts of the first link, and the time, at which the server did not open a legacy one."""
        self._memo = Memo()
        self.server: Server | None = None
        self._subscribed: dict[tuple[str, str], Server] = {}
        """The server of each subscription that was made over it, by the session of the client and the URI."""
        self._failed: set[Definition | None] = set()
        """The tools and prompts whose code only knows the modern era."""
        first.requests.send_legacy = self.send

    @property
    def state(self) -> str | None:
        """Its state, for people; None if there is none."""
        link = None if self.server is None else self.server.link
        return None if link is None else f"{len(self._clients)}, over a link of their own ({link.state})"

    async def send(
        self, operation: Operation, send: "Callable[[LinkRequests], Awaitable[ToolResult]]"
    ) -> ToolResult:
        """Send an operation of a legacy client over the link that it takes.

        A step of a script takes the first link: the script is suspended while the client is asked.
        """
        first = self._first.requests
        server = None if operation.forwarding is None else await self.borrow(operation.caller.session)
        if server is None or self._differs(server, operation):
            return await send(first)
        try:
            return await send(server.requests)
        except ServerRejected as rejected:
            if rejected.code not in (INTERNAL_ERROR, NOT_OFFERED):
                raise
            if (target := _target(operation)) is not None:
                self._failed.add(target)
            was_done = rejected.code != NOT_OFFERED and operation.route == "tools/call"
            if was_done and not repeatable(operation.spec):
                raise
        return await send(first)

    @property
    def _is_refused(self) -> bool:
        """Whether the server did not open one, and has no reason to open one now."""
        if self._refused is None:
            return False
        restarts, at = self._refused
        return restarts == self._first.link.restarts and time.monotonic() < at + REFUSED_FOR

    async def borrow(self, client: str) -> Server | None:
        """Open it for a client, if it is not open; None if the client has to use the first link."""
        first = self._first.link
        if first.era is None:  # a lazy server: its era is known once it is connected
            await first.open()
        if first.era != "modern" or self._is_refused:
            return None
        if self.server is None:
            try:
                self._limit.count(self, first.config.alias, self._owner)
            except TooManySessions:
                return None
            self.server = self._build(self)
            self.server.requests.check = self.check
        server = self.server
        self._clients.add(client)
        await server.link.open()
        if server is not self.server or client not in self._clients:  # closed meanwhile
            return None
        if server.link.state == "ready":
            return server
        if server.link.era is None or server.link.state == "failed":
            self._refused = first.restarts, time.monotonic()
            await self.close()
        return None

    async def subscribing(self, operation: Operation) -> Server:
        """The server where a client subscribes to a resource."""
        client, uri = operation.caller.session, operation.spec.name
        server = await self.borrow(client) if operation.prefers_legacy else None
        if server is None or not server.discovery.subscriptions.are_offered(server.link.session):
            return self._first
        self._subscribed[client, uri] = server
        return server

    def subscribed(self, operation: Operation) -> Server | None:
        """The server where a client has subscribed to a resource; None if it ended with its link."""
        server = self._subscribed.pop((operation.caller.session, operation.spec.name), self._first)
        return server if server in (self._first, self.server) else None

    async def leave(self, client: str) -> None:
        """A client has left; the last one closes it."""
        self._clients.discard(client)
        if not self._clients:
            await self.close()

    async def restart(self) -> None:
        """Restart it with the first link."""
        self._refused = None
        if self.server is not None:
            await self.server.link.restart()

    async def close(self) -> None:
        """Disconnect; the next client that needs it opens it again."""
        server, self.server = self.server, None
        self._clients.clear()
        self._failed.clear()
        self._limit.release(self)
        if server is not None:
            await server.link.close()

    def check(self, operation: Operation) -> None:
        """`CallDenied` if the first link would refuse an operation, or its target is not the same on both."""
        if self.server is not None and self._differs(self.server, operation):
            problem = "its server describes it differently to legacy clients; call it again"
            raise CallDenied(f"{operation.route} {operation.spec.name!r}", problem)
        if self._first.requests.check is not None:
            self._first.requests.check(operation)

    def _differs(self, server: Server, operation: Operation) -> bool:
        """Whether lock and policy may have decided about another definition, or its code fails."""
        target = _target(operation)
        if target is None:
            return False
        both = Same(self._first.discovery.inventory), Same(server.discovery.inventory)
        return target in self._failed or target not in self._memo(_shared_definitions, self, both, 1)

    def following(self, emit: Emit) -> Emit:
        """Pass on the events of its link. A loss is a warning: the first one has the state of its server."""

        def follow(event: Event) -> None:
            if not isinstance(event, StateChanged):
                emit(event)
            elif event.previous == "ready" and event.error is not None:
                message = f"its connection for legacy clients was lost: {event.error}"
                emit(Warned(server=event.server, message=message))

        return follow

    def take(self, event: Event) -> None:
        """Take an event of its lists: the first link may have outdated ones."""
        if isinstance(event, ListChanged) and self.server is not None and self.server.link.state == "ready":
            self._first.discovery.refresh_soon(KINDS)


def _target(operation: Operation) -> Definition | None:
    """The definition that an operation is about; None if it is about none."""
    match operation.route:
        case "tools/call":
            return "tools", operation.spec.origin.tool
        case "prompts/get":
            return "prompts", prompt_name(operation.spec)
        case _:
            return None


def _shared_definitions(
    _: SecondLink, both: tuple[Same[Inventory], Same[Inventory]]
) -> frozenset[Definition]:
    """The tools and prompts that both links list with the same definition."""
    first, second = (definitions(one.value) for one in both)
    kinds: tuple[Kind, ...] = ("tools", "prompts")
    return frozenset(
        (kind, name)
        for kind in kinds
        for name, definition in second[kind].items()
        if name in first[kind] and not changed_fields(first[kind][name], definition)
    )
