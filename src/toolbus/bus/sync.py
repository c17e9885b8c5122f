"""The bus for synchronous code: scripts, threads, notebooks, frameworks.

The same bus, on an event loop in its own thread. It also works inside a running loop, which it then blocks
like any synchronous call. It has the methods of the asynchronous interface, with the same parameters.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, overload

from toolbus.bus import connection
from toolbus.bus.catalog.registry import Registry
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.connection import McpConnection
from toolbus.bus.portal import Derived, Portal, Shown, like, same, waiting
from toolbus.bus.rules.scope import Names
from toolbus.bus.scripts import Scripts
from toolbus.bus.tasks import TaskHandle
from toolbus.bus.toolbus import Toolbus, config_of
from toolbus.bus.view import SessionView, View
from toolbus.core.ask.interactions import NO_HANDLERS, Interactions
from toolbus.core.operation.events import E, Event
from toolbus.core.values.errors import BusClosed
from toolbus.core.values.records import JSON, ToolResult, ToolSpec


class SyncTool(Derived):
    """A `Tool` whose `execute` waits for the result."""

    def __init__(self, tool: Tool) -> None:
        self._source = tool
        self.tool = tool

    name = Shown(Tool, lambda tool: tool.name)
    description = Shown(Tool, lambda tool: tool.description)
    parameters = Shown(Tool, lambda tool: tool.parameters)
    spec = Shown(Tool, lambda tool: tool.spec)
    origin = Shown(Tool, lambda tool: tool.origin)
    server = Shown(Tool, lambda tool: tool.server)
    definition = same(Tool.definition)
    run_sync = same(Tool.run_sync)
    execute_sync = same(Tool.execute_sync)

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


class SyncTask(Derived):
    """A synchronous `TaskHandle`."""

    def __init__(self, task: TaskHandle, run: Callable[..., Any]) -> None:
        super().__init__(task, run)
        self.task = task

    id = Shown(TaskHandle, lambda task: task.id)
    done = Shown(TaskHandle, lambda task: task.done)
    status = waiting(TaskHandle.status)
    result = waiting(TaskHandle.result)
    cancel = waiting(TaskHandle.cancel)
    to_json = same(TaskHandle.to_json)


class SyncScripts(Derived):
    """The scripts of a synchronous view: `run` waits for the result."""

    limits = Shown(Scripts, lambda scripts: scripts.limits)
    library = same(Scripts.library)
    stubs = same(Scripts.stubs)
    check = waiting(Scripts.check)
    examine = waiting(Scripts.examine)
    run = waiting(Scripts.run)
    run_for_model = waiting(Scripts.run_for_model)
    resume = waiting(Scripts.resume)


class SyncView(Derived):
    """`View` with methods that wait. Callbacks are called on the bus's thread."""

    def __init__(self, bus: View, portal: Portal) -> None:
        super().__init__(bus, portal.run)
        self.bus = bus
        self._portal = portal
        self.scripts = SyncScripts(bus.scripts, portal.run)
        """Scripts that call its tools."""

    @like(View.view)
    def view(self, **narrower: Any) -> "SyncView":
        return SyncView(self.bus.view(**narrower), self._portal)

    caller = Shown(View, lambda view: view.caller)
    catalog = Shown(View, lambda view: view.catalog)
    search = same(View.search)
    search_state = Shown(View, lambda view: view.search_state)
    search_ready = waiting(View.search_ready)

    @like(View.tools)
    def tools(self, *args: Any, **options: Any) -> list[SyncTool]:
        return [SyncTool(tool) for tool in self.bus.tools(*args, **options)]

    @like(View.tool)
    def tool(self, name: str) -> SyncTool:
        return SyncTool(self.bus.tool(name))

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

    call = waiting(View.call)
    resume = waiting(View.resume)

    def run_script(
        self, script: str, inputs: Mapping[str, JSON] | None = None, *, timeout: float | None = None
    ) -> ToolResult:
        """As `scripts.run`."""
        return self.scripts.run(script, inputs, timeout=timeout)

    @like(View.submit)
    def submit(self, *args: Any, **options: Any) -> SyncTask:
        return SyncTask(self._run(self.bus.submit(*args, **options)), self._run)

    @like(View.task)
    def task(self, stored: str) -> SyncTask:
        return SyncTask(self.bus.task(stored), self._run)

    instructions = Shown(View, lambda view: view.instructions)
    resources = same(View.resources)
    templates = same(View.templates)
    prompts = same(View.prompts)
    skills = same(View.skills)
    load_skill = waiting(View.load_skill)
    read_skill_file = waiting(View.read_skill_file)
    read_resource = waiting(View.read_resource)
    get_prompt = waiting(View.get_prompt)
    complete = waiting(View.complete)
    subscribe = waiting(View.subscribe)
    unsubscribe = waiting(View.unsubscribe)

    held = Shown(View, lambda view: view.held)
    running = Shown(View, lambda view: view.running)
    servers = Shown(View, lambda view: view.servers)
    failures = Shown(View, lambda view: view.failures)
    config = Shown(View, lambda view: view.config)
    inventories = Shown(View, lambda view: view.inventories)
    health = waiting(View.health)
    wait_ready = waiting(View.wait_ready)
    connect = waiting(View.connect)
    on_event = same(View.on_event)

    @overload
    def events(self) -> Iterator[Event]: ...
    @overload
    def events(self, *kinds: type[E]) -> Iterator[E]: ...
    def events(self, *kinds: type[Any]) -> Iterator[Any]:
        """As `Toolbus.events`, for `for`; waits for the next one, and ends when the bus is closed."""
        return self._portal.events(self.bus, kinds)


class SyncSessionView(SyncView):
    """`SessionView` with methods that wait."""

    bus: SessionView

    @like(View.view)
    def view(self, **narrower: Any) -> "SyncSessionView":
        return SyncSessionView(self.bus.view(**narrower), self._portal)

    def close(self) -> None:
        """As `SessionView.close`."""
        with suppress(BusClosed):  # so has every session ended
            self._run(self.bus.close())


class SyncToolbus(SyncView):
    """`Toolbus` with methods that wait.

    ```python
    with SyncToolbus({"servers": {"notes": {"command": "python", "args": ["notes.py"]}}}) as bus:
        print(bus.call("notes_add", {"text": "buy tea"}).text)  # kept as note 1
    ```
    """

    bus: Toolbus

    @like(Toolbus.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        """Takes what `Toolbus` takes; nothing is started yet. Callbacks run on the bus's own thread."""
        bus = Toolbus(*args, **options)
        super().__init__(bus, Portal(bus))

    @classmethod
    def from_servers(cls, options: Mapping[str, Any] | None = None, /, **servers: Any) -> Self:
        """As `Toolbus.from_servers`."""
        config, given = config_of(options or {}, servers)
        return cls(config, **given)

    def __repr__(self) -> str:
        return repr(self.bus).replace("<Toolbus", "<SyncToolbus", 1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Connect to all servers; as `Toolbus.start`."""
        self._portal.open()

    def close(self) -> None:
        """Disconnect and end the thread; any number of times."""
        self._portal.close()

    stop = close
    """The same under its earlier name."""

    @overload
    def as_user(
        self, user: str, *, token: str | None = None, headers: Mapping[str, str] | None = None
    ) -> SyncView: ...

    @overload
    def as_user(
        self,
        user: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        session: str,
        interactions: Interactions | None = None,
    ) -> SyncSessionView: ...

    def as_user(
        self,
        user: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        session: str | None = None,
        interactions: Interactions | None = None,
    ) -> SyncView:
        """As `Toolbus.as_user`."""
        given: dict[str, Any] = {"token": token, "headers": headers}
        given |= {"session": session, "interactions": interactions}
        view: View = self.bus.as_user(user, **given)
        if isinstance(view, SessionView):
            return SyncSessionView(view, self._portal)
        return SyncView(view, self._portal)

    @property
    def max_sessions(self) -> int:
        """As `Toolbus.max_sessions`."""
        return self.bus.max_sessions

    @max_sessions.setter
    def max_sessions(self, most: int) -> None:
        self.bus.max_sessions = most

    lock = Shown(Toolbus, lambda bus: bus.lock)
    observe = same(Toolbus.observe)
    policy = Shown(Toolbus, lambda bus: bus.policy)
    add_server = waiting(Toolbus.add_server)
    remove_server = waiting(Toolbus.remove_server)
    restart = waiting(Toolbus.restart)
    sign_in = waiting(Toolbus.sign_in)
    stderr = same(Toolbus.stderr)
    enable = waiting(Toolbus.enable)
    disable = waiting(Toolbus.disable)
    reload = waiting(Toolbus.reload)


class SyncMcpConnection(Derived):
    """`McpConnection` with methods that wait."""

    def __init__(self, connection: McpConnection, portal: Portal) -> None:
        super().__init__(connection, portal.run)
        self.bus, self.server = connection.bus, connection.server
        self._portal = portal

    @like(McpConnection.list_tools)
    def list_tools(self, prefix: str | None = None) -> list[SyncTool]:
        return [SyncTool(tool) for tool in self._run(self._source.list_tools(prefix))]

    call_tool = waiting(McpConnection.call_tool)
    list_resources = waiting(McpConnection.list_resources)
    list_templates = waiting(McpConnection.list_templates)
    read_resource = waiting(McpConnection.read_resource)
    list_prompts = waiting(McpConnection.list_prompts)
    get_prompt = waiting(McpConnection.get_prompt)

    def close(self) -> None:
        """Disconnect and end the thread; any number of times."""
        self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect_mcp(
    source: Any = None,
    *,
    alias: str | None = None,
    interactions: Interactions = NO_HANDLERS,
    **config: Any,
) -> SyncMcpConnection:
    """Connect to one server, as `toolbus.connect_mcp` does, and wait; use it with `with`, or `close()` it."""
    opening = connection.connect_mcp(source, alias=alias, interactions=interactions, **config)
    bus = Toolbus(opening.config, interactions=interactions)
    portal = Portal(bus)
    portal.open()
    return SyncMcpConnection(McpConnection(bus, opening.server), portal)
