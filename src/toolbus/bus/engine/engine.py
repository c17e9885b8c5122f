"""The parts of a bus that its views use: servers, catalog, results, call path."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolbus.bus.catalog.encoding import BusEncoding
from toolbus.bus.catalog.exposure import SEARCH, SEARCH_FUNCTIONS
from toolbus.bus.catalog.live_catalog import LiveCatalog
from toolbus.bus.catalog.tool_search import ToolSearch
from toolbus.bus.engine.servers import Servers
from toolbus.bus.rules.definitions import Definitions
from toolbus.bus.rules.enforcement import Enforcement
from toolbus.bus.rules.lock import BusLock, LockApprovals
from toolbus.bus.rules.policy_filter import PolicyFilter
from toolbus.bus.rules.scope import Scope
from toolbus.bus.rules.targets import Targets, listed_target
from toolbus.call import CallPath, EventObserver, Hook, Results, ServerRoutes
from toolbus.config import BusConfig, GetSecret
from toolbus.config.settings.policy import PolicyRule
from toolbus.core.ask.interactions import Interactions
from toolbus.core.loop import OwnerLoop
from toolbus.core.operation.events import (
    Event,
    Hub,
    LoginNeeded,
    Reason,
    StateChanged,
)
from toolbus.core.operation.operation import Guard, Observer, Operation
from toolbus.core.text.text import cleaned
from toolbus.core.values.errors import CallRefused, LoginRequired, ToolNotFound
from toolbus.core.values.freshness import ListKind
from toolbus.core.values.records import OWN, ToolSpec
from toolbus.lock.drift import Held
from toolbus.policy.approvals import Approvals
from toolbus.policy.guard import PolicyGuard
from toolbus.policy.layers import Layer
from toolbus.search.encoders.encoder import EncodingFunction
from toolbus.search.finder import Finder
from toolbus.shape import Shaper

if TYPE_CHECKING:
    from toolbus.discover import Discovery

T = TypeVar("T")
REFRESH_WITHIN = 5.0
"""Seconds for which a caller waits for a list that has expired; then the last one is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BusExtensions:
    """The user's extensions of a bus."""

    hooks: Sequence[Hook]
    shapers: Sequence[Shaper]
    guards: Sequence[Guard]
    observers: Sequence[Observer]
    get_secret: GetSecret | None
    interactions: Interactions
    encoder: EncodingFunction | None = None
    """Finds tools by meaning, instead of the encoder in the config."""


class BusLoop(Protocol):
    """The way to the loop of a bus, and to the servers there."""

    @property
    def config(self) -> BusConfig:
        """The config in use."""
        ...

    @property
    def installed(self) -> bool:
        """Whether the links exist, so that requests have a way."""
        ...

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        ...

    @property
    def loop(self) -> OwnerLoop:
        """The loop of the bus; `BusClosed` if the bus is not running."""
        ...

    def check_process(self) -> None:
        """Raise `BusClosed` if the bus was started before this process was forked."""
        ...

    def check_running(self) -> None:
        """Raise `BusClosed` if the bus is not running."""
        ...

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the bus, from any task, thread or loop."""
        ...

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from a thread without a loop; RuntimeError if it would never return."""
        ...


class Engine(ABC):
    """The parts that all views of one user share; a bus without users has one engine."""

    def __init__(
        self,
        config: BusConfig,
        extensions: BusExtensions,
        approvals: LockApprovals,
        *,
        enforcement: Enforcement,
        user: str = "",
        base: "Engine | None" = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """`observers` come before those of the extensions.

        `base` is the engine whose servers this one borrows, all or most.
        """
        self.user, self.interactions, self._base = user, extensions.interactions, base
        self._logins: set[str] = set()
        """The servers for which it was reported that the user has to sign in."""
        self.hub = Hub(config.limits.backlog)
        self.encoding = BusEncoding(config, extensions) if base is None else base.encoding
        self.finder = Finder(lambda: self.encoding.now)
        lock = None if base is None else base.lock
        self.lock = BusLock(approvals, lambda: self.servers.inventories, self.hub.emit, self._reports, lock)
        self.enforcement = enforcement
        self.offer = PolicyFilter(enforcement, lambda: self.lock.inventories, warns=base is None)
        self.catalog = LiveCatalog(
            config,
            extensions.shapers,
            lambda: self.offer.inventories(prompts=False),
            self.hub,
            self._reports,
            self.offer,
            None if base is None else base.catalog,
            self._is_like_base,
        )
        self.definitions = Definitions(self.catalog, lambda: self.lock.inventories)
        self.targets = Targets(self.catalog, self.definitions)
        approvals_of_calls = Approvals(extensions.interactions, enforcement.answers)
        self.guard = PolicyGuard(enforcement, self.targets, approvals_of_calls)
        self.results = Results(
            self.catalog.warn,
            self.catalog.offer_kept_results,
            store=None if base is None else base.results.store,
            user=user,
        )
        self.servers = Servers(
            config,
            self.catalog_changed,
            self.emit_of_link,
            extensions.interactions,
            self._admit,
            self.lock,
            enforcement.telemetry,
        )
        self.path = self._new_path(extensions, observers)
        self.enforce()

    def _new_path(self, extensions: BusExtensions, observers: Sequence[Observer]) -> CallPath:
        searches = ToolSearch(self.finder)
        routes = {
            **ServerRoutes(self.servers.requests, lambda: self.lock.inventories, self.offer.listed).table,
            **self.servers.routes,
            "toolbus/read_result": self.results.read,
            SEARCH: searches.run,
            SEARCH_FUNCTIONS: searches.run_for_scripts,
        }
        return CallPath(
            routes,
            repairing=self.servers.repairing,
            observers=[
                self.enforcement.telemetry,
                *observers,
                EventObserver(self.hub),
                *extensions.observers,
            ],
            hooks=extensions.hooks,
            guards=extensions.guards,
            warn=self.catalog.warn,
            base=self._base_path,
        )

    def _base_path(self) -> CallPath | None:
        """The path of the base, if the catalog is its own."""
        return self._base.path if self._base is not None and self.catalog.is_base else None

    # The policy

    def enforce(self) -> None:
        """Install the guard if there is a policy or an audit trail; without, calls do not pay for it."""
        self.path.use_policy(self.guard if self.enforcement.needed else None, self.enforcement.observers)

    def view_policy(self, rules: Sequence[PolicyRule] | Layer) -> Layer:
        """The policy of a view, enforced from now on; warns of rules that match nothing."""
        layer = self.enforcement.of_view(rules)
        for message in self.offer.warnings_of_view(layer):
            self.catalog.warn(OWN, None, message)
        return layer

    def known(self, name: str, scope: Scope) -> ToolSpec | None:
        """The tool of that public name or `server/tool` in a scope, also if a policy denies it."""
        spec = self.catalog.now.get(name) or self.catalog.removed.get(name)
        return spec if spec is not None and scope.reaches(spec) else None

    def denial(self, spec: ToolSpec, scope: Scope) -> CallRefused | None:
        """The error for a tool of which a policy denies every call; None if none does."""
        target = listed_target(spec)
        return None if target is None else self.guard.denial(spec.name, target, scope.policies)

    @property
    @abstractmethod
    def access(self) -> BusLoop:
        """The way to the loop of the bus."""

    def catalog_changed(self) -> None:
        """A server of this engine offers something else now."""
        self.catalog.change()

    def emit_of_link(self, event: Event) -> None:
        """Emit an event of a link of this engine, and that somebody has to sign in because of it."""
        if isinstance(event, LoginNeeded):
            self.emit_login(event)
            return
        if isinstance(event, StateChanged):
            self.servers.note_state(event)
        self.hub.emit(event)
        if isinstance(event, StateChanged):
            self._report_login(event)

    def _report_login(self, event: StateChanged) -> None:
        if event.state == "ready":
            self._logins.discard(event.server)
        error = self.servers.login_required(event.server) if event.state == "auth_required" else None
        # Once, until the server can be used again: every call on demand tries again.
        if error is not None and event.server not in self._logins:
            self._logins.add(event.server)
            self.emit_login(LoginNeeded(server=event.server, user=self.user, reason=cleaned(error.reason)))

    def emit_login(self, event: LoginNeeded) -> None:
        """Emit that the user of this engine has to sign in."""
        self.hub.emit(event)

    def _is_like_base(self) -> bool:
        """Whether the servers offer exactly what those of the base do, so that the catalog is the same."""
        base = self._base
        if base is None or base.lock.approvals is not self.lock.approvals:
            return False
        own, others = self.servers.inventories, base.servers.inventories
        return list(own) == list(others) and all(own[alias] is others[alias] for alias in own)

    def shares(self, server: str) -> bool:
        """Whether the connection to a server is everybody's."""
        return self._base is None or server in self.servers.borrowed

    def _reports(self, server: str) -> bool:
        """Whether problems of a server are reported here; the bus reports those of shared servers."""
        return server not in self.servers.borrowed

    async def _admit(self, operation: Operation, answer: Callable[[], Awaitable[T]], /) -> T:
        return await self.path.admit(operation, answer)

    # Lists that expire

    def _aliases(self, scope: Scope) -> list[str]:
        return [alias for alias in self.access.config.servers if scope.has_server(alias)]

    def due(self, scope: Scope, *kinds: ListKind) -> "dict[Discovery, list[ListKind]]":
        """The lists of a view that have expired, by default of those that its catalog is made of."""
        return self.servers.due(kinds or self.catalog.shaping.kinds, self._aliases(scope))

    def refresh_soon(self, scope: Scope, *kinds: ListKind) -> None:
        """Have the lists that are due listed again, without waiting; in any thread."""
        due = self.due(scope, *kinds)
        if due and self.access.running:

            def refresh() -> None:
                for discovery, kinds in due.items():
                    discovery.refresh_soon(kinds)

            self.access.loop.call_soon(refresh)

    async def refresh(self, scope: Scope, *kinds: ListKind) -> None:
        """The same, and wait for the new lists, but not for long: the last ones stay usable."""
        due = self.due(scope, *kinds)
        await _within_reason(discovery.refresh(kinds) for discovery, kinds in due.items())

    def seconds_left(self, scope: Scope, kind: ListKind) -> float | None:
        """For how much longer a list of a view is fresh; None if no server says anything about it."""
        return self.servers.seconds_left(kind, self._aliases(scope))

    async def look_for(self, name: str, scope: Scope) -> None:
        """Connect to the servers of a view that may have a tool of that name; connected ones list again."""
        shaping, inventories = self.catalog.shaping, self.lock.inventories
        likely = [alias for alias in self._aliases(scope) if shaping.may_have(alias, name)]
        down = [alias for alias in self.servers.down if alias in likely]
        expired = self.servers.due_for_name(down, are_up=False)
        unlisted = [alias for alias in down if not inventories[alias].tools or alias in expired]
        listed = self.servers.due_for_name([alias for alias in likely if alias not in down], are_up=True)
        await asyncio.gather(
            *(self.servers[alias].open(by_name=True) for alias in unlisted),
            _within_reason(discovery.refresh(["tools"]) for discovery in listed.values()),
        )

    def missing(self, name: str, scope: Scope) -> ToolNotFound | CallRefused | LoginRequired:
        """The error for a tool that is not in a view: unknown, held, denied, or of a server to sign in to."""
        if (refused := self.refused(name, scope)) is not None:
            return refused
        return self.unknown(name, scope)

    def unknown(self, name: str, scope: Scope) -> ToolNotFound | LoginRequired:
        """The error for a tool that a view does not have, whatever the reason."""
        # The tools of a locked server are known, connected or not.
        locked = self.lock.approvals.reviewers
        down = [alias for alias in self.servers.down if scope.has_server(alias) and alias not in locked]
        likely = [alias for alias in down if self.catalog.shaping.may_have(alias, name)]
        for alias in likely:
            if (needed := self.servers.login_required(alias)) is not None:
                return needed.with_traceback(None)  # the same one for each call
        catalog, reason = scope.catalog(self.catalog.now).for_models, self.servers.why_down(likely)
        plain, inventories = catalog.missing(name, down), self.servers.inventories
        # While a server reconnects, its last list still shows which name was meant.
        is_listed = all(inventories[alias].tools for alias in likely or down)
        is_misspelled = is_listed and bool(plain.close_matches)
        return plain if reason is None or is_misspelled else catalog.missing(name, down, reason)

    def refused(self, name: str, scope: Scope) -> CallRefused | None:
        """The error for a tool that is denied by a policy, or held; None if it is neither."""
        if (spec := self.known(name, scope)) is not None:
            return self.denial(spec, scope)
        reason = self._why_held(name, scope)
        return None if reason is None else CallRefused(f"tool {name!r}", reason)

    def _why_held(self, name: str, scope: Scope) -> str | None:
        """Why a tool is held, by the name that it would have in the catalog or `server/tool`."""
        held = self.held(scope)
        if name in held:
            return held[name].reason
        for spec in self.catalog.shaping.tools(self.lock.unreviewed) if held else ():
            is_named = name in (spec.name, str(spec.origin)) and scope.reaches(spec)
            if is_named and (one := self.lock.held_as(spec)) is not None:
                return one.reason
        return None

    def held(self, scope: Scope) -> dict[str, Held]:
        """What is held of the servers and tools of a view, by `server/tool`."""
        held = {key: one for key, one in self.lock.held.items() if scope.has_server(one.server)}
        if not held or not scope.has_patterns:
            return held
        tools = self.catalog.shaping.tools(self.lock.unreviewed)
        reached = {str(spec.origin) for spec in tools if scope.reaches(spec)}
        return {key: one for key, one in held.items() if one.kind != "tool" or key in reached}


async def _within_reason(refreshes: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for lists, as long as a caller should."""
    with suppress(TimeoutError):
        async with asyncio.timeout(REFRESH_WITHIN):
            await asyncio.gather(*refreshes)


def reason_of(error: ToolNotFound | CallRefused | LoginRequired) -> Reason:
    """The reason that observers get for a call that was not made."""
    if isinstance(error, LoginRequired):
        return "server_failed"
    return "refused" if isinstance(error, CallRefused) else "unknown_tool"
