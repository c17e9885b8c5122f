"""The bus: every server of a config, one catalog, one way to call.

A bus may be opened, used and closed from any task, thread or loop, in any order. It lives on the
loop that started it; what comes from elsewhere is carried there.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from toolbus.bus.registry import Choice, Registrations, Registry
from toolbus.bus.resources import Content
from toolbus.bus.servers import Servers, closed, opened
from toolbus.bus.shaping import Shaping
from toolbus.bus.tasks import Later, check_call
from toolbus.bus.tool import Tool
from toolbus.call import READ_RESULT, Call, Caller, Hook, OnInput, Progress, ResourceTools, Results
from toolbus.config import BusConfig, GetSecret, Secrets, ServerConfig, bus_config, load_server
from toolbus.connect import Session
from toolbus.core.catalog import Catalog
from toolbus.core.display import counted
from toolbus.core.errors import BusClosed, ConfigError, ShaperFailed, ToolbusError, ToolNotFound
from toolbus.core.events import CatalogChanged, Emit, Hub, Listening, OnLog, Warned
from toolbus.core.interactions import NOBODY, Interactions
from toolbus.core.loop import OwnerLoop
from toolbus.core.records import JSON, Health, Inventory, ServerStatus, ToolResult, ToolSpec
from toolbus.shape import Shaper, each

T = TypeVar("T")
Source = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]] | BusConfig
logger = logging.getLogger("toolbus")


class Toolbus(Content, Later):
    """Connects to every server of a config and makes their tools one catalog."""

    def __init__(
        self,
        config: Source | None = None,
        *,
        hooks: Sequence[Hook] = (),
        shapers: Sequence[Shaper] = (),
        get_secret: GetSecret | None = None,
        on_event: Emit | None = None,
        interactions: Interactions = NOBODY,
    ) -> None:
        """Read the config, by default the one that is found and trusted; nothing is started yet."""
        self._config = bus_config(config)
        self._get_secret = get_secret
        self._own_shapers = tuple(shapers)
        self._shaping = Shaping(self._config, self._own_shapers)
        self._hub = Hub()
        if on_event is not None:
            self._hub.on(on_event)
        self._servers = Servers(self._rebuild, self._hub.emit, interactions)
        secrets = Secrets(get_secret, self._config.folder, self._config.reviewed)
        self._servers.put(self._servers.made(self._config, secrets), self._config)
        results = Results(self.warn, self._rebuild)
        self._caller = Caller(self._servers.links, self._hub, hooks, ResourceTools(self), results)
        self._registrations = Registrations(self, READ_RESULT.origin)
        self._catalog = Catalog(own=self._own_tools())
        self._warned: set[tuple[str, str | None, str]] = set()
        self._shaper_failed: ShaperFailed | None = None
        self._loop: OwnerLoop | None = None
        self._closed = False
        self._changing = asyncio.Lock()

    def __repr__(self) -> str:
        servers = counted(len(self._config.servers), "server")
        if not self.running:
            return f"<Toolbus {servers}, {'closed' if self._closed else 'not started'}>"
        states = Counter(status.state for status in self.servers.values())
        told = ", ".join(f"{number} {state}" for state, number in states.items())
        return f"<Toolbus {servers}{told and f': {told}'}; {counted(len(self._catalog), 'tool')}>"

    # Lifetime

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Connect to all servers at once; one that fails hurts only itself, unless it is `required`.

        Returns when every server is ready or has failed; those that are ready can be used before that.
        Does not wait for a server without a sign of life once others can be used: it joins when it is up.
        """
        async with self._changing:
            if self._closed:
                raise BusClosed()
            if self._loop is not None:
                return
            self._loop = OwnerLoop()
            try:
                await opened(self._servers.links.values())
                if self._shaper_failed is not None:
                    raise self._shaper_failed
            except BaseException:
                await self.stop()
                raise

    async def stop(self) -> None:
        """Disconnect from all servers; calls under way fail. Any number of times, from anywhere."""
        self._closed = True
        if self._loop is not None and self._loop.alive:
            await self._loop.run(self._stop())

    async def _stop(self) -> None:
        self._registrations.follow(())
        await self._servers.close()
        self._hub.end()

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self._loop is not None and not self._closed and self._loop.alive

    def _running(self) -> OwnerLoop:
        if self._loop is None or self._closed:
            raise BusClosed(started=self._closed)
        if not self._loop.alive:
            raise BusClosed("the bus lives on a loop that has ended, or in another process: it")
        return self._loop

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._loop_for(work).run(work)

    def _loop_for(self, work: Coroutine[Any, Any, Any]) -> OwnerLoop:
        try:
            return self._running()
        except BusClosed:
            work.close()
            raise

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the bus from a thread without a loop; RuntimeError if that would never end."""
        return self._loop_for(work).wait(work)

    # The catalog

    @property
    def catalog(self) -> Catalog:
        """What can be called now: an immutable snapshot."""
        return self._catalog

    def tools(self, servers: Sequence[str] | str | None = None) -> list[Tool]:
        """The tools, ready for an agent; of the given servers, or of all."""
        known = None if servers is None else self._known(servers)
        return [
            Tool(spec, self)
            for spec in self._catalog
            if known is None or spec.origin.server in known or spec.origin == READ_RESULT.origin
        ]

    def register_into(
        self,
        registry: Registry,
        tools: Iterable[Tool | str] | None = None,
        *,
        servers: Sequence[str] | str | None = None,
        transform: Callable[[ToolSpec], ToolSpec | None] | None = None,
    ) -> None:
        """Put the tools into anything with `add_tool`, and keep it in step until the bus stops.

        With `tools` only those: `Tool` objects, public names or `server/tool`. With `servers` only theirs.
        `transform` changes a tool for this registry, or leaves it out by returning None.
        """
        names = (tool if isinstance(tool, str) else str(tool.origin) for tool in tools or ())
        choice = Choice(
            only=None if tools is None else frozenset(self._catalog[name].origin for name in names),
            servers=None if servers is None else self._known(servers),
            shapers=() if transform is None else (each(transform),),
        )
        self._registrations.add(registry, choice, self._catalog.specs)

    def _known(self, servers: Sequence[str] | str) -> frozenset[str]:
        wanted = [servers] if isinstance(servers, str) else servers
        return frozenset(self._servers[alias].config.alias for alias in wanted)

    def _rebuild(self) -> None:
        inventories = self._servers.inventories
        try:
            fresh = Catalog(self._shaping.tools(inventories), self._own_tools(), self.instructions)
        except ShaperFailed as failed:
            self._shaper_failed = failed
            # Each time, unlike `warn`: until it is mended, no change of any server is seen.
            logger.error("%s", failed)
            self._hub.emit(Warned(server=READ_RESULT.origin.server, message=str(failed)))
            return
        before, self._catalog, self._shaper_failed = self._catalog, fresh, None
        for server, tool, message in self._shaping.warnings(inventories, fresh.specs):
            self.warn(server, tool, message)
        if difference := fresh.since(before):
            self._registrations.follow(fresh.specs)
            added, removed, changed = difference.added, difference.removed, difference.changed
            self._hub.emit(CatalogChanged(added=added, removed=removed, changed=changed))

    def _own_tools(self) -> list[ToolSpec]:
        """What the bus itself offers: to read on in a result that was cut, once there is one; resources."""
        return [*([READ_RESULT] if self._caller.results.has_kept else []), *self._shaping.own]

    def warn(self, server: str, tool: str | None, message: str) -> None:
        """Tell the listeners and the log, once."""
        if (server, tool, message) not in self._warned:
            self._warned.add((server, tool, message))
            logger.warning("server %r: %s%s", server, f"tool {tool!r}: " if tool else "", message)
            self._hub.emit(Warned(server=server, tool=tool, message=message))

    # Calls

    async def call(
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
        """Call a tool by its public name or `server/tool`; what the tool says is the result, failure too.

        Raises `ToolbusError` when the call could not be made: unknown name, server down, no answer in time.
        With `longest`, progress gives the call another `timeout` each time, up to so many seconds in all.
        A lost server is waited for, up to `recover` seconds from its loss (`timeouts.recover`).
        With `on_input="suspend"`, a question of the server ends the call for now: `pending` of the result
        holds it, for `resume`.
        """
        loop = self._running()
        spec = self._catalog.get(name) or await self._wanted(name)
        check_call(on_input, timeout=timeout, longest=longest, recover=recover)
        call = Call(
            spec=spec,
            arguments={} if arguments is None else arguments,
            timeout=timeout,
            longest=longest,
            recover=recover,
            on_progress=on_progress,
            on_log=on_log,
            on_input=on_input,
        )
        if loop.here:
            return await self._caller.call(call)
        return await loop.run(self._caller.call(call))

    async def run(
        self,
        spec: ToolSpec,
        arguments: Mapping[str, JSON],
        on_progress: Progress | None = None,
        *,
        keep: bool = True,
    ) -> ToolResult:
        """Call the tool a spec describes, by its origin; what `Tool.execute` uses."""
        self._running()
        if str(spec.origin) not in self._catalog:
            missing = self._missing(str(spec.origin))
            self.report_unsent(spec.name, "unknown_tool", str(missing), spec.origin)
            raise missing
        call = Call(spec=spec, arguments=arguments, on_progress=on_progress)
        return await self._on_loop(self._for_model(call, keep))

    async def _for_model(self, call: Call, keep: bool) -> ToolResult:
        """As `call`, but clean and within the tool's budget; with `keep`, the rest can be read."""
        origin, result = call.spec.origin, await self._caller.call(call)
        return self._caller.results.for_model(result, origin, self._shaping.budget(origin), keep=keep)

    async def find(self, name: str) -> ToolSpec:
        """The tool of that public name or `server/tool`; connects the idle servers that may have it."""
        return await self._on_loop(self._found(name))

    async def _found(self, name: str) -> ToolSpec:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass what they like
            kind = type(name).__name__
            raise TypeError(f"a tool is called by its public name or 'server/tool', not by a {kind}")
        spec = self._catalog.get(name)
        if spec is None:
            away = (alias for alias in self._servers.down if not self._servers.inventories[alias].tools)
            likely = [self._servers[alias] for alias in away if self._shaping.may_have(alias, name)]
            await asyncio.gather(*(link.open() for link in likely))
            spec = self._catalog.get(name)
        if spec is None:
            raise self._missing(name)
        return spec

    def _missing(self, name: str) -> ToolNotFound:
        down = list(self._servers.down)
        likely = [alias for alias in down if self._shaping.may_have(alias, name)]
        return self._catalog.missing(name, down, self._servers.why_down(likely))

    # Servers

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """The state of every link, now."""
        return self._servers.status(Counter(spec.origin.server for spec in self._catalog))

    @property
    def failures(self) -> dict[str, ToolbusError]:
        """Why each server that cannot be used cannot; `ConnectFailed` says how far it came."""
        return {alias: link.error for alias, link in self._servers.links.items() if link.error}

    @property
    def config(self) -> BusConfig:
        """The config as it counts now."""
        return self._config

    @property
    def inventories(self) -> dict[str, Inventory]:
        """What each server offers, before anything is left out or renamed."""
        return self._shaping.quarantining(self._servers.inventories)

    async def health(self) -> dict[str, Health]:
        """Ask every live link for a sign of life; no new connection is made."""
        return await self._on_loop(self._servers.health())

    async def wait_ready(
        self, servers: Sequence[str] | str | None = None, timeout: float | None = None
    ) -> dict[str, ServerStatus]:
        """Wait until these servers, by default all but idle ones, are ready or cannot be; returns all states.

        Does not raise when `timeout` runs out, by default `timeouts.connect`.
        """
        self._running()
        wanted = None if servers is None else self._known(servers)
        longest = self._config.timeouts.connect if timeout is None else timeout
        await self._on_loop(self._servers.wait_ready(wanted, longest))
        return {alias: status for alias, status in self.servers.items() if wanted is None or alias in wanted}

    async def connect(self, alias: str) -> None:
        """Connect to a server now: one that is lazy, idle or away. `ServerDown` says why it cannot be had."""
        await self._asked(alias, lambda session, timeout: asyncio.sleep(0))

    async def add_server(self, alias: str, config: Any) -> None:
        """Connect to one more server; its tools join the catalog. Fails as `start` does."""
        added = load_server(config, alias=alias, bus=self._config)
        if alias in self._config.servers:
            raise ConfigError("there is a server of that alias already", server=alias)
        await self._on_loop(self._apply(lambda servers: {**servers, alias: added}))

    async def remove_server(self, alias: str) -> None:
        """Disconnect from a server; its tools leave the catalog."""
        _ = self._servers[alias]
        await self._on_loop(self._apply(lambda old: {a: s for a, s in old.items() if a != alias}))

    async def reload(self, config: Source) -> None:
        """Take another config: connect what is new, disconnect what is gone, leave the rest untouched.

        If a required server cannot be connected, or no entry is right, it raises, and all stays as it was.
        """
        new = bus_config(config)
        await self._on_loop(self._apply(lambda _: new.servers, new))

    async def _apply(
        self,
        change: Callable[[dict[str, ServerConfig]], dict[str, ServerConfig]],
        config: BusConfig | None = None,
    ) -> None:
        async with self._changing:
            servers = change(self._config.servers)
            new = (config or self._config).model_copy(update={"servers": servers})
            fresh = await self._servers.opened(new, Secrets(self._get_secret, new.folder, new.reviewed))
            if self._closed:  # meanwhile; nobody else would close these
                await closed(server.link for server in fresh.values())
                raise BusClosed()
            self._config, self._shaping = new, Shaping(new, self._own_shapers)
            gone = self._servers.put(fresh, new)
            self._rebuild()
            await closed(server.link for server in gone.values())
            await self._servers.tell_roots()

    async def _asked(self, alias: str, send: Callable[[Session, float], Awaitable[T]]) -> T:
        self._running()
        link = self._servers[alias]
        return await self._on_loop(link.request(send, link.config.timeouts.call, repeatable=True))

    # Events

    def on_event(self, listener: Emit) -> Callable[[], None]:
        """Call `listener` with every event from now on, in the bus's own loop; the result ends that."""
        return self._hub.on(listener)

    def events(self) -> Listening:
        """Everything that happens from now on, for `async for`; ends when the bus stops."""
        return self._hub.listen()
