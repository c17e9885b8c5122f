"""Calls of the tools of a view: found by name, sent down the path, or reported if they cannot be."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, get_args

from toolbus.bus.catalog.exposure import CALL_READ, CALLS, OWN_ROUTES, RUN_CODE, SEARCH, SEARCH_FUNCTIONS
from toolbus.bus.catalog.tool_search import inner_call
from toolbus.bus.engine.lookup import Lookup, reason_of
from toolbus.bus.engine.tenant import Tenant
from toolbus.bus.rules.scope import Scope
from toolbus.bus.scripts import Scripts
from toolbus.config.settings.policy import Action
from toolbus.core.ask.approval import Approval, ApprovalRequest
from toolbus.core.ask.interactions import Forwarding
from toolbus.core.operation.events import OnLog, Reason
from toolbus.core.operation.operation import Caller, Failure, OnInput, Operation, Resumed, request_spec
from toolbus.core.text.text import headed
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.errors import ArgumentsError, CallDenied, LoginRequired, ToolNotFound
from toolbus.core.values.freshness import ListKind
from toolbus.core.values.records import JSON, Origin, Progress, ToolResult, ToolSpec
from toolbus.shape.as_tools import prompt_name

T = TypeVar("T")
_LONGEST_NAME = 200
_PROMISES = (("readOnlyHint", True), ("destructiveHint", False))
"""The annotations for which a client may call a tool without asking a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenCall:
    """A call as it would be made, without hooks and the guards of a program."""

    problem: str | None = None
    """The problem of the arguments; None if they would be sent."""
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """The same by the place of each mistake, such as `filter.limit`; only the first are worded."""
    sent: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    """The arguments as the server would get them."""
    repairs: tuple[str, ...] = ()
    action: Action = "allow"
    """`ask` if a person would be asked."""
    rule: str | None = None
    """The rule that decides, such as `policy[2]`; None if no rule is about the call."""
    reason: str = ""
    """The reason that the rule gives."""
    by: str = ""
    """The answer of a person that counts already, such as `stored answer`."""
    steps: tuple[str, ...] = ()
    """A line for each rule."""


class CalledView(Protocol):
    """The view of some calls."""

    @property
    def catalog(self) -> Catalog: ...
    @property
    def scripts(self) -> Scripts: ...
    def view(self, *, caller: Caller) -> "CalledView": ...


class ViewCalls:
    """The calls of one view, and other questions about its tools; `calls_of(view)` returns it."""

    def __init__(
        self,
        view: CalledView,
        tenant: Tenant,
        scope: Callable[[], Scope],
        lookup: Lookup,
        catalog: Callable[[], Catalog],
    ) -> None:
        self._view = view
        self._tenant = tenant
        self._scope = scope
        self._lookup = lookup
        self._access = tenant.access
        self._path = tenant.engine.path
        self._catalog = catalog
        self.remembered = tenant.engine.root.servers.remembered
        """The lazy servers whose tools are known from an earlier process."""
        self._prefers_legacy = False
        self._has_preferred = False

    def serve_legacy_client(self) -> None:
        """From now on, they are made for a legacy client that can be asked, until it leaves (`leave`)."""
        self._prefers_legacy = True

    async def leave(self) -> None:
        """The client has left; the legacy links that only it needed are closed."""
        if self._prefers_legacy or self._has_preferred:
            self._prefers_legacy = self._has_preferred = False
            await self._tenant.servers.leave(self._scope().caller.session)

    async def run(
        self,
        spec: ToolSpec,
        arguments: Mapping[str, JSON],
        on_progress: Progress | None = None,
        *,
        keep: bool = True,
        approval: Approval | None = None,
        face: str = "",
        run: str = "",
    ) -> ToolResult:
        """Call the tool of a spec for a model, by its origin.

        The result is clean and within the tool's budget; with `keep`, `read_result` can read the rest.
        `approval` is a person's of exactly this call. Observers see the face that calls, and its run.
        """
        if spec.route == RUN_CODE:
            shown = self._view.view(caller=self.caller_of(face, run))
            return await shown.scripts.run_for_model(arguments, "ask", on_progress)
        self._access.check_running()
        is_unlisted = spec.route in CALLS
        if is_unlisted:
            spec, arguments = await self.inner(arguments, spec)
            keep = True  # the model reads on through `call_tool`
        elif spec.route in (SEARCH, SEARCH_FUNCTIONS):
            await self.refresh()
        name = str(spec.origin)
        if spec.route not in OWN_ROUTES and self._known_for_model(name) is None:
            missing = self._lookup.missing(name)
            self.report_unsent(spec.name, reason_of(missing), str(missing), spec.origin)
            raise missing
        if spec.route not in OWN_ROUTES:
            spec = await self.current(spec, is_decided=True)
        operation = self.operation(
            spec,
            arguments=arguments,
            on_progress=on_progress,
            approval=approval,
            caller=self.caller_of(face, run),
            is_unlisted=is_unlisted,
        )
        return await self._access.run(self._for_model(operation, keep))

    def _known_for_model(self, name: str) -> ToolSpec | None:
        """The tool of that name, denied by a policy or not, if models may call it."""
        spec = self._catalog().get(name) or self._lookup.known(name)
        return None if spec is None or spec.is_app_only else spec

    async def _for_model(self, operation: Operation, keep: bool) -> ToolResult:
        result = await self._path.run(operation)
        budget = self._tenant.live.snapshot.shaping.budget(operation.spec.origin)
        return await self._tenant.engine.results.for_model(result, operation, budget, keep=keep)

    def shown(self, catalog: Catalog) -> Catalog:
        """The part of a catalog that is shown to a model."""
        return self._scope().exposure(self._access.config).shown(catalog)

    @property
    def exposed(self) -> Catalog:
        """The tools to show a model, by `expose`: the whole catalog, or a few tools and a search."""
        return self.shown(self._view.catalog)

    def loadable(self, catalog: Catalog) -> Catalog:
        """As `shown`, for a provider that loads tools (see `Exposure.loadable`)."""
        return self._scope().exposure(self._access.config).loadable(catalog)

    def approval_needed(
        self, spec: ToolSpec, arguments: Mapping[str, JSON], *, run: str = ""
    ) -> ApprovalRequest | None:
        """The question to ask a person before a call, with the arguments as they would be sent.

        None if no approval is needed: the call is allowed, or `run` refuses it with the reason.
        """
        if not self._tenant.engine.enforcement.needed:
            return None
        if spec.route in CALLS:
            if (inner := self.listed_inner(arguments)) is None:
                return None  # it is looked for when it is called, and then decided about
            spec, arguments = inner
        operation = self.operation(spec, arguments=arguments, caller=self.caller_of("", run))
        prepared = self._path.prepared(operation)
        return None if prepared is None else self._tenant.guard.question(prepared)

    def foreseen(self, spec: ToolSpec, arguments: Mapping[str, JSON]) -> ForeseenCall:
        """The call that would be made; nobody is asked, and nothing is called, counted or recorded."""
        operation = self.operation(spec, arguments=arguments)
        checked = self._path.checked(operation)
        if checked.problem is not None:
            return ForeseenCall(problem=checked.problem, places=checked.places)
        call = ForeseenCall(sent=checked.arguments, repairs=checked.repairs)
        found = self._tenant.guard.foreseen(replace(operation, arguments=checked.arguments))
        if found is None:
            return call
        ruling, settled = found.rulings[0], found.settled
        steps = (one.layer.policy.explain(found.target, call.sent) for one in found.rulings)
        return replace(
            call,
            action=found.action,
            rule=ruling.label,
            reason=ruling.verdict.reason,
            by="" if settled is None else settled.by,
            steps=tuple(str(step) for layer in steps for step in layer),
        )

    def may_ask(self, spec: ToolSpec) -> bool:
        """Whether a policy asks about some calls of a tool; for faces that have to know before a call."""
        if not self._tenant.engine.enforcement.needed:
            return False
        specs = self._catalog() if spec.route in CALLS else (spec,)
        return any(self._tenant.guard.may_ask(self.operation(one, arguments={})) for one in specs)

    def is_allowed(self, spec: ToolSpec, arguments: Mapping[str, JSON]) -> bool:
        """Whether a rule allows a call, or a person in answer to one; False if no rule is about it."""
        if not self._tenant.engine.enforcement.needed:
            return False
        if spec.route in CALLS:
            if (inner := self.listed_inner(arguments)) is None:
                return False
            spec, arguments = inner
        prepared = self._path.prepared(self.operation(spec, arguments=arguments))
        return prepared is not None and self._tenant.guard.is_allowed(prepared)

    def definition_digest(self, spec: ToolSpec) -> str | None:
        """The digest of a tool's definition, as in the lockfile; None if its server does not offer it."""
        snapshot = self._tenant.live.snapshot
        if spec.route == "prompts/get":
            return snapshot.digest("prompt", spec.origin.server, prompt_name(spec))
        return (
            snapshot.digest("tool", spec.origin.server, spec.origin.tool)
            if spec.route == "tools/call"
            else None
        )

    async def find(self, name: str, *, is_decided: bool = False) -> ToolSpec:
        """The tool of that public name or `server/tool`; `is_decided` as for `current`."""
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
            kind = type(name).__name__
            raise TypeError(
                f"the name of a tool must be a string, its public name or 'server/tool', not {kind}"
            )
        if (spec := self.known(name, self._catalog()) or self._lookup.known(name)) is None:
            await self._access.run(self._lookup.look_for(name))
            spec = self._catalog().get(name) or self._lookup.known(name)
        if spec is None:
            raise self._lookup.missing(name)
        return await self.current(spec, is_decided=is_decided)

    def known(self, name: str, catalog: Catalog) -> ToolSpec | None:
        """The tool of that name in a catalog, or one of those that lead a model to the others."""
        exposure = self._scope().exposure(self._access.config)
        return exposure.own_tool(name, catalog.for_models) or catalog.get(name)

    async def current(self, spec: ToolSpec, *, is_decided: bool = False) -> ToolSpec:
        """The tool as its server describes it now: a lazy one is connected, if it was not since the start.

        With `is_decided`, somebody has decided by its hints whether it is called. If they promised more than
        the server does now, `CallDenied` is raised.
        """
        server, servers = spec.origin.server, self._tenant.servers
        if server not in self.remembered or not servers.awaits_listing(server):
            return spec
        await self._access.run(servers.connect(server))
        name = str(spec.origin)
        now = self._catalog().get(name) or self._lookup.known(name)
        if now is None:
            raise self._lookup.missing(spec.name)
        before, after = spec.annotations, now.annotations
        if is_decided and any(
            before.get(hint) is good and after.get(hint) is not good for hint, good in _PROMISES
        ):
            reason = "its server describes it differently than when it was last listed; look at it again"
            raise CallDenied(f"tool {spec.name!r}", reason)
        return now

    async def find_to_call(self, name: str, *, is_decided: bool = False) -> ToolSpec:
        """As `find`, for a call: observers see an unknown name."""
        try:
            return await self.find(name, is_decided=is_decided)
        except (ToolNotFound, CallDenied, LoginRequired) as error:
            self.report_unsent(name, reason_of(error), str(error))
            raise

    async def target(
        self, name: str, arguments: Mapping[str, JSON]
    ) -> tuple[ToolSpec, Mapping[str, JSON], bool]:
        """The tool to call and its arguments, and whether `call_tool` names it."""
        spec = await self.find_to_call(name)
        if spec.route in (SEARCH, SEARCH_FUNCTIONS):
            await self.refresh()
        return (*await self.inner(arguments, spec), True) if spec.route in CALLS else (spec, arguments, False)

    async def inner(
        self, arguments: Mapping[str, JSON], outer: ToolSpec, *, visible: bool = False
    ) -> tuple[ToolSpec, Mapping[str, JSON]]:
        """The call that arguments of `outer` stand for; with `visible`, found by `find_visible`."""
        name, given = inner_call(arguments)
        try:
            spec = await (self.find_visible(name) if visible else self.find_to_call(name))
            if spec.is_app_only:
                raise self.unknown_to_model(name)
            if outer.route == CALL_READ and not spec.reads_only:
                problem = f"{spec.name!r} may change something; call it with call_tool"
                self.report_unsent(spec.name, "refused", problem, spec.origin)
                raise ArgumentsError(f"tool {outer.name!r}", problem)
            return spec, given
        except ToolNotFound as error:
            catalog = self._catalog().for_models
            hits = await asyncio.to_thread(self._tenant.finder.search, catalog, [name], 3)
            near = [hit.name for hit in hits]
            remark = " (search_tools finds tools by what they do)"
            raise ToolNotFound(
                name, catalog.names, alike=near, down=error.down, likely=error.likely, remark=remark
            ) from error

    def unknown_to_model(self, name: str) -> ToolNotFound | LoginRequired:
        """The error for a tool that is for user interfaces only; observers see it as an unknown name."""
        error = self._lookup.unknown(name)
        self.report_unsent(name, "unknown_tool", str(error))
        return error

    def listed_inner(self, arguments: Mapping[str, JSON]) -> tuple[ToolSpec, Mapping[str, JSON]] | None:
        """As `inner`, if the tool is known without waiting."""
        try:
            name, given = inner_call(arguments)
        except ArgumentsError:
            return None
        spec = self._known_for_model(name)
        return None if spec is None else (spec, given)

    async def find_visible(self, name: str) -> ToolSpec:
        """As `find_to_call`, but a tool that the rules of the view deny is unknown; that is recorded."""
        spec = await self.find_to_call(name, is_decided=True)
        if self.is_hidden(spec, {}):
            error = self._lookup.unknown(name)
            self.report_unsent(name, "refused", str(error))
            raise error
        return spec

    @property
    def catalog(self) -> Catalog:
        """The tools of the view, whether or not lists have expired."""
        return self._catalog()

    async def refresh(self, *kinds: ListKind) -> None:
        """Wait a moment for the lists that have expired; by default for those that the catalog is made of."""
        self._access.check_running()
        if self._lookup.due(*kinds):
            await self._access.run(self._lookup.refresh(*kinds))

    def seconds_left(self, kind: ListKind) -> float | None:
        """For how much longer a list of the view is fresh; None if no server says anything about it."""
        return self._lookup.seconds_left(kind)

    def most_at_once(self, server: str) -> int | None:
        """The maximum number of concurrent calls to a server, across all callers; None for no limit."""
        config = self._access.config.servers.get(server)
        most = None if config is None else config.max_concurrency
        return most if most is not None and self._tenant.shares(server) else None

    def is_hidden(self, spec: ToolSpec, arguments: Mapping[str, JSON]) -> bool:
        """Whether the rules of the view, rather than the bus's own, deny every such operation."""
        return self._tenant.guard.is_hidden(self.operation(spec, arguments=arguments))

    def report_unsent(self, name: str, reason: Reason, error: str, origin: Origin | None = None) -> None:
        """Report a call that was not made to the observers: of a tool, or of an unknown name."""
        failure, lookup = Failure(reason, error), self._lookup
        spec = lookup.known(name if origin is None else str(origin))
        is_denied = spec is not None and lookup.denial(spec) is not None
        if spec is None or not is_denied:
            shown = headed(name, _LONGEST_NAME)  # a client may send any
            spec = ToolSpec(name=shown, origin=origin or Origin("", shown))
        operation = self.operation(spec, arguments={})
        self._access.loop.call_soon(lambda: self._path.report(operation, failure, is_denied=is_denied))

    def missing(self, name: str, known: Sequence[str]) -> ToolNotFound | CallDenied:
        """The error for a name that is not among the known ones: held, denied, or unknown."""
        return self._lookup.refused(name) or ToolNotFound(name, known)

    @property
    def starting(self) -> dict[str, bool]:
        """The servers that are being connected for the first time, and whether their tools are known."""
        servers = self._tenant.servers
        visible = self._scope().visible(self._access.config.servers)
        eager = [alias for alias, server in visible.items() if not server.lazy or alias in servers.unlisted]
        return {alias: servers.is_known(alias) for alias in eager if servers.is_starting(alias)}

    def is_assumed(self, alias: str) -> bool:
        """Whether what a server offers is known from an earlier process only, because it still starts."""
        return self._tenant.servers.is_assumed(alias)

    async def list_first(self, timeout: float) -> None:
        """Connect to servers of its own that have listed nothing yet; waits at most that long."""
        await self._access.run(self._tenant.servers.list_first(timeout))

    def warn(self, server: str, tool: str | None, message: str) -> None:
        """Log a warning and emit it as an event, once."""
        self._tenant.warn(server, tool, message)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the bus from a thread without a loop; RuntimeError if it would never return."""
        return self._access.wait(work)

    def forward(
        self,
        spec: ToolSpec,
        arguments: Mapping[str, JSON],
        forwarding: Forwarding,
        *,
        on_progress: Progress | None = None,
        on_log: OnLog | None = None,
        on_input: OnInput = "ask",
        resumed: Resumed | None = None,
        detached: bool = False,
        approval: Approval | None = None,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Send an operation for an MCP client.

        The result is exactly what the server sent (`core.encoding.as_sent`), or it is pending. It is pending
        if the server needs input, the policy asks, or the call became a task and `detached` is set.
        """
        scope, access = self._scope(), self._access
        is_here = access.is_here
        self._has_preferred |= forwarding.is_followed
        # Not by `operation`: every call of a client is here, and passing keywords on costs.
        operation = Operation(
            spec=spec,
            arguments=arguments,
            on_progress=on_progress,
            on_log=on_log,
            on_input=on_input,
            resumed=resumed,
            detached=detached,
            caller=scope.caller,
            servers=scope.servers,
            approval=approval,
            policies=scope.policies,
            forwarding=forwarding,
            tenant=self._tenant,
            is_unlisted=forwarding.is_unlisted,
            prefers_legacy=self._prefers_legacy or forwarding.is_followed,
        )
        work = self._path.run(operation)
        if spec.result is not None:
            work = self._smaller(work, operation)
        return work if is_here else access.run(work)

    async def _smaller(self, work: Awaitable[ToolResult], operation: Operation) -> ToolResult:
        return await self._tenant.engine.results.smaller(await work, operation)

    async def request(self, route: str, server: str, name: str, arguments: Mapping[str, JSON]) -> ToolResult:
        """Make a request other than a tool call to a server of the scope; raises what it answers with."""
        self._access.check_running()
        spec = request_spec(route, self._tenant.servers.check(server, self._scope().servers), name)
        return (await self.send(spec, arguments=arguments)).raise_for_error()

    async def send(self, spec: ToolSpec, **fields: Any) -> ToolResult:
        """Send an operation down the path."""
        return await self._access.run(self._path.run(self.operation(spec, **fields)))

    def operation(self, spec: ToolSpec, *, caller: Caller | None = None, **fields: Any) -> Operation:
        """An operation of this scope."""
        scope = self._scope()
        return Operation(
            spec=spec,
            caller=scope.caller if caller is None else caller,
            servers=scope.servers,
            policies=scope.policies,
            catalog=self._catalog(),
            tenant=self._tenant,
            prefers_legacy=self._prefers_legacy,
            during=scope.during,
            **fields,
        )

    def caller_of(self, face: str, run: str) -> Caller:
        """The caller, and how a call for a model was made."""
        caller = self._scope().caller
        return replace(caller, face=face or caller.face, run=run or caller.run) if face or run else caller


ON_INPUT: tuple[str, ...] = get_args(OnInput)


def check_call(on_input: OnInput, reconnect_timeout: float | None = None, **seconds: float | None) -> None:
    """ValueError if `on_input` or a number of seconds is invalid."""
    if reconnect_timeout is not None and not reconnect_timeout >= 0:
        raise ValueError(f"reconnect_timeout must be 0 seconds or more, not {reconnect_timeout!r}")
    if on_input not in ON_INPUT:
        raise ValueError(f"on_input must be one of {', '.join(ON_INPUT)}, not {on_input!r}")
    for name, value in seconds.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be more than 0 seconds, not {value!r}")
