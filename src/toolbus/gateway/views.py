"""The views of clients: what each principal sees of the bus, and under which name its calls are made."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from toolbus.bus import Toolbus
from toolbus.bus.view import View
from toolbus.core.events import Event
from toolbus.core.operation import Caller
from toolbus.gateway.exchange import Exchange
from toolbus.gateway.offering import Offering
from toolbus.gateway.principal import Principal
from toolbus.gateway.sessions import Session

ViewOf: TypeAlias = Callable[[Principal], View]
"""The view that a principal gets; the same object for principals who get the same."""
FACE = "gateway"
MAX_PRINCIPALS = 1000
"""Principals that are remembered; the least recently used are forgotten first."""


@dataclass(slots=True, eq=False)
class ClientView:
    """The bus for one client."""

    view: View
    """Its calls are made here, with the client as caller."""
    offering: Offering


class ClientViews:
    """The views of all clients."""

    def __init__(
        self, bus: Toolbus, view_of: ViewOf | None, changed: Callable[[Offering, Event], None]
    ) -> None:
        """`changed` is called with the events of each view."""
        self._bus = bus
        self._view_of = view_of or self._whole
        self._changed = changed
        self._offerings: dict[View, Offering] = {}
        self._users: dict[str, View] = {}
        self._by_principal: OrderedDict[Principal, ClientView] = OrderedDict()
        self._by_session: dict[str, ClientView] = {}

    def of(self, exchange: Exchange) -> ClientView:
        """The view of the client that made a request."""
        session = exchange.session
        known = None if session is None else self._by_session.get(session.id)
        return known or self.of_principal(exchange.principal)

    def of_principal(self, principal: Principal) -> ClientView:
        """The view of a principal."""
        known = self._by_principal.get(principal)
        if known is None:
            known = self._by_principal[principal] = self._made(principal, principal.name)
            if len(self._by_principal) > MAX_PRINCIPALS:
                self._forget_oldest()
        return known

    def open(self, session: Session) -> ClientView:
        """The view of a new session, until that ends."""
        made = self._by_session[session.id] = self._made(session.principal, session.id)
        session.on_close(lambda: self._forget_session(session))
        return made

    def close(self) -> None:
        """Follow no view any longer."""
        for offering in self._offerings.values():
            offering.close()
        self._offerings.clear()
        self._by_principal.clear()
        self._by_session.clear()

    def _made(self, principal: Principal, name: str) -> ClientView:
        base = self._view_of(principal)
        offering = self._offerings.get(base)
        if offering is None:
            offering = self._offerings[base] = Offering(base, self._bus, self._changed)
        caller = Caller(face=FACE, user=principal.user, session=name)
        return ClientView(base.view(caller=caller), offering)

    def _whole(self, principal: Principal) -> View:
        """All of the bus, as its user sees it."""
        if not principal.user:
            return self._bus
        if principal.user not in self._users:
            self._users[principal.user] = self._bus.as_user(principal.user)
        return self._users[principal.user]

    def _forget_oldest(self) -> None:
        principal, _ = self._by_principal.popitem(last=False)
        self._users.pop(principal.user, None)
        self._drop_unused()

    def _forget_session(self, session: Session) -> None:
        self._by_session.pop(session.id, None)

    def _drop_unused(self) -> None:
        known = (*self._by_principal.values(), *self._by_session.values())
        used = {id(one.offering) for one in known}
        for base, offering in tuple(self._offerings.items()):
            if id(offering) not in used:
                offering.close()
                del self._offerings[base]
