"""The bus: every server of a config, one catalog, one way to call.

A bus can be opened, used and closed from any task, thread or loop, in any order. It runs on the loop that
started it; calls from other loops and threads are passed to that loop.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

from toolbus.bus.engine.engine import BusExtensions
from toolbus.bus.engine.stores import sign_in
from toolbus.bus.engine.tenants import BusTenant
from toolbus.bus.rules.scope import Scope
from toolbus.bus.script_tools import ScriptRunner
from toolbus.bus.view import SessionView, View
from toolbus.call import Hook
from toolbus.config import BusConfig, GetSecret, bus_config, load_server
from toolbus.config.load import with_profile
from toolbus.config.settings.expose import check_mode
from toolbus.connect.auth.credentials import ClientIdentity, given_identity
from toolbus.core.ask.interactions import NO_HANDLERS, Interactions, LoginHandler
from toolbus.core.operation.events import Emit
from toolbus.core.operation.operation import Caller, Guard, Observer
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError
from toolbus.lock.file import Lockfile
from toolbus.policy.rules import Policy
from toolbus.search.encoders.encoder import EncodingFunction
from toolbus.shape import Shaper
from toolbus.tape.matching import Matching, TapeMode
from toolbus.tape.session import current_session

if TYPE_CHECKING:
    from toolbus.tape.use import BusTapes

ConfigSource = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]] | BusConfig


class Toolbus(View):
    """Connects to every server of a config and combines their tools in one catalog.

    ```python
    config = {"servers": {"notes": {"command": "python", "args": ["notes.py"]}}}
    async with Toolbus(config) as bus:
        print(*bus.catalog.names)  # notes_add notes_search
    ```
    """

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
        record: str | Path | Literal[False] | None = None,
        replay: str | Path | None = None,
        mode: TapeMode | None = None,
        matching: Matching | None = None,
    ) -> None:
        """Read the config, by default the one that is found and trusted; starts nothing yet.

        With a `profile` of the config, the bus has the servers and tools of that only. `encoder` makes a
        vector for each text of a list, to find tools by meaning; it may be async.

        `record` writes what servers receive, send and offer to a tape. `replay` repeats a tape: nothing is
        connected, and without a config, the tape says which servers there are. `mode` is for the tape that
        either of them names: `once`, `all`, `new_episodes` or `none`. `matching` says how calls are compared.
        `record=False` keeps the bus off the tape of the test that it is made in.
        """
        tapes = _tapes(record, replay, mode, matching)
        if tapes is None:
            read = bus_config(config, profile)
        else:
            read = tapes.prepare(
                None if config is None and not tapes.connects else bus_config(config, profile),
                lambda behind: Toolbus(
                    behind,
                    observers=tapes.live_observers,
                    get_secret=get_secret,
                    interactions=interactions,
                    record=False,
                ),
            )
            observers = [*observers, *tapes.observers]
        extensions = BusExtensions(
            hooks=hooks,
            shapers=shapers,
            guards=guards,
            observers=observers,
            get_secret=get_secret,
            interactions=interactions,
            encoder=encoder,
        )
        check_mode(read.expose)
        self._bus = BusTenant(read, extensions)
        self._bus.engine.run_script = ScriptRunner()
        self._tapes = tapes
        super().__init__(self._bus, Scope())
        if on_event is not None:
            self.on_event(on_event)

    @classmethod
    def from_servers(cls, options: Mapping[str, Any] | None = None, /, **servers: Any) -> Self:
        """A bus of these servers by alias: each a URL, a command as a list, a mapping or a server object.

        `options` are the options of `Toolbus(...)` and other keys of a config. Every keyword is an alias.
        """
        config, given = config_of(options or {}, servers)
        return cls(config, **given)

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
        await self.close()

    @overload
    def as_user(
        self, user: str, *, token: str | None = None, headers: Mapping[str, str] | None = None
    ) -> View: ...

    @overload
    def as_user(
        self,
        user: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        session: str,
        interactions: Interactions | None = None,
    ) -> SessionView: ...

    def as_user(
        self,
        user: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        session: str | None = None,
        interactions: Interactions | None = None,
    ) -> View:
        """The bus for one of several users: the same API, with the secrets and logins of this user.

        Connects to nothing until it is used. A server without settings that depend on the user is shared with
        the bus. Lists, calls, kept results and subscriptions of one user are invisible to the others.

        With a `session`, it also has its own connections to servers with `per_session`, opened at first use,
        and its own `interactions` for their requests. End it with `close()`. The user of a session may be
        empty.

        `token` is an access token of the user; it is exchanged for the tokens of servers with `auth: {type:
        token_exchange, ...}`. `headers` are sent to servers with `forward_headers`. Pass a newer token in the
        same way: it replaces the user's earlier token, and connections stay open. Raises ValueError if one of
        them cannot be sent.

        ```python
        ann = bus.as_user("ann")
        print((await ann.call("notes_add", {"text": "buy tea"})).text)  # kept as note 1
        ```
        """
        _check_name(user, "user", may_be_empty=session is not None)
        if session is not None:
            _check_name(session, "session")
        elif interactions is not None:
            raise TypeError("interactions are for a session; pass interactions for all users to Toolbus(...)")
        return self._client(user, given_identity(token, headers or {}), session, interactions)

    def _client(
        self,
        user: str,
        identity: ClientIdentity | None,
        session: str | None = None,
        interactions: Interactions | None = None,
    ) -> View:
        """The bus for a user, or nobody, with a forwarded identity, and perhaps for a session."""
        lender = self._bus.client_of(user, identity)
        if session is None:
            return View(lender, Scope(caller=Caller(user=user)))
        tenant = self._bus.open_session(lender, session, interactions)
        return SessionView(tenant, Scope(caller=Caller(user=user, session=session)))

    @property
    def max_sessions(self) -> int:
        """The maximum number of sessions with their own connections; others raise `TooManySessions`."""
        return self._bus.session_limit.most

    @max_sessions.setter
    def max_sessions(self, most: int) -> None:
        self._bus.session_limit.most = self._bus.engine.second_links.most = most

    @property
    def lock(self) -> Lockfile | None:
        """The lockfile next to the config, which the tools are compared with; None without one."""
        return self._bus.approvals.file

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Let an observer follow every operation from now on, of all users and sessions.

        Returns a function that ends it.
        """
        return self._bus.engine.enforcement.observe(observer)

    @property
    def policy(self) -> Policy:
        """The policy of the bus; without rules if its config has none."""
        return self._bus.engine.enforcement.now.layer.policy

    async def start(self) -> None:
        """Connect to all servers; one that fails does not affect the others, unless it is `required`.

        Returns when every server is ready or has failed; a ready server can be used before that. Does not
        wait for an inactive server once others can be used; its tools join the catalog later. With a lockfile
        the catalog is known, so it waits only for `required` servers; see `wait_ready`.
        """
        if self._tapes is not None:
            self._tapes.begin()
        await self._bus.engine.start()

    async def close(self) -> None:
        """Disconnect from all servers; calls in flight fail. Any number of times, from anywhere."""
        await self._bus.engine.stop()
        if self._tapes is not None:
            await self._tapes.close()

    stop = close
    """The same under its earlier name."""

    async def add_server(self, alias: str, config: Any) -> None:
        """Connect to one more server; its tools join the catalog. Fails as `start` does."""
        added = load_server(config, alias=alias, bus=self.config)
        if self._tapes is not None:
            added = self._tapes.replayed(BusConfig(servers={alias: added})).servers[alias]
        if alias in self.config.servers or alias in self.config.off:
            raise ConfigError("a server with that alias already exists", server=alias)
        await self._change(lambda old: old.model_copy(update={"servers": {**old.servers, alias: added}}))

    async def remove_server(self, alias: str) -> None:
        """Disconnect from a server, enabled or not; its tools leave the catalog."""
        await self._change(lambda old: old.without(alias))

    async def enable(self, alias: str) -> None:
        """Connect to a server that is disabled, by the config or by `disable`; its tools join the catalog.

        Fails as `add_server` does. `ServerNotFound` if the config has no such entry.
        """
        await self._change(lambda old: old.switch(alias, on=True))

    async def disable(self, alias: str) -> None:
        """Disconnect from a server, whose tools leave the catalog; `enable` brings it back.

        A `reload` keeps such switches; one ends when the new config agrees with it.
        """
        await self._change(lambda old: old.switch(alias, on=False))

    async def _change(self, change: Callable[[BusConfig], BusConfig]) -> None:
        engine = self._bus.engine
        await engine.run(engine.apply(change))

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
        """The last stderr lines of a server's processes, without secrets and users' own processes."""
        link = self._servers.links.get(self._check(alias))
        return () if link is None else link.stderr

    async def reload(self, config: ConfigSource) -> None:
        """Use another config: connect to new servers, disconnect from removed ones, leave the rest alone.

        Servers that the program has enabled or disabled stay so.
        If a required server cannot be connected, or no entry is valid, it raises and nothing changes.
        """
        new = bus_config(config)
        new = with_profile(new, self.config.profile) if new.profile is None else new
        new = new if self._tapes is None else self._tapes.replayed(new)
        await self._change(new.with_switches)


def config_of(
    options: Mapping[str, Any], servers: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A config of these servers, and the options for a bus among all options."""
    names = signature(Toolbus).parameters.keys() - {"config"}
    settings = {key: value for key, value in options.items() if key not in names}
    if "servers" in settings:
        raise TypeError("pass the servers as keywords: Toolbus.from_servers(options, notes=...)")
    entries = {alias: _entry_of(server) for alias, server in servers.items()}
    return {**settings, "servers": entries}, {key: options[key] for key in names & options.keys()}


def _entry_of(server: Any) -> Any:
    """The entry of a server in a config."""
    if not isinstance(server, list | tuple):
        return server
    command, *args = cast("Sequence[object]", server) or [""]  # an empty one is refused as such
    return {"command": command, "args": args}


def _check_name(name: object, what: str, *, may_be_empty: bool = False) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a {what} must be a string, not {type(name).__name__}")
    if not name.strip() and not (may_be_empty and not name):
        hint = "; without a user, use the bus itself" if what == "user" else ""
        raise ValueError(f"the name of a {what} must not be empty{hint}")


def _tapes(
    record: str | Path | Literal[False] | None,
    replay: str | Path | None,
    mode: TapeMode | None,
    matching: Matching | None,
) -> "BusTapes | None":
    """The tapes that are named, or else the tapes of the test."""
    if record or replay is not None:
        from toolbus.tape.use import tapes_of

        return tapes_of(record or None, replay, mode, matching)
    if mode is not None or matching is not None:
        raise TypeError("mode and matching are for a tape; name it with record or replay")
    session = None if record is False else current_session()
    return None if session is None else session.next_tapes()
