"""The bus: every server of a config, one catalog, one way to call.

A bus can be opened, used and closed from any task, thread or loop, in any order. It runs on the loop that
started it; calls from other loops and threads are passed to that loop.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload

from toolbus.bus.engine.engine import BusExtensions
from toolbus.bus.engine.stores import sign_in
from toolbus.bus.engine.tenants import BusTenant
from toolbus.bus.rules.scope import Scope
from toolbus.bus.view import SessionView, View
from toolbus.call import Hook
from toolbus.config import BusConfig, GetSecret, bus_config, load_server
from toolbus.config.load import with_profile
from toolbus.config.settings.expose import check_mode
from toolbus.config.settings.serve import Profile
from toolbus.core.ask.interactions import NO_HANDLERS, Interactions, LoginHandler
from toolbus.core.operation.events import Emit
from toolbus.core.operation.operation import Caller, Guard, Observer
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import Inventory
from toolbus.lock.file import Lockfile
from toolbus.policy.dead import DeadRule
from toolbus.policy.layers import Layer
from toolbus.policy.rules import Policy
from toolbus.search.encoders.encoder import EncodingFunction
from toolbus.shape import Shaper

ConfigSource = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]] | BusConfig


class Toolbus(View):
    """Connects to every server of a config and combines their tools in one catalog."""

    def __init__(
        self,
        config: ConfigSource | None = None,
        *,
        hooks: Sequence[Hook] = (),
        shapers: Sequence[Shaper] = (),
        guards: Sequence[Guard] = (),
        observers: Sequence[Observer] = (),
        get_secret: GetSecret | None = None,
        on_event: Emit | None = None,
        interactions: Interactions = NO_HANDLERS,
        encoder: EncodingFunction | None = None,
        profile: str | None = None,
    ) -> None:
        """Read the config, by default the one that is found and trusted; starts nothing yet.

        With a `profile` of the config, the bus has the servers and tools of that only. `encoder` makes a
        vector for each text of a list, to find tools by meaning; it may be async.
        """
        extensions = BusExtensions(
            hooks=hooks,
            shapers=shapers,
            guards=guards,
            observers=observers,
            get_secret=get_secret,
            interactions=interactions,
            encoder=encoder,
        )
        read = bus_config(config, profile)
        check_mode(read.expose)
        self._bus = BusTenant(read, extensions)
        super().__init__(self._bus, self._scope_of(read))
        if on_event is not None:
            self.on_event(on_event)

    def __repr__(self) -> str:
        servers = counted(len(self.config.servers), "server")
        if not self.running:
            return f"<Toolbus {servers}, {'closed' if self._bus.engine.closed else 'not started'}>"
        states = Counter(status.state for status in self.servers.values())
        counts = ", ".join(f"{number} {state}" for state, number in states.items())
        return f"<Toolbus {servers}{counts and f': {counts}'}; {counted(len(self.catalog), 'tool')}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @overload
    def as_user(self, user: str) -> View: ...

    @overload
    def as_user(
        self, user: str, *, session: str, interactions: Interactions | None = None
    ) -> SessionView: ...

    def as_user(
        self, user: str, *, session: str | None = None, interactions: Interactions | None = None
    ) -> View:
        """The bus for one of several users: the same API, with the secrets and logins of this user.

        Connects to nothing until it is used; a server for which nothing differs is shared with the bus.
        What one user lists, calls, keeps and subscribes to is invisible to the others.

        With a `session`, it also has its own connections to servers with `per_session`, made when they are
        first needed, and its own `interactions` for their requests; end it with `end_session()`. A session
        may be without a user (empty).
        """
        _check_name(user, "user", may_be_empty=session is not None)
        if session is None:
            if interactions is not None:
                raise TypeError("interactions are for a session; pass those of all users to Toolbus(...)")
            return View(self._bus.user_of(user), replace(self._scope, caller=Caller(user=user)))
        _check_name(session, "session")
        tenant = self._bus.open_session(user, session, interactions)
        caller = Caller(user=user, session=session)
        return SessionView(tenant, replace(self._scope, caller=caller))

    def _scope_of(self, config: BusConfig) -> Scope:
        """The scope of the bus: its profile, and the policy of the user's own config."""
        profile = Profile() if config.profile is None else config.profiles[config.profile]
        of_view = self._bus.engine.enforcement.of_view
        scope = Scope()
        if config.user is not None and config.user.policy and config.user.policy != config.policy:
            layer = of_view(Layer(config.user.policy, "user."))
            scope = scope.narrowed(None, None, None, layer)
        layer = of_view(Layer(profile.policy, "profile.")) if profile.policy else None
        scope = scope.narrowed(None, profile.include or None, None, layer, profile.exclude)
        return scope.exposed(profile.expose, profile.always)

    @property
    def max_sessions(self) -> int:
        """How many sessions may have their own connections at a time; `TooManySessions` for the next one."""
        return self._bus.session_limit.most

    @max_sessions.setter
    def max_sessions(self, most: int) -> None:
        self._bus.session_limit.most = most

    @property
    def lock(self) -> Lockfile | None:
        """The lockfile next to the config, which the tools are compared with; None without one."""
        return self._bus.approvals.file

    async def reload_lock(self) -> None:
        """Read the lockfile again, after something was approved; the config stays."""
        engine = self._bus.engine
        await engine.run(engine.apply(lambda servers: servers))

    @property
    def unreviewed(self) -> dict[str, Inventory]:
        """What each server offers, held or not; before it is listed, what was approved."""
        return self._live.snapshot.unreviewed

    def is_locked(self, alias: str) -> bool:
        """Whether the tools of a server are known from the lockfile, or held because it is not in there."""
        return self._bus.approvals.covers(self._check(alias))

    def assume(self, inventories: Mapping[str, Inventory]) -> None:
        """Offer what servers offered in an earlier process, until each is connected or fails; before a start.

        For servers that are not lazy, not locked, and that this config and the administrator let start.
        """
        servers = self._bus.engine.usable_config.servers
        usable = {alias for alias, server in servers.items() if server.mistake is None and not server.lazy}
        self._servers.assume({alias: inventories[alias] for alias in usable & inventories.keys()})
        self._bus.outdate()

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Let an observer follow every operation from now on, of all users and sessions.

        Returns a function that ends it.
        """
        return self._bus.engine.enforcement.observe(observer)

    @property
    def policy(self) -> Policy:
        """The policy of the bus; without rules if its config has none."""
        return self._bus.engine.enforcement.now.layer.policy

    def dead_rules(self) -> list[DeadRule]:
        """The rules of the policy that match nothing of the servers, as far as these are listed."""
        return list(self._bus.dead_rules(self._bus.engine.enforcement.now.layer))

    async def start(self) -> None:
        """Connect to all servers; one that fails does not affect the others, unless it is `required`.

        Returns when every server is ready or has failed; those that are ready can be used before that.
        Does not wait for an inactive server once others can be used; its tools join the catalog later.
        With a lockfile the catalog is known, so it waits only for `required` servers; see `wait_ready`.
        """
        await self._bus.engine.start()

    async def stop(self) -> None:
        """Disconnect from all servers; calls in flight fail. Any number of times, from anywhere."""
        await self._bus.engine.stop()

    async def add_server(self, alias: str, config: Any) -> None:
        """Connect to one more server; its tools join the catalog. Fails as `start` does."""
        added = load_server(config, alias=alias, bus=self.config)
        if alias in self.config.servers:
            raise ConfigError("a server with that alias already exists", server=alias)
        engine = self._bus.engine
        await engine.run(engine.apply(lambda servers: {**servers, alias: added}))

    async def remove_server(self, alias: str) -> None:
        """Disconnect from a server; its tools leave the catalog."""
        self._check(alias)
        engine = self._bus.engine
        await engine.run(engine.apply(lambda old: {a: s for a, s in old.items() if a != alias}))

    async def restart(self, alias: str) -> None:
        """End the connection to a server, and its process, and connect again; `ServerDown` if that fails.

        Calls in flight fail, unless repeating them is safe; later ones wait for the new connection.
        """
        self._access.check_running()
        await self._access.run(self._servers.restart(self._check(alias)))

    async def sign_in(self, alias: str, handler: LoginHandler, *, scopes: Sequence[str] = ()) -> None:
        """Let a person sign in to a server with `auth: oauth`, and connect to it; `SignInFailed` if not.

        The handler shows the person where to sign in. The login is stored as `toolbus login` stores it.
        """
        self._access.check_running()
        await self._access.run(self._sign_in(self._check(alias), handler, scopes))

    async def _sign_in(self, alias: str, handler: LoginHandler, scopes: Sequence[str]) -> None:
        engine = self._bus.engine
        server, identity = engine.config.servers[alias], engine.identity(engine.config)
        await sign_in(server, identity, handler, scopes=scopes)
        self._servers[alias].begin()

    def stderr(self, alias: str) -> tuple[str, ...]:
        """The last lines that a server's processes wrote to stderr, without secrets; not those of users."""
        link = self._servers.links.get(self._check(alias))
        return () if link is None else link.stderr

    async def reload(self, config: ConfigSource) -> None:
        """Use another config: connect to new servers, disconnect from removed ones, leave the rest alone.

        If a required server cannot be connected, or no entry is valid, it raises and nothing changes.
        """
        new = bus_config(config)
        new = with_profile(new, self.config.profile) if new.profile is None else new
        engine = self._bus.engine
        await engine.run(engine.apply(lambda _: new.servers, new))
        if (scope := self._scope_of(new)) != self._scope:
            super().__init__(self._bus, scope)


def _check_name(name: object, what: str, *, may_be_empty: bool = False) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a {what} must be a string, not {type(name).__name__}")
    if not name.strip() and not (may_be_empty and not name):
        hint = "; without a user, use the bus itself" if what == "user" else ""
        raise ValueError(f"the name of a {what} must not be empty{hint}")
