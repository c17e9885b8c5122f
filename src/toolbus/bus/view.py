"""A view of a bus: all of it or a part, for one caller."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, cast, overload

from toolbus.bus.calls import ViewCalls, check_call
from toolbus.bus.catalog.exposure import OWN_ROUTES, RUN_CODE
from toolbus.bus.catalog.registry import Registry, selection_of
from toolbus.bus.catalog.snapshot import with_quarantined
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.engine.lookup import Lookup
from toolbus.bus.engine.tenant import Tenant
from toolbus.bus.engine.tenants import SessionTenant
from toolbus.bus.rules.enforcement import Rules, rules_of
from toolbus.bus.rules.scope import Names, Scope, is_own_resource
from toolbus.bus.script_jobs import jobs_of
from toolbus.bus.scripts import Scripts
from toolbus.bus.tasks import TaskCalls, TaskHandle, given_approval, is_begun
from toolbus.call import Operation
from toolbus.config import BusConfig
from toolbus.config.settings.expose import ExposeMode, check_mode
from toolbus.config.settings.policy import PolicyRule
from toolbus.core.operation.events import E, Emit, Event, EventStream, Filter, OnLog, of_types
from toolbus.core.operation.operation import Caller, OnInput, Resumed
from toolbus.core.values import freshness
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.elicitation import Answer, Pending
from toolbus.core.values.errors import BusClosed, ToolbusError
from toolbus.core.values.freshness import KINDS, ListKind
from toolbus.core.values.records import (
    JSON,
    OWN,
    Completion,
    Embedded,
    Health,
    Inventory,
    Progress,
    Prompt,
    PromptMessage,
    PromptResult,
    Resource,
    ResourceTemplate,
    ServerStatus,
    Text,
    ToolResult,
    ToolSpec,
    pending_result,
)
from toolbus.core.values.skills import READ_SKILL, LoadedSkill, Skill, body_of, file_uri
from toolbus.core.values.uri_templates import Values, expanded
from toolbus.lock.drift import HeldTool
from toolbus.policy.layers import Layer
from toolbus.search.hit import SearchHit, SearchState

CHECK_EVERY = 0.1
"""Seconds between two looks at whether lists have expired."""


class View:
    """The servers, tools, resources and prompts of a bus in one scope."""

    def __init__(self, tenant: Tenant, scope: Scope) -> None:
        self._tenant, self._own_scope = tenant, scope
        self._access, self._live = tenant.access, tenant.live
        self._hub, self._servers = tenant.hub, tenant.servers
        self._path = tenant.engine.path
        self._bus_scope: Scope | None = None
        """The scope of the bus that `_scope_there` is within."""
        self._scope_there, self._is_whole = scope, scope.is_whole
        # Not lambdas, which are one more function in every call.
        scope_now: Callable[[], Scope] = partial(attrgetter("_scope"), self)
        catalog_now: Callable[[], Catalog] = partial(attrgetter("_now"), self)
        self._lookup = Lookup(tenant, scope_now)
        self._check_at = 0.0
        """The next time to check whether lists have expired."""
        self._calls = ViewCalls(self, tenant, scope_now, self._lookup, catalog_now)
        self._remembered = self._calls.remembered
        enforcement = tenant.engine.enforcement
        self.scripts = Scripts(self, self._calls, tenant.interactions, lambda: enforcement.shared)
        """Scripts that call its tools."""

    @property
    def _scope(self) -> Scope:
        """The scope of this view, narrowed to the bus; a reload may change it."""
        if self._bus_scope is not (bus := self._tenant.engine.scope):
            self._bus_scope, self._scope_there = bus, self._own_scope.within(bus)
            self._is_whole = self._scope_there.is_whole
        return self._scope_there

    def view(
        self,
        *,
        servers: Names = None,
        include: Names = None,
        exclude: Names = None,
        caller: Caller | None = None,
        policy: Rules = None,
        expose: ExposeMode | None = None,
        always: Names = None,
    ) -> "View":
        """The same API for a part of this view: some servers, matching tools, another caller, more rules.

        `include` takes patterns such as `files_*` or `files/read*`, for public names and `server/tool`;
        `exclude` leaves some of them out. With `policy`, these rules apply in addition, and the stricter
        decision wins. `expose` and `always` choose the tools that a model is shown, as in the config.
        Anything outside the view can neither be called nor read through it. A view ends with its bus.

        ```python
        reading = bus.view(include="notes_search")
        print(*reading.catalog.names)  # notes_search
        ```
        """
        known = None if servers is None else self._known(servers)
        if caller is not None and (user := self._tenant.user):
            caller = replace(caller, user=user)  # nobody calls for another user
        layer = None if policy is None else self._layer(rules_of(policy))
        check_mode(expose)
        scope = self._own_scope.narrowed(known, include, caller, layer, exclude)
        return View(self._tenant, scope.exposed(expose, always))

    def _layer(self, rules: Sequence[PolicyRule] | Layer) -> Layer:
        """The policy of a view, enforced from now on; warns of rules that match nothing."""
        layer = self._tenant.engine.enforcement.of_view(rules)
        for dead in self._tenant.dead_rules(layer):
            self._live.warn(OWN, None, f"{layer.prefix}{dead}")
        return layer

    @property
    def caller(self) -> Caller:
        """The caller of its operations; hooks, guards and observers see it."""
        return self._scope.caller

    # The catalog

    @property
    def catalog(self) -> Catalog:
        """The tools that can be called now: an immutable snapshot.

        Servers whose lists have expired are asked again in the background; the next snapshot has the answer.
        """
        now = freshness.clock()
        if now >= self._check_at:  # not every time: with many servers it takes longer than all the rest
            self._check_at = now + CHECK_EVERY
            self._lookup.refresh_soon()
        return self._now

    def search(self, queries: Sequence[str] | str, limit: int = 8) -> list[SearchHit]:
        """The tools that fit, best first, and one that a query names before all others (see `Finder`).

        ```python
        [hit] = bus.search("find notes", limit=1)
        print(hit.name)  # notes_search
        ```
        """
        return self._tenant.finder.search(self.catalog.for_models, queries, limit)

    @property
    def search_state(self) -> SearchState:
        """By which encoder tools are searched, and how many of them it has read so far."""
        return self._tenant.finder.state

    async def search_ready(self, timeout: float | None = None) -> SearchState:
        """Wait until the tools can be searched by meaning, or it is known that they cannot."""
        return await asyncio.to_thread(self._tenant.finder.wait, self.catalog.for_models, timeout)

    @property
    def _now(self) -> Catalog:
        live = self._live  # every call is here
        whole = live.now if live.is_outdated else live.current
        if self._bus_scope is not self._tenant.engine.scope:
            _ = self._scope
        return whole if self._is_whole else self._scope_there.catalog(whole)

    def tools(self, servers: Names = None, *, loadable: bool = False) -> list[Tool]:
        """The tools to show a model, by `expose`: of all servers, or of the given ones.

        `loadable` is for providers that load tools: hidden ones are in the list, with `defer_loading`.

        ```python
        for tool in bus.tools("notes"):
            print(tool.name)  # notes_add, notes_search
        ```
        """
        shown = self if servers is None else self.view(servers=servers)
        exposed = shown._calls.loadable(shown.catalog) if loadable else shown._calls.exposed
        listed = (spec for spec in exposed if servers is None or not is_own_resource(spec))
        return [Tool(spec, shown if spec.route in OWN_ROUTES else self) for spec in listed]

    def tool(self, name: str) -> Tool:
        """The tool of that public name or `server/tool`; `ToolNotFound` suggests similar ones."""
        spec = self._calls.known(name, self.catalog)
        if spec is None:
            raise self._lookup.missing(name)
        return Tool(spec, self)

    def register_into(
        self,
        registry: Registry,
        tools: Iterable[Tool | str] | None = None,
        *,
        servers: Names = None,
        transform: Callable[[ToolSpec], ToolSpec | None] | None = None,
    ) -> None:
        """Add the tools to anything with `add_tool`, and keep it in sync until the bus stops.

        `tools` limits it to these tools: `Tool` objects, public names or `server/tool`. `servers` limits it
        to the tools of these servers. `transform` changes a tool for this registry, or leaves it out by
        returning None.
        """
        known = None if servers is None else self._known(servers)
        selection = selection_of(self.catalog, tools, known, transform, self._has, self._calls.shown)
        self._live.registrations.add(registry, selection, self._live.now.specs, self)

    def _has(self, spec: ToolSpec) -> bool:
        return self._scope.has(spec)

    def _known(self, servers: Sequence[str] | str) -> frozenset[str]:
        wanted = [servers] if isinstance(servers, str) else servers
        return frozenset(self._check(alias) for alias in wanted)

    def _check(self, alias: str) -> str:
        return self._servers.check(alias, self._scope.servers)

    # Calls

    async def call(
        self,
        name: str,
        arguments: Mapping[str, JSON] | None = None,
        *,
        timeout: float | None = None,
        max_timeout: float | None = None,
        reconnect_timeout: float | None = None,
        on_progress: Progress | None = None,
        on_log: OnLog | None = None,
        on_input: OnInput = "ask",
    ) -> ToolResult:
        """Call a tool by its public name or `server/tool`; an error of the tool is returned as a result.

        Raises `ToolbusError` if the call could not be made: unknown name, server down, timeout.
        Wrong arguments make an error result with `sent=False`, whose `raise_for_error()` raises.
        With `max_timeout`, progress restarts the `timeout`, up to that total time.
        Waits for a lost server, up to `reconnect_timeout` seconds from its loss (`timeouts.reconnect`).
        With `on_input="suspend"`, a question of the server suspends the call; pass the `pending` of the
        result to `resume`.

        ```python
        print((await bus.call("notes_add", {"text": "buy tea"})).text)  # kept as note 1
        ```
        """
        if not (is_here := self._access.is_here):
            self._access.check_running()
        if not (timeout is max_timeout is reconnect_timeout is None and on_input == "ask"):
            check_call(on_input, reconnect_timeout, timeout=timeout, max_timeout=max_timeout)
        # Not by `_operation`: every call is here, and passing keywords on costs.
        catalog, is_unlisted = self._now, False
        if (spec := catalog.get(name)) is None:
            spec, arguments, is_unlisted = await self._calls.target(name, arguments or {})
            catalog = self._now
            if spec.route == RUN_CODE:
                return await self.scripts.run_for_model(arguments, on_input, on_progress)
        if spec.origin.server in self._remembered:
            spec, catalog = await self._calls.current(spec), self._now
        scope = self._scope_there  # `_now` has looked whether it changed
        operation = Operation(
            spec=spec,
            arguments={} if arguments is None else arguments,
            timeout=timeout,
            max_timeout=max_timeout,
            reconnect_timeout=reconnect_timeout,
            on_progress=on_progress,
            on_log=on_log,
            on_input=on_input,
            caller=scope.caller,
            servers=scope.servers,
            policies=scope.policies,
            catalog=catalog,
            tenant=self._tenant,
            is_unlisted=is_unlisted,
            during=scope.during,
        )
        if is_here:
            return await self._path.run(operation)
        return await self._access.run(self._path.run(operation))

    # Calls that end later

    async def resume(
        self,
        pending: Pending,
        answers: Mapping[str, Answer] | Answer | None = None,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        on_input: OnInput = "suspend",
    ) -> ToolResult:
        """Continue a suspended call, even in another process; pass answers by key, or a single answer."""
        check_call(on_input, timeout=timeout)
        tool = f"{pending.server}/{pending.tool}"
        if pending.script is not None and not (tool := jobs_of(self).tool_of(pending)):
            return await self.scripts.resume(
                pending, answers, timeout=timeout, on_input=on_input, on_progress=on_progress
            )
        resumed = Resumed.of(pending, answers)
        return await self._calls.send(
            await self._calls.find_to_call(tool),
            arguments=pending.arguments,
            timeout=timeout,
            on_progress=on_progress,
            on_input=on_input,
            resumed=resumed if is_begun(pending) else None,
            approval=given_approval(resumed),
        )

    async def submit(self, name: str, arguments: Mapping[str, JSON] | None = None) -> TaskHandle:
        """Start a call and return at once if the server runs it as a task; else wait for its result."""
        given: Mapping[str, JSON] = {} if arguments is None else arguments
        spec = await self._calls.find_to_call(name)
        return self._handle(await self._calls.send(spec, arguments=given, detached=True))

    def task(self, stored: str) -> TaskHandle:
        """The task that was stored with `to_json()`; also in another process."""
        return self._handle(pending_result(Pending.from_json(stored)))

    def _handle(self, initial: ToolResult) -> TaskHandle:
        return TaskHandle(TaskCalls(self.resume, self._calls.request), initial)

    # Resources and prompts

    @property
    def instructions(self) -> dict[str, str]:
        """The instructions of the servers that have some, by alias."""
        return self._scope.visible(self._live.snapshot.instructions)

    def resources(self, server: str | None = None) -> list[Resource]:
        """The resources of all servers, or of one; two servers may share a URI."""
        return [item for inventory in self._fresh("resources", server) for item in inventory.resources]

    def templates(self, server: str | None = None) -> list[ResourceTemplate]:
        """The resource templates of all servers, or of one."""
        return [item for inventory in self._fresh("templates", server) for item in inventory.templates]

    def prompts(self, server: str | None = None) -> list[Prompt]:
        """The prompts of all servers, or of one."""
        return [item for inventory in self._fresh("prompts", server) for item in inventory.prompts]

    def skills(self, server: str | None = None) -> list[Skill]:
        """The skills of all servers, or of one; identified by server and URI, names may repeat."""
        return [item for inventory in self._fresh("skills", server) for item in inventory.skills]

    def _fresh(self, kind: ListKind, server: str | None) -> list[Inventory]:
        """The inventories of the servers; an expired list of that kind is refreshed soon."""
        self._lookup.refresh_soon(kind)
        return self._inventories(server)

    async def load_skill(self, server: str, uri: str) -> LoadedSkill:
        """Load a skill, listed or not: its SKILL.md, compared with its entry.

        `SkillRejected` if the server does not offer it, or if the content is not as in the entry.
        """
        result = await self._calls.request(READ_SKILL, server, uri, {"uri": uri})
        # All blocks are the server's text, or what a hook has made of it.
        text = "\n".join(block.text or "" for block in result.content if isinstance(block, Embedded | Text))
        return LoadedSkill(skill=cast("Skill", result.value), text=text, instructions=body_of(text))

    async def read_skill_file(self, skill: Skill, path: str) -> Embedded:
        """Read a file of a skill, such as `references/FORMS.md`, compared with the skill's entry.

        `SkillRejected` if it is not in the entry, differs from it, or if the server has another entry now.
        """
        asked = {"uri": skill.uri, "file": path, "digest": skill.digest}
        result = await self._calls.request(READ_SKILL, skill.server, skill.uri, asked)
        found = next((block for block in result.content if isinstance(block, Embedded)), None)
        # As below; a hook may have replaced the block.
        return found or Embedded(uri=file_uri(skill.uri, path), text=result.text)

    async def read_resource(
        self, server: str, uri: str, variables: Values | None = None
    ) -> tuple[Embedded, ...]:
        """Read a resource; one resource may come in several parts. With `variables`, the URI is a template.

        `ResourceTooLarge` if it has more bytes than the server's `resource_limit`.
        """
        templates = (item for inventory in self._inventories(None) for item in inventory.templates)
        if variables is None and any(
            item.server == server and item.uri_template == uri for item in templates
        ):
            variables = {}  # otherwise the server would take the braces as a value
        uri = uri if variables is None else expanded(uri, variables)
        result = await self._calls.request("resources/read", server, uri, {"uri": uri})
        # A hook may have replaced the blocks.
        texts = (block for block in result.content if isinstance(block, Embedded | Text))
        return tuple(b if isinstance(b, Embedded) else Embedded(uri=uri, text=b.text) for b in texts)

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> PromptResult:
        """Fill in a prompt; `ArgumentsError` names missing arguments."""
        result = await self._calls.request("prompts/get", server, name, dict(arguments or {}))
        prompt = result.value if isinstance(result.value, PromptResult) else PromptResult(messages=())
        # As above; the roles stay if the number of messages does.
        keeps_roles = len(prompt.messages) == len(result.content)
        messages = tuple(
            PromptMessage(role=prompt.messages[n].role if keeps_roles else "user", content=block)
            for n, block in enumerate(result.content)
        )
        return replace(prompt, messages=messages)

    async def complete(
        self,
        server: str,
        name: str,
        argument: str,
        value: str = "",
        *,
        known: Mapping[str, str] | None = None,
    ) -> Completion:
        """Suggested values for an argument that begins with `value`; `known` are the other arguments."""
        templates = (item for inventory in self._inventories(server) for item in inventory.templates)
        is_template = any(template.uri_template == name for template in templates)
        asked = {"argument": argument, "value": value, "known": dict(known or {}), "is_template": is_template}
        result = await self._calls.request("completion/complete", server, name, asked)
        return result.value if isinstance(result.value, Completion) else Completion()

    async def subscribe(self, server: str, uri: str) -> None:
        """Emit `ResourceUpdated` for every change, even after a reconnect; may raise `ServerRejected`."""
        await self._calls.request("resources/subscribe", server, uri, {"uri": uri})

    async def unsubscribe(self, server: str, uri: str) -> None:
        """End a subscription; the last subscriber ends it at the server."""
        await self._calls.request("resources/unsubscribe", server, uri, {"uri": uri})

    # Servers

    @property
    def held(self) -> dict[str, HeldTool]:
        """Tools that differ from the lockfile and are left out until they are approved, by `server/tool`."""
        return self._lookup.held()

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self._access.running

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """The current state of every link."""
        tools = Counter(spec.origin.server for spec in self._now)
        return self._scope.visible(self._servers.status(tools))

    @property
    def failures(self) -> dict[str, ToolbusError]:
        """The error of each unusable server; `ConnectFailed` has the phase that failed."""
        return self._scope.visible({a: link.error for a, link in self._servers.links.items() if link.error})

    @property
    def config(self) -> BusConfig:
        """The config in use."""
        config = self._access.config
        return config.model_copy(update={"servers": self._scope.visible(config.servers)})

    @property
    def inventories(self) -> dict[str, Inventory]:
        """The tools, resources and prompts of each server, before anything is left out or renamed."""
        every, quarantined = self._live.snapshot.inventories, self._live.shaped.quarantined
        return self._scope.visible(with_quarantined(every, quarantined))

    def _inventories(self, server: str | None) -> list[Inventory]:
        every = self._live.snapshot.offered(self._scope.policies)
        return list(self._scope.visible(every).values()) if server is None else [every[self._check(server)]]

    async def health(self) -> dict[str, Health]:
        """Probe every live link; no new connection is made."""
        return await self._access.run(self._servers.health(self._scope.servers))

    async def wait_ready(
        self, servers: Names = None, timeout: float | None = None
    ) -> dict[str, ServerStatus]:
        """Wait until these servers, by default all but idle ones, are ready or failed; returns their states.

        Lists that have expired are listed again. Does not raise after `timeout` seconds, by default
        `timeouts.connect`.
        """
        self._access.check_running()
        wanted = self._scope.servers if servers is None else self._known(servers)
        seconds = self._access.config.timeouts.connect if timeout is None else timeout
        await self._access.run(self._servers.wait_ready(wanted, seconds))
        await self._calls.refresh(*KINDS)
        return {alias: status for alias, status in self.servers.items() if wanted is None or alias in wanted}

    async def connect(self, alias: str) -> None:
        """Connect to a server now: a lazy, idle or lost one. `ServerDown` has the reason if that fails."""
        self._access.check_running()
        await self._access.run(self._servers.connect(self._check(alias)))

    # Events

    def on_event(self, listener: Emit, *, calls: bool = True) -> Callable[[], None]:
        """Call `listener` with every event, or none of `calls`, in the bus's loop; returns how to end it."""
        return self._hub.on(listener, self._filter, calls=calls)

    @overload
    def events(self) -> EventStream[Event]: ...
    @overload
    def events(self, *kinds: type[E]) -> EventStream[E]: ...
    def events(self, *kinds: type[Any]) -> EventStream[Any]:
        """The events from now on, or only some types, for `async for`; ends when the bus is closed."""
        self._access.check_process()
        return self._hub.listen(of_types(kinds, self._filter))

    @property
    def _filter(self) -> Filter | None:
        _ = self._live.now  # what changed before is not an event
        return None if self._scope.is_whole else self._scope.filter(lambda: self._now)


class SessionView(View):
    """A bus for one session."""

    def __init__(self, session: SessionTenant, scope: Scope) -> None:
        super().__init__(session, scope)
        self._session = session

    def view(self, **narrower: Any) -> "SessionView":
        """As `View.view`; a part of a session can end it."""
        return SessionView(self._session, super().view(**narrower)._own_scope)

    async def close(self) -> None:
        """End the session: disconnect from its own servers. Any number of times, from anywhere."""
        try:
            loop = self._session.engine.loop
        except BusClosed:  # so has every session ended
            return
        await loop.run(self._session.end_session())
