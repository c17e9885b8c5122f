"""The bus for synchronous code: scripts, threads, notebooks, frameworks.

The same bus, on an event loop in its own thread. It also works inside a running loop, which it then blocks
like any synchronous call.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast, overload

from toolbus.bus.catalog.registry import Registry
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.portal import Portal
from toolbus.bus.rules.enforcement import Rules
from toolbus.bus.rules.scope import Names
from toolbus.bus.session_view import SessionView
from toolbus.bus.tasks import TaskHandle
from toolbus.bus.toolbus import ConfigSource, Toolbus
from toolbus.bus.view import View
from toolbus.call import Hook, OnInput, Progress
from toolbus.config import BusConfig, GetSecret
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.ask.interactions import NO_HANDLERS, Interactions, LoginHandler
from toolbus.core.operation.events import Emit, Event, OnLog
from toolbus.core.operation.operation import Caller, Guard, Observer
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.elicitation import Answer, Pending
from toolbus.core.values.errors import BusClosed, ToolbusError
from toolbus.core.values.records import (
    JSON,
    Completion,
    Embedded,
    Health,
    Inventory,
    JSONObject,
    Prompt,
    PromptResult,
    Resource,
    ResourceTemplate,
    ServerStatus,
    TaskState,
    ToolResult,
    ToolSpec,
)
from toolbus.core.values.skills import LoadedSkill, Skill
from toolbus.core.values.uri_templates import Values
from toolbus.lock.drift import Held
from toolbus.lock.file import Lockfile
from toolbus.policy.dead import DeadRule
from toolbus.policy.rules import Policy
from toolbus.search.encoders.function import EncodingFunction
from toolbus.search.hit import Hit
from toolbus.search.progress import SearchState
from toolbus.shape import Shaper

T = TypeVar("T")


class SyncTool:
    """A `Tool` whose `execute` waits for the result."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    @property
    def name(self) -> str:
        """The public name."""
        return self.tool.name

    @property
    def description(self) -> str:
        """What the tool does, for the model."""
        return self.tool.description

    @property
    def parameters(self) -> JSONObject:
        """The arguments, as JSON Schema."""
        return self.tool.parameters

    def execute(self, /, **arguments: JSON) -> ToolResult:
        """Run the tool. Never raises: a failure is a result with `is_error`."""
        return self.tool.execute_sync(**arguments)

    def __repr__(self) -> str:
        return repr(self.tool).replace("<Tool", "<SyncTool", 1)


class SyncRegistry:
    """A user's registry, which gets each tool with a synchronous `execute`."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        if (remove := getattr(registry, "remove_tool", None)) is not None:
            self.remove_tool: Callable[[str], object] = remove

    def add_tool(self, tool: Tool, /) -> object:
        return self.registry.add_tool(SyncTool(tool))


class SyncRunner(Protocol):
    """Waits for work of a bus: a synchronous view."""

    def run(self, work: Coroutine[Any, Any, T], /) -> T: ...


class SyncTask:
    """A synchronous `TaskHandle`."""

    def __init__(self, bus: SyncRunner, task: TaskHandle) -> None:
        self._bus = bus
        self.task = task

    @property
    def id(self) -> str | None:
        """The server's id of the task; None if it returned the result at once."""
        return self.task.id

    @property
    def done(self) -> bool:
        """Whether the server returned the result at once, without a task."""
        return self.task.done

    def status(self) -> TaskState:
        """The current state of the task."""
        return self._bus.run(self.task.status())

    def result(
        self,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        on_input: OnInput = "ask",
    ) -> ToolResult:
        """As `TaskHandle.result`."""
        return self._bus.run(self.task.result(timeout=timeout, on_progress=on_progress, on_input=on_input))

    def cancel(self) -> None:
        """Ask the server to cancel the task; it may not be able to."""
        self._bus.run(self.task.cancel())

    def to_json(self) -> str:
        """As `TaskHandle.to_json`."""
        return self.task.to_json()


class SyncView:
    """`View` with methods that wait."""

    def __init__(self, bus: View, portal: Portal) -> None:
        self.bus = bus
        self._portal = portal

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the bus and wait for it; an interrupt cancels it."""
        return self._portal.run(work)

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
    ) -> "SyncView":
        """As `Toolbus.view`."""
        view = self.bus.view(
            servers=servers,
            include=include,
            exclude=exclude,
            caller=caller,
            policy=policy,
            expose=expose,
            always=always,
        )
        return SyncView(view, self._portal)

    @property
    def catalog(self) -> Catalog:
        """The tools that can be called now: an immutable snapshot."""
        return self.bus.catalog

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """The current state of every link."""
        return self.bus.servers

    @property
    def caller(self) -> Caller:
        """As `Toolbus.caller`."""
        return self.bus.caller

    @property
    def config(self) -> BusConfig:
        """As `Toolbus.config`."""
        return self.bus.config

    @property
    def failures(self) -> dict[str, ToolbusError]:
        """As `Toolbus.failures`."""
        return self.bus.failures

    @property
    def inventories(self) -> dict[str, Inventory]:
        """As `Toolbus.inventories`."""
        return self.bus.inventories

    @property
    def running(self) -> bool:
        """As `Toolbus.running`."""
        return self.bus.running

    @property
    def held(self) -> dict[str, Held]:
        """What differs from the lockfile and is left out until it is approved, by `server/tool`."""
        return self.bus.held

    @property
    def instructions(self) -> dict[str, str]:
        """The instructions of the servers that have some, by alias."""
        return self.bus.instructions

    def on_event(self, listener: Emit) -> Callable[[], None]:
        """As `Toolbus.on_event`; `listener` is called on the bus's thread."""
        return self.bus.on_event(listener)

    def events(self) -> Iterator[Event]:
        """The events from now on, for `for`; waits for the next one, and ends when the bus stops."""
        return self._portal.events(self.bus)

    def search(self, queries: Sequence[str] | str, limit: int = 8) -> list[Hit]:
        """As `Toolbus.search`."""
        return self.bus.search(queries, limit)

    @property
    def search_state(self) -> SearchState:
        """As `Toolbus.search_state`."""
        return self.bus.search_state

    def search_ready(self, timeout: float | None = None) -> SearchState:
        """As `Toolbus.search_ready`."""
        return self.run(self.bus.search_ready(timeout))

    def connect(self, alias: str) -> None:
        """As `Toolbus.connect`."""
        self.run(self.bus.connect(alias))

    def tools(self, servers: Names = None) -> list[SyncTool]:
        """The tools, with a synchronous `execute`."""
        return [SyncTool(tool) for tool in self.bus.tools(servers)]

    def register_into(
        self,
        registry: Registry,
        tools: Iterable[SyncTool | Tool | str] | None = None,
        *,
        servers: Names = None,
        transform: Callable[[ToolSpec], ToolSpec | None] | None = None,
    ) -> None:
        """As `Toolbus.register_into`; the registry gets tools with a synchronous `execute`."""
        chosen = None
        if tools is not None:
            chosen = [tool.tool if isinstance(tool, SyncTool) else tool for tool in tools]
        ours = self._portal.registries.setdefault(id(registry), SyncRegistry(registry))
        self.bus.register_into(ours, chosen, servers=servers, transform=transform)

    def call(
        self,
        name: str,
        arguments: Mapping[str, JSON] | None = None,
        *,
        timeout: float | None = None,
        longest: float | None = None,
        recover: float | None = None,
        on_progress: Progress | None = None,
        on_log: OnLog | None = None,
        on_input: OnInput = "ask",
    ) -> ToolResult:
        """As `Toolbus.call`; `on_progress` and `on_log` are called on the bus's thread."""
        return self.run(
            self.bus.call(
                name,
                arguments,
                timeout=timeout,
                longest=longest,
                recover=recover,
                on_progress=on_progress,
                on_log=on_log,
                on_input=on_input,
            )
        )

    def resume(
        self,
        pending: Pending,
        answers: Mapping[str, Answer] | Answer | None = None,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        on_input: OnInput = "suspend",
    ) -> ToolResult:
        """As `Toolbus.resume`."""
        return self.run(
            self.bus.resume(pending, answers, timeout=timeout, on_progress=on_progress, on_input=on_input)
        )

    def run_script(
        self, script: str, inputs: Mapping[str, JSON] | None = None, *, timeout: float | None = None
    ) -> ToolResult:
        """As `Toolbus.scripts.run`."""
        return self.run(self.bus.scripts.run(script, inputs, timeout=timeout))

    def submit(self, name: str, arguments: Mapping[str, JSON] | None = None) -> SyncTask:
        """As `Toolbus.submit`; the handle is synchronous, too."""
        return SyncTask(self, self.run(self.bus.submit(name, arguments)))

    def task(self, stored: str) -> SyncTask:
        """As `Toolbus.task`."""
        return SyncTask(self, self.bus.task(stored))

    def wait_ready(self, servers: Names = None, timeout: float | None = None) -> dict[str, ServerStatus]:
        """As `Toolbus.wait_ready`."""
        return self.run(self.bus.wait_ready(servers, timeout))

    def health(self) -> dict[str, Health]:
        """As `Toolbus.health`."""
        return self.run(self.bus.health())

    def resources(self, server: str | None = None) -> list[Resource]:
        """As `Toolbus.resources`."""
        return self.bus.resources(server)

    def templates(self, server: str | None = None) -> list[ResourceTemplate]:
        """As `Toolbus.templates`."""
        return self.bus.templates(server)

    def prompts(self, server: str | None = None) -> list[Prompt]:
        """As `Toolbus.prompts`."""
        return self.bus.prompts(server)

    def skills(self, server: str | None = None) -> list[Skill]:
        """As `Toolbus.skills`."""
        return self.bus.skills(server)

    def load_skill(self, server: str, uri: str) -> LoadedSkill:
        """As `Toolbus.load_skill`."""
        return self.run(self.bus.load_skill(server, uri))

    def read_skill_file(self, skill: Skill, path: str) -> Embedded:
        """As `Toolbus.read_skill_file`."""
        return self.run(self.bus.read_skill_file(skill, path))

    def read_resource(self, server: str, uri: str, variables: Values | None = None) -> tuple[Embedded, ...]:
        """As `Toolbus.read_resource`."""
        return self.run(self.bus.read_resource(server, uri, variables))

    def get_prompt(self, server: str, name: str, arguments: Mapping[str, str] | None = None) -> PromptResult:
        """As `Toolbus.get_prompt`."""
        return self.run(self.bus.get_prompt(server, name, arguments))

    def complete(
        self,
        server: str,
        name: str,
        argument: str,
        value: str = "",
        *,
        known: Mapping[str, str] | None = None,
    ) -> Completion:
        """As `Toolbus.complete`."""
        return self.run(self.bus.complete(server, name, argument, value, known=known))

    def subscribe(self, server: str, uri: str) -> None:
        """As `Toolbus.subscribe`; `on_event` receives the changes."""
        self.run(self.bus.subscribe(server, uri))

    def unsubscribe(self, server: str, uri: str) -> None:
        """As `Toolbus.unsubscribe`."""
        self.run(self.bus.unsubscribe(server, uri))


class SyncSessionView(SyncView):
    """`SessionView` with methods that wait."""

    bus: SessionView

    def end_session(self) -> None:
        """As `SessionView.end_session`."""
        with suppress(BusClosed):  # so has every session ended
            self.run(self.bus.end_session())


class SyncToolbus(SyncView):
    """`Toolbus` with methods that wait."""

    bus: Toolbus

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
    ) -> None:
        """Takes what `Toolbus` takes; nothing is started yet. Callbacks run on the bus's own thread."""
        bus = Toolbus(
            config,
            hooks=hooks,
            shapers=shapers,
            guards=guards,
            observers=observers,
            get_secret=get_secret,
            on_event=on_event,
            interactions=interactions,
            encoder=encoder,
        )
        super().__init__(bus, Portal(bus))

    def __repr__(self) -> str:
        return repr(self.bus).replace("<Toolbus", "<SyncToolbus", 1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Connect to all servers; as `Toolbus.start`."""
        self._portal.open()

    def stop(self) -> None:
        """Disconnect and end the thread; any number of times."""
        self._portal.close()

    @overload
    def as_user(self, user: str) -> SyncView: ...

    @overload
    def as_user(
        self, user: str, *, session: str, interactions: Interactions | None = None
    ) -> "SyncSessionView": ...

    def as_user(
        self, user: str, *, session: str | None = None, interactions: Interactions | None = None
    ) -> SyncView:
        """As `Toolbus.as_user`."""
        if session is None and interactions is None:
            return SyncView(self.bus.as_user(user), self._portal)
        shown = self.bus.as_user(user, session=cast(str, session), interactions=interactions)
        return SyncSessionView(shown, self._portal)

    @property
    def max_sessions(self) -> int:
        """As `Toolbus.max_sessions`."""
        return self.bus.max_sessions

    @max_sessions.setter
    def max_sessions(self, most: int) -> None:
        self.bus.max_sessions = most

    @property
    def lock(self) -> Lockfile | None:
        """As `Toolbus.lock`."""
        return self.bus.lock

    def is_locked(self, alias: str) -> bool:
        """As `Toolbus.is_locked`."""
        return self.bus.is_locked(alias)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """As `Toolbus.observe`; the observer is called on the bus's thread."""
        return self.bus.observe(observer)

    def add_server(self, alias: str, config: Any) -> None:
        """As `Toolbus.add_server`."""
        self.run(self.bus.add_server(alias, config))

    def remove_server(self, alias: str) -> None:
        """As `Toolbus.remove_server`."""
        self.run(self.bus.remove_server(alias))

    def restart(self, alias: str) -> None:
        """As `Toolbus.restart`."""
        self.run(self.bus.restart(alias))

    def sign_in(self, alias: str, handler: LoginHandler, *, scopes: Sequence[str] = ()) -> None:
        """As `Toolbus.sign_in`; the handler is asynchronous here, too."""
        self.run(self.bus.sign_in(alias, handler, scopes=scopes))

    def stderr(self, alias: str) -> tuple[str, ...]:
        """As `Toolbus.stderr`."""
        return self.bus.stderr(alias)

    @property
    def policy(self) -> Policy:
        """As `Toolbus.policy`."""
        return self.bus.policy

    def dead_rules(self) -> list[DeadRule]:
        """As `Toolbus.dead_rules`."""
        return self.bus.dead_rules()

    def reload(self, config: ConfigSource) -> None:
        """As `Toolbus.reload`."""
        self.run(self.bus.reload(config))

    def reload_lock(self) -> None:
        """As `Toolbus.reload_lock`."""
        self.run(self.bus.reload_lock())

    @property
    def unreviewed(self) -> dict[str, Inventory]:
        """As `Toolbus.unreviewed`."""
        return self.bus.unreviewed
