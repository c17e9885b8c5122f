"""The views of clients: what each principal sees of the bus, and under which name its calls are made."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from toolbus.bus.inner import calls_of, renewal_of
from toolbus.bus.toolbus import Toolbus
from toolbus.bus.view import SessionView, View
from toolbus.core.ask.interactions import Interactions, McpClient, QuestionRouting
from toolbus.core.operation.events import Event
from toolbus.core.values.records import Budget
from toolbus.gateway.access.views import Views, caller_of
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.protocol.sessions import ClientSession, StandaloneClient
from toolbus.gateway.protocol.view_listing import ViewListing
from toolbus.gateway.protocol.words import can_be_asked

MAX_PRINCIPALS = 1000
"""Principals that are remembered; the least recently used are forgotten first."""
BudgetOf: TypeAlias = Callable[[Principal], Budget | None]
"""The maximum size of a result for a principal; None if results are forwarded unchanged."""


class ViewOf(Protocol):
    """The view that a principal gets: the same object each time, as long as it gets the same.

    With `interactions`, a view for one session with connections of its own.
    """

    def __call__(
        self, principal: Principal, session: str = "", interactions: Interactions | None = None
    ) -> View: ...


@dataclass(slots=True, eq=False)
class ClientView:
    """The bus for one client."""

    given: View
    """The view that its principal gets."""
    base: View
    """The same, or that with connections of its own."""
    view: View
    """Its calls are made here, with the client as caller."""
    offering: ViewListing
    budget: Budget | None = None
    """The most that the result of a tool may have; None for all of it."""


@dataclass(slots=True, eq=False)
class _FollowedView:
    """The lists of a view, and the number of its clients."""

    offering: ViewListing
    clients: int = 0


class ClientViews:
    """The views of all clients."""

    def __init__(
        self,
        bus: Toolbus,
        view_of: ViewOf | None,
        budget_of: BudgetOf | None,
        changed: Callable[[ViewListing, Event], None],
    ) -> None:
        """`changed` is called with the events of each view."""
        self._bus = bus
        self._view_of = view_of or Views(bus).view_of
        self._budget_of = budget_of
        self._changed = changed
        self._followed: dict[View, _FollowedView] = {}
        self._by_principal: OrderedDict[Principal, ClientView] = OrderedDict()
        self._by_session: dict[str, ClientView] = {}
        self._ending: set[asyncio.Task[None]] = set()
        """Sessions that close their connections."""

    def of(self, principal: Principal, session: ClientSession | None) -> ClientView:
        known = None if session is None else self._by_session.get(session.id)
        found = known or self.of_principal(principal)
        if principal.passed is not None:
            renewal_of(found.base)(principal.passed)
        return found

    def of_principal(self, principal: Principal) -> ClientView:
        """The view of a principal; another one if the config has changed meanwhile."""
        given = self._view_of(principal)
        place = principal.lasting  # else each new token would be one more, and others would be forgotten
        known = self._by_principal.get(place)
        if known is not None:
            self._by_principal.move_to_end(place)
        if known is None or known.given is not given:
            if known is not None:
                self._release(known)
            # A modern client has no session: all that one principal does is one.
            own = self._with_connections(principal, f"{principal.id} {secrets.token_hex(8)}", None)
            known = self._made(principal, given, own or given, principal.id)
            self._by_principal[place] = known
            if len(self._by_principal) > MAX_PRINCIPALS:
                self._release(self._by_principal.popitem(last=False)[1])
        return known

    def forget(self, principal: Principal) -> None:
        """Release the view of a principal that does not come back."""
        for known in [one for one in self._by_principal if one.bare.is_like(principal.bare)]:
            self._release(self._by_principal.pop(known))

    def open(self, session: ClientSession) -> ClientView:
        """The view of a new session, until that ends."""
        principal = session.principal
        given = self._view_of(principal)
        own = self._with_connections(principal, session.id, StandaloneClient(session))
        made = self._by_session[session.id] = self._made(principal, given, own or given, session.id)
        if can_be_asked(session.capabilities):
            calls_of(made.view).serve_legacy_client()
        session.on_close(lambda: self._close_session(session))
        return made

    def _with_connections(self, principal: Principal, name: str, client: McpClient | None) -> View | None:
        """The view of a principal with connections of its own, if there is a server that wants that."""
        if not any(server.per_session for server in self._bus.config.servers.values()):
            return None
        routing = QuestionRouting(forwards=True, client=client, owner=principal.holder)
        return self._view_of(principal, name, Interactions(_routing=routing))

    async def close(self) -> None:
        for client in (*self._by_principal.values(), *self._by_session.values()):
            self._release(client)
        self._by_principal.clear()
        self._by_session.clear()
        if self._ending:
            await asyncio.wait(tuple(self._ending))

    def _made(self, principal: Principal, given: View, base: View, name: str) -> ClientView:
        followed = self._followed.get(base)
        if followed is None:
            followed = self._followed[base] = _FollowedView(
                ViewListing(base, self._bus, self._changed, principal.server)
            )
        followed.clients += 1
        caller = caller_of(principal, name)
        budget = None if self._budget_of is None else self._budget_of(principal)
        return ClientView(given, base, base.view(caller=caller), followed.offering, budget)

    def _close_session(self, session: ClientSession) -> None:
        closed = self._by_session.pop(session.id, None)
        if closed is not None:
            self._release(closed)

    def _release(self, client: ClientView) -> None:
        """A client has left its view: if it was the last one, nobody follows it."""
        followed = self._followed.get(client.base)
        if followed is not None:
            followed.clients -= 1
            if followed.clients == 0:
                followed.offering.close()
                del self._followed[client.base]
        self._end(calls_of(client.view).leave())
        if isinstance(client.base, SessionView):
            self._end(client.base.close())

    def _end(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
