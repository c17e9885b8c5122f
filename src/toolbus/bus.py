"""The bus: every server of a config, one catalog, one way to call.

A bus may be opened, used and closed from any task, thread or loop, in any order. It lives on the
loop that started it; what comes from elsewhere is carried there.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from toolbus.call import Call, Caller, Hook, Progress
from toolbus.catalog import Catalog
from toolbus.config import BusConfig, GetSecret, Secrets, ServerConfig, find_config, load_config, load_server
from toolbus.connect import Link, Session
from toolbus.discover import Discovery
from toolbus.errors import BusClosed, ConfigError, ServerDown, ServerNotFound, ToolbusError, ToolNotFound
from toolbus.events import CatalogChanged, Emit, Hub, Listening
from toolbus.home import Home
from toolbus.records import (
    JSON,
    Embedded,
    Health,
    Inventory,
    Prompt,
    PromptResult,
    Resource,
    ResourceTemplate,
    ServerStatus,
    ToolResult,
    ToolSpec,
)
from toolbus.registry import Registration, Registry
from toolbus.shape import Shaper, may_name, named, selected, shaped
from toolbus.tool import Tool

T = TypeVar("T")
PATIENCE = 1.0
"""Seconds without a sign of life after which a start no longer waits for a server."""
LOOK_EVERY = 0.1
Source = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]] | BusConfig


class Toolbus:
    """Connects to every server of a config and makes their tools one catalog."""

    def __init__(
        self,
        config: Source | None = None,
        *,
        hooks: Sequence[Hook] = (),
        shapers: Sequence[Shaper] = (),
        get_secret: GetSecret | None = None,
        on_event: Emit | None = None,
    ) -> None:
        """Read the config, by default the one `find_config` finds; nothing is started yet."""
        self._config = load_config(find_config() if config is None else config)
        self._get_secret = get_secret
        self._shapers = tuple(shapers)
        self._hub = Hub()
        if on_event is not None:
            self._hub.on(on_event)
        self._links: dict[str, Link] = {}
        self._discoveries: dict[str, Discovery] = {}
        self._caller = Caller(self._links, self._hub, hooks)
        self._registrations: list[Registration] = []
        self._catalog = Catalog()
        self._home: Home | None = None
        self._closed = False
        self._changing = asyncio.Lock()
        self._add(self._config.servers.values())

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
            if self._home is not None:
                return
            self._home = Home()
            try:
                await self._open(self._links.values())
            except BaseException:
                await self.stop()
                raise

    async def stop(self) -> None:
        """Disconnect from all servers; calls under way fail. Any number of times, from anywhere."""
        self._closed = True
        if self._home is not None and self._home.alive:
            await self._home.run(self._stop())

    async def _stop(self) -> None:
        for registration in self._registrations:
            registration.empty()
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._hub.end()

    def _add(self, servers: Iterable[ServerConfig]) -> list[Link]:
        secrets = Secrets(self._get_secret, self._config.folder)
        fresh: list[Link] = []
        for server in servers:
            discovery = Discovery(server.alias, self._rebuild, self._hub.emit)
            self._discoveries[server.alias] = discovery
            self._links[server.alias] = link = Link(server, secrets, discovery, self._hub.emit)
            fresh.append(link)
        return fresh

    async def _open(self, links: Iterable[Link]) -> None:
        eager = [link for link in links if not link.config.lazy]
        opening = {asyncio.create_task(link.open()) for link in eager}
        try:
            while opening and not _enough(eager):
                _, opening = await asyncio.wait(opening, timeout=LOOK_EVERY)
        finally:
            for waiting in opening:
                waiting.cancel()
        for link in eager:
            if link.config.required and link.state != "ready":
                raise link.error or ServerDown(link.config.alias, link.state, None)

    async def _close(self, aliases: Iterable[str]) -> None:
        gone = [self._links.pop(alias) for alias in aliases]
        for link in gone:
            del self._discoveries[link.config.alias]
        await asyncio.gather(*(link.close() for link in gone))

    @property
    def running(self) -> bool:
        """Whether calls can be made."""
        return self._home is not None and not self._closed and self._home.alive

    def _running(self) -> Home:
        if self._home is None or not self.running:
            raise BusClosed(started=self._closed or self._home is not None)
        return self._home

    async def _at_home(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            home = self._running()
        except BusClosed:
            work.close()
            raise
        return await home.run(work)

    # The catalog

    @property
    def catalog(self) -> Catalog:
        """What can be called now: an immutable snapshot."""
        return self._catalog

    def tools(self, servers: Sequence[str] | str | None = None) -> list[Tool]:
        """The tools, ready for an agent; of the given servers, or of all."""
        if servers is None:
            return [Tool(spec, self) for spec in self._catalog]
        wanted = [servers] if isinstance(servers, str) else servers
        for alias in wanted:
            self._known(alias)
        return [Tool(spec, self) for spec in self._catalog if spec.origin.server in wanted]

    def register_into(self, registry: Registry, tools: Iterable[Tool | str] | None = None) -> None:
        """Put the tools into anything with `add_tool`, and keep it in step until the bus stops.

        With `tools`, only those: `Tool` objects, public names or `server/tool`.
        """
        only = None if tools is None else [self._catalog[_named(tool)].origin for tool in tools]
        registration = Registration(registry, only)
        self._registrations.append(registration)
        registration.follow(self.tools())

    def _rebuild(self) -> None:
        servers = self._config.servers
        shapers: list[Shaper] = [
            selected({alias: (server.include, server.exclude) for alias, server in servers.items()}),
            *self._shapers,
            named(self._config.naming, {alias: server.prefix for alias, server in servers.items()}),
        ]
        tools = [tool for inventory in self._inventories().values() for tool in inventory.tools]
        before, self._catalog = self._catalog, Catalog(shaped(tools, shapers))
        difference = self._catalog.since(before)
        if not difference:
            return
        for registration in self._registrations:
            registration.follow(self.tools())
        self._hub.emit(
            CatalogChanged(added=difference.added, removed=difference.removed, changed=difference.changed)
        )

    def _inventories(self) -> dict[str, Inventory]:
        return {
            alias: self._discoveries[alias].inventory
            for alias in self._config.servers
            if alias in self._discoveries
        }

    # Calls

    async def call(
        self,
        name: str,
        arguments: Mapping[str, JSON] | None = None,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
    ) -> ToolResult:
        """Call a tool by its public name or `server/tool`; what the tool says is the result, failure too.

        Raises `ToolbusError` when the call could not be made: unknown name, server down, no answer in time.
        """
        home = self._running()
        spec = self._catalog.get(name)
        if spec is None:
            spec = await home.run(self._found(name))
        call = Call(
            spec=spec,
            arguments={} if arguments is None else arguments,
            timeout=timeout,
            on_progress=on_progress,
        )
        if home.here:
            return await self._caller.call(call)
        return await home.run(self._caller.call(call))

    async def run(self, spec: ToolSpec, arguments: Mapping[str, JSON]) -> ToolResult:
        """Call the tool a spec describes, by its origin; what `Tool.execute` uses."""
        self._running()
        if str(spec.origin) not in self._catalog:
            raise self._missing(str(spec.origin))
        return await self._at_home(self._caller.call(Call(spec=spec, arguments=arguments)))

    async def _found(self, name: str) -> ToolSpec:
        """The tool of that name, if need be once the servers that may have it are up."""
        prefixes = {alias: server.prefix for alias, server in self._config.servers.items()}
        for alias, link in list(self._links.items()):
            unknown = link.state == "connecting" or (link.state == "idle" and link.config.lazy)
            if unknown and (
                name.startswith(f"{alias}/") or may_name(self._config.naming, prefixes, alias, name)
            ):
                await link.open()
        spec = self._catalog.get(name)
        if spec is None:
            raise self._missing(name)
        return spec

    def _missing(self, name: str) -> ToolNotFound:
        return self._catalog.missing(name, [a for a, link in self._links.items() if link.state != "ready"])

    # Servers

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """The state of every link, now."""
        return {
            alias: self._status(self._links[alias]) for alias in self._config.servers if alias in self._links
        }

    async def health(self) -> dict[str, Health]:
        """Ask every live link for a sign of life; no new connection is made."""
        return await self._at_home(self._health())

    async def add_server(self, alias: str, config: Any) -> None:
        """Connect to one more server; its tools join the catalog. Fails as `start` does."""
        await self._at_home(self._change(added=load_server(config, alias=alias, bus=self._config)))

    async def remove_server(self, alias: str) -> None:
        """Disconnect from a server; its tools leave the catalog."""
        self._known(alias)
        await self._at_home(self._change(removed=alias))

    async def reload(self, config: Source) -> None:
        """Take another config: connect what is new, disconnect what is gone, leave the rest untouched."""
        await self._at_home(self._apply(load_config(config)))

    async def _change(self, added: ServerConfig | None = None, removed: str | None = None) -> None:
        servers = {alias: server for alias, server in self._config.servers.items() if alias != removed}
        if added is not None:
            if added.alias in servers:
                raise ConfigError("there is a server of that alias already", server=added.alias)
            servers[added.alias] = added
        await self._apply(self._config.model_copy(update={"servers": servers}))

    async def _apply(self, new: BusConfig) -> None:
        async with self._changing:
            old, self._config = self._config.servers, new
            kept = {alias for alias, server in new.servers.items() if old.get(alias) == server}
            await self._close([alias for alias in old if alias not in kept])
            self._rebuild()
            await self._open(self._add(server for alias, server in new.servers.items() if alias not in kept))

    async def _health(self) -> dict[str, Health]:
        answers = await asyncio.gather(*(_probed(link) for link in self._links.values()))
        return dict(zip(self._links, answers, strict=True))

    def _status(self, link: Link) -> ServerStatus:
        return ServerStatus(
            state=link.state,
            era=link.era,
            protocol=link.protocol,
            tools=sum(spec.origin.server == link.config.alias for spec in self._catalog),
            restarts=link.restarts,
            error=str(link.error) if link.error else None,
            since=link.since,
        )

    def _known(self, alias: str) -> str:
        if alias not in self._config.servers:
            raise ServerNotFound(alias, list(self._config.servers))
        return alias

    async def _asked(self, alias: str, send: Callable[[Session, float], Awaitable[T]]) -> T:
        self._running()
        link = self._links[self._known(alias)]
        return await self._at_home(link.request(send, link.config.timeouts.call, repeatable=True))

    # Resources, prompts, events

    def resources(self) -> list[Resource]:
        """What can be read, of all servers."""
        return [resource for inventory in self._inventories().values() for resource in inventory.resources]

    def templates(self) -> list[ResourceTemplate]:
        """The families of resources, of all servers."""
        return [template for inventory in self._inventories().values() for template in inventory.templates]

    def prompts(self) -> list[Prompt]:
        """The prompts of all servers."""
        return [prompt for inventory in self._inventories().values() for prompt in inventory.prompts]

    async def read_resource(self, server: str, uri: str) -> tuple[Embedded, ...]:
        """Read a resource; one resource may come in several parts."""
        return await self._asked(server, lambda session, timeout: session.read_resource(uri, timeout))

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> PromptResult:
        """Fill in a prompt."""
        given = dict(arguments or {})
        return await self._asked(server, lambda session, timeout: session.get_prompt(name, given, timeout))

    def events(self) -> Listening:
        """Everything that happens from now on, for `async for`; ends when the bus stops."""
        return self._hub.listen()


def _enough(links: Sequence[Link]) -> bool:
    """Whether a start may return: all settled, or some ready and the others silent."""
    waiting = [link for link in links if link.state in ("idle", "connecting")]
    return any(link.state == "ready" for link in links) and all(
        link.quiet > PATIENCE and not link.config.required for link in waiting
    )


def _named(tool: Tool | str) -> str:
    return tool if isinstance(tool, str) else str(tool.origin)


async def _probed(link: Link) -> Health:
    began = time.perf_counter()
    if link.state == "idle":
        return Health(ok=True)  # nothing is wrong with it, nobody needs it
    try:
        await link.session.probe()
    except ToolbusError as error:
        return Health(ok=False, error=str(error))
    return Health(ok=True, latency_ms=(time.perf_counter() - began) * 1000)
