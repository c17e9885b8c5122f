"""The views of the clients: from the config, for each user."""

from collections import OrderedDict

from toolbus.bus.inner import client_of
from toolbus.bus.rules.enforcement import Rules, shared_rules
from toolbus.bus.toolbus import Toolbus
from toolbus.bus.view import View
from toolbus.config.settings.policy import PolicyRule
from toolbus.config.settings.serve import DEFAULT_VIEW, Serve, ServeView
from toolbus.connect.auth.credentials import ClientIdentity
from toolbus.core.ask.interactions import Interactions
from toolbus.core.operation.operation import Caller
from toolbus.core.values.records import Budget
from toolbus.gateway.protocol.principal import Principal

FACE = "gateway"
_MOST = 10_000
"""The maximum number of cached views; the least recently used one is dropped."""


class Views:
    """The views of a bus, by principal. Anything outside the view of a client does not exist for it."""

    def __init__(self, bus: Toolbus, serve: Serve | None = None) -> None:
        self._bus = bus
        self._serve = serve or Serve()
        self._made: OrderedDict[tuple[str, str, str, ClientIdentity | None], View] = OrderedDict()
        """By view, server, user and forwarded identity."""
        self._rules: dict[str, Rules] = {}
        """The rules by view: opening another session does not give a client another quota."""

    def use(self, serve: Serve | None) -> None:
        """Use another config from now on; to be called after every change of the servers."""
        before, self._serve = self._serve, serve or Serve()
        self._made.clear()
        # Rules that stay go on counting: a change of the config is not another quota.
        known = self._rules.items()
        self._rules = {name: one for name, one in known if self._policy(name) == before.views[name].policy}

    def _policy(self, name: str) -> tuple[PolicyRule, ...]:
        view = self._serve.view(name)
        return () if view is None else view.policy

    def view_of(
        self, principal: Principal, session: str = "", interactions: Interactions | None = None
    ) -> View:
        """The view of a principal: one object for all with the same access, so their calls need `caller_of`.

        With a session, it is for calls of the principal that belong to it. With `interactions`, the session
        has connections of its own (`Toolbus.as_user`), until it is ended. LookupError if the config has no
        such view.
        """
        if interactions is not None:
            return self._make(principal, session, interactions)
        place = (principal.view, principal.server, principal.user, principal.passed)
        view = self._made.get(place)
        if view is None:
            view = self._made[place] = self._make(principal)
            if len(self._made) > _MOST:
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(place)
        return view.view(caller=caller_of(principal, session)) if session else view

    def budget_of(self, principal: Principal) -> Budget | None:
        """The maximum size of a result for a principal; None if results are forwarded unchanged."""
        return self._settings(principal)[1].budget

    def _settings(self, principal: Principal) -> tuple[str, ServeView]:
        name = principal.view
        if name == DEFAULT_VIEW and name not in self._serve.views:
            name = self._serve.default_view
        found = self._serve.view(name)
        if found is None:
            raise LookupError(f"the config has no view named {name!r}")
        return name, found

    def _make(
        self, principal: Principal, session: str = "", interactions: Interactions | None = None
    ) -> View:
        name, settings = self._settings(principal)
        if settings.policy and name not in self._rules:
            self._rules[name] = shared_rules(settings.policy)
        user = principal.user or settings.user
        if interactions is not None or principal.passed is not None:
            session_of_links = session if interactions is not None else None
            whole = client_of(self._bus)(user or "", principal.passed, session_of_links, interactions)
        else:
            whole = self._bus.as_user(user) if user else self._bus.view()
        return whole.view(
            servers=_servers(settings, principal, whole),
            include=settings.include or None,
            exclude=settings.exclude or None,
            policy=self._rules.get(name),
            expose=settings.expose,
            always=settings.always,
            caller=caller_of(principal, session) if session else Caller(face=FACE),
        )


def _servers(settings: ServeView, principal: Principal, whole: View) -> list[str] | None:
    """The servers of a view for a principal; None for all."""
    if principal.server:
        wanted = [principal.server] if settings.has_server(principal.server) else []
    elif settings.servers is None:
        return None
    else:
        wanted = list(settings.servers)
    known = whole.config.servers
    # A server that is disabled is in the config, but not on the bus.
    return [alias for alias in wanted if alias in known]


def caller_of(principal: Principal, session: str = "") -> Caller:
    """The caller for the audit trail, hooks and guards: the client, or an unnamed caller if it is local."""
    key = "" if principal.kind == "local" else principal.id
    return Caller(face=FACE, user=principal.caller, session=session, key=key, view=principal.view)
