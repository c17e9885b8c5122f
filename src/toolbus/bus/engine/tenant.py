"""A tenant: the bus itself, one of its users, or a session.

It has its own events, catalog and questions. It uses its own links, or the links of its parent.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from toolbus.bus.catalog.live_catalog import LiveCatalog
from toolbus.bus.catalog.snapshot import RuleUse, SnapshotInputs
from toolbus.bus.engine.engine import BusLoop, Engine
from toolbus.bus.engine.eras import SecondLink, Server
from toolbus.bus.engine.servers import Servers
from toolbus.bus.rules.lock import HeldReports, LockApprovals
from toolbus.bus.rules.targets import decides_nothing, other_target
from toolbus.config import BusConfig
from toolbus.config.script_tools.files import ScriptCode
from toolbus.connect.auth.credentials import ClientIdentity, LinkOwner
from toolbus.core.ask.interactions import Interactions, for_user
from toolbus.core.operation.events import (
    Event,
    Hub,
    InputAnswered,
    InputAsked,
    ListChanged,
    Logged,
    LoginNeeded,
    ResourceUpdated,
    StateChanged,
)
from toolbus.core.operation.operation import Caller, CallRegister, Operation
from toolbus.core.text.text import cleaned
from toolbus.core.values.catalog import Same
from toolbus.core.values.records import Inventory, ToolResult
from toolbus.policy.approvals import Approvals
from toolbus.policy.dead import DeadRule
from toolbus.policy.guard import PolicyGuard
from toolbus.policy.layers import Layer, layers_of
from toolbus.policy.rules import PolicyTarget
from toolbus.search.finder import Finder
from toolbus.telemetry.observer import BusTelemetry

T = TypeVar("T")
SharedEvent: TypeAlias = StateChanged | ListChanged
"""The events of a server that reach each borrower, who never learns of the calls of others."""


class Tenant:
    """The bus itself, or a user or session with a view of the servers and perhaps links of its own."""

    calls: CallRegister | None = None

    def __init__(
        self,
        engine: Engine,
        parent: "Tenant | None" = None,
        user: str = "",
        handlers: Interactions | None = None,
    ) -> None:
        """`handlers` answer the requests of its own servers, instead of the handlers of the bus."""
        self.engine, self.parent, self.user = engine, parent, user
        given = engine.extensions.interactions if handlers is None else handlers
        self._interactions = given if parent is None else for_user(given, user)
        self.loaded_skills: dict[tuple[Caller, str, str], str] = {}
        self._keeps_results = False
        self._logins: set[str] = set()
        """The servers for which it was reported that the user has to sign in."""
        self.hub = Hub(engine.config.limits.backlog)
        self.held = HeldReports(self.hub.emit, self._reports)
        self.servers = Servers(engine.config, self)
        self.requests = self.servers.requests
        self.live = LiveCatalog(
            engine.snapshots,
            self._inputs,
            self.hub,
            self._reports,
            self._take_snapshot,
            None if parent is None else parent.live,
        )
        self.finder = Finder(lambda: engine.encoding.now)
        approvals = Approvals(self._interactions, engine.enforcement.answers)
        self.guard = PolicyGuard(engine.enforcement, TenantTargets(self.live), approvals)

    @property
    def access(self) -> BusLoop:
        """The way to the loop of the bus."""
        return self.engine

    @property
    def children(self) -> "Iterable[Tenant]":
        """The tenants that borrow its servers."""
        return ()

    def link_owner(self, config: BusConfig) -> LinkOwner:
        """The secrets, tokens and identity for its own links."""
        return self.engine.identity(config, self.user)

    def renew(self, identity: ClientIdentity) -> None:
        """Use the newest token of its client, if servers get its identity."""

    # What its servers and its operations ask of it

    @property
    def interactions(self) -> Interactions:
        """The handlers for requests of its own servers, and for questions about its calls."""
        return self._interactions

    @property
    def approvals(self) -> LockApprovals:
        """The approvals of the current lockfile."""
        return self.engine.approvals

    @property
    def telemetry(self) -> BusTelemetry:
        """Traces the links."""
        return self.engine.enforcement.telemetry

    @property
    def inventories(self) -> Mapping[str, Inventory]:
        """The inventory of each server, as far as the lock allows it."""
        return self.live.snapshot.inventories

    def listed(self, operation: Operation, /) -> Mapping[str, Inventory]:
        """The part of the inventories that an operation may list."""
        return self.live.snapshot.offered(layers_of(operation.policies))

    def warn(self, server: str, tool: str | None, message: str) -> None:
        """Log a warning and emit it as an event, once."""
        self.live.warn(server, tool, message)

    def keep_results(self) -> None:
        """A result was cut: `read_result` is in the catalog from now on."""
        if not self._keeps_results:
            self._keeps_results = True
            self.live.rebuild()

    async def admit(self, operation: Operation, answer: Callable[[], Awaitable[T]], /) -> T:
        """Answer a request of one of its own servers, with its observers and guards."""
        # Not a changed copy: nobody has seen it yet.
        object.__setattr__(operation, "tenant", self)
        return await self.engine.path.admit(operation, answer)

    # What its catalog is made of

    def _inputs(self) -> SnapshotInputs:
        layer = self.engine.enforcement.now.layer
        return SnapshotInputs(
            shaping=self.engine.shaping,
            approvals=Same(self.engine.approvals),
            listed=tuple((alias, Same(one)) for alias, one in self.servers.inventories.items()),
            policy=layer if layer.policy.rules else None,
            keeps_results=self._keeps_results,
        )

    def _take_snapshot(self) -> Iterable[str]:
        """Report what the new snapshot holds back; returns what to warn of."""
        snapshot = self.live.snapshot
        self.held.report(snapshot.approvals, snapshot.listed)
        if self.parent is not None:
            return ()  # the rules are those of the bus, which warns of them
        return [str(dead) for dead in self.dead_rules(self.engine.enforcement.now.layer)]

    def dead_rules(self, layer: Layer) -> Iterable[DeadRule]:
        """The rules that match nothing of what the servers offer, as far as these are listed."""
        use = RuleUse(layer=layer, shaped=Same(self.live.shaped), disabled=self.engine.enforcement.disabled)
        return self.live.snapshot.dead_rules(use)

    async def run_script(self, operation: Operation, code: ScriptCode, /) -> ToolResult:
        """Run a script that is a tool, for the caller of the operation."""
        return await self.engine.run_script(operation, code)

    def shares(self, server: str) -> bool:
        """Whether the connection to a server is everybody's."""
        return self.parent is None or server in self.servers.borrowed

    def _reports(self, server: str) -> bool:
        """Whether problems of a server are reported here; its parent reports problems of borrowed servers."""
        return server not in self.servers.borrowed

    # Changes

    def second_link(self, first: Server, build: Callable[[SecondLink], Server]) -> SecondLink:
        """The second link to one of its own servers, in the share of its user."""
        return SecondLink(first, build, self.engine.second_links, self.user or None)

    def servers_changed(self) -> None:
        """One of its own servers offers something else now."""
        self.live.change()
        for observer in self.engine.server_observers:
            observer.offered(self.servers.inventories)
        for child in self.children:
            child.outdate()

    def outdate(self) -> None:
        """Something that it or its children depend on may differ now."""
        self.live.outdate()
        for child in self.children:
            child.outdate()

    # Events

    def emit_of_link(self, event: Event) -> None:
        """Emit an event of one of its own links, and that somebody has to sign in because of it."""
        if isinstance(event, Logged | InputAsked | InputAnswered):
            owner = self.engine.owners.get(event.id or 0)
            if owner is not None:
                owner(event)
                return
        if isinstance(event, LoginNeeded):
            self.emit_login(event)
            return
        if isinstance(event, StateChanged):
            self.servers.note_state(event)
        if isinstance(event, ResourceUpdated):
            for observer in self.engine.server_observers:
                observer.updated(event.server, event.uri)
        self.hub.emit(event)
        if isinstance(event, StateChanged):
            self._report_login(event)
        if isinstance(event, StateChanged | ListChanged):
            self._emit_shared(event)

    def _emit_shared(self, event: SharedEvent) -> None:
        """Emit an event of a server to those who borrow it."""
        for child in self.children:
            if event.server in child.servers.borrowed:
                child.hub.emit(event)
                child._emit_shared(event)

    def _report_login(self, event: StateChanged) -> None:
        if event.state == "ready":
            self._logins.discard(event.server)
        error = self.servers.login_required(event.server) if event.state == "auth_required" else None
        # Once, until the server can be used again: every call on demand tries again.
        if error is not None and event.server not in self._logins:
            self._logins.add(event.server)
            self.emit_login(LoginNeeded(server=event.server, user=self.user, reason=cleaned(error.reason)))

    def emit_login(self, event: LoginNeeded) -> None:
        """Emit that the user has to sign in; the supervisor of the bus has to reach the user."""
        self.hub.emit(event)
        if self.parent is not None:
            self.parent.emit_login(event)


class TenantTargets:
    """The targets of operations, for the policy: tools as the catalog of the tenant has them now."""

    def __init__(self, live: LiveCatalog) -> None:
        self._live = live

    def target(self, operation: Operation, /) -> PolicyTarget | None:
        """The target of an operation; None if nobody decides about it."""
        spec = operation.spec
        if spec.route != "tools/call":
            return None if decides_nothing(spec.route) else other_target(operation)
        # Not the given one, which may be of a `Tool` that is older than the tool's hints.
        known = self._live.shaped.target(spec.origin)
        return known or PolicyTarget(kind="tool", server=spec.origin.server, name=spec.origin.tool, spec=spec)

    def definition(self, target: PolicyTarget, /) -> str | None:
        """The digest of the definition of a tool or a prompt, as in the lockfile."""
        if target.kind not in ("tool", "prompt"):
            return None
        return self._live.snapshot.digest(target.kind, target.server, target.name)
