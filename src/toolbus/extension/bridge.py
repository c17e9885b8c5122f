"""An extension that adds MCP servers to a host built on the OpenAI Agents SDK, from one manifest.

    initialize(context)   read and check the manifest and its secrets; connects to nothing
    start()               connect to all servers; one that fails does not affect the others
    get_tools()           their tools as function tools; empty before `start` and after `stop`
    get_context()         the text of the resources that the manifest selects
    health_check()        whether every server that should be up is up
    stop()                disconnect; calls in flight end

The host may stop and start it again, and initialize it again.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolbus.adapters.openai_agents import FunctionTool, function_tool
from toolbus.adapters.tool_list import ToolList, with_face
from toolbus.bus.context import ContextProvider
from toolbus.bus.toolbus import Toolbus
from toolbus.config import BusConfig, GetSecret, Secrets, ServerConfig, resolved
from toolbus.core.ask.interactions import NO_HANDLERS, Interactions
from toolbus.core.values.errors import BusClosed, ConfigError, SecretMissing, ToolbusError
from toolbus.core.values.records import Health, ServerStatus
from toolbus.extension.host import EventPublisher, get_secret_of, manifest_of, publish_of
from toolbus.extension.manifest import ManifestSource, bridge_config, load_manifest

FACE = "extension"
logger = logging.getLogger("toolbus")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan:
    """The result of `initialize`."""

    config: BusConfig
    skipped: Mapping[str, ToolbusError] = field(default_factory=dict[str, ToolbusError])
    get_secret: GetSecret | None = None
    events: EventPublisher | None = None


class McpBridgeExtension:
    """MCP servers as an extension, from a manifest: its path, its content, or the one in the context."""

    def __init__(
        self, manifest: ManifestSource | None = None, *, interactions: Interactions = NO_HANDLERS
    ) -> None:
        """`interactions` handle the requests of servers: questions, sampling, roots."""
        self._source = manifest
        self._interactions = interactions
        self._plan: Plan | None = None
        self._bus: Toolbus | None = None
        self._context: ContextProvider | None = None

    async def initialize(self, context: object = None) -> None:
        """Read and check the manifest; ConfigError names file, server and key.

        A server whose secret is missing is skipped, with a warning that names it.
        """
        manifest = manifest_of(context) if self._source is None else load_manifest(self._source)
        plan = Plan(config=BusConfig())
        if manifest.enabled:
            config = bridge_config(manifest)
            get_secret = get_secret_of(context)
            publish = publish_of(context)
            skipped = await _missing_secrets(config, Secrets(get_secret, config.folder))
            plan = Plan(
                config=_without(config, skipped),
                skipped=skipped,
                get_secret=get_secret,
                events=None if publish is None else EventPublisher(publish),
            )
        await self.stop()
        self._plan = plan

    async def start(self) -> None:
        """Connect to all servers; raises only if one that is `required` fails."""
        if self._plan is None:
            raise BusClosed("the extension", started=False, how="await initialize(context) first")
        if self._bus is None:
            plan = self._plan
            self._bus = Toolbus(
                plan.config,
                get_secret=plan.get_secret,
                on_event=plan.events,
                interactions=self._interactions,
            )
            self._context = ContextProvider(with_face(self._bus, FACE))
        bus = self._bus
        try:
            await bus.start()
        except BaseException:
            if self._bus is bus:
                self._bus = None
            raise

    def get_tools(self, server: str | None = None) -> list[FunctionTool]:
        """The current tools, `mcp_<alias>_<tool>`, of one server or of all."""
        bus = self._running
        return [] if bus is None else list(ToolList(bus, function_tool, server, face=FACE, live=True))

    async def get_context(self, *_: object, **__: object) -> str:
        """The text of the resources under `config.context`; one that cannot be read logs a warning.

        Unchanged resources are not read again. Accepts any arguments that the host passes.
        """
        return "" if self._running is None or self._context is None else await self._context.text()

    async def health_check(self) -> bool:
        """Whether it is running and every server is healthy, except those skipped for a missing secret."""
        health = await self.health()
        return self._running is not None and all(one.ok for one in health.values())

    async def health(self) -> dict[str, Health]:
        """The health of each server that was not skipped."""
        bus = self._running
        if bus is None or self._plan is None:
            return {}
        try:
            health = await bus.health()
        except BusClosed:  # stopped in the meantime
            return {}
        return {alias: one for alias, one in health.items() if alias not in self._plan.skipped}

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """The current state of every server; empty unless running."""
        return {} if self._running is None else self._running.servers

    @property
    def skipped(self) -> dict[str, str]:
        """The servers that were skipped because a secret is missing, and the reason."""
        return {} if self._plan is None else {a: str(error) for a, error in self._plan.skipped.items()}

    async def stop(self) -> None:
        """Disconnect from all servers; calls in flight end. Safe to call repeatedly, even before `start`."""
        bus = self._bus
        if bus is None:
            return
        await bus.close()
        if self._plan is not None and self._plan.events is not None:
            await self._plan.events.finish()
        if self._bus is bus:
            self._bus = None

    @property
    def _running(self) -> Toolbus | None:
        return self._bus if self._bus is not None and self._bus.running else None


async def _missing_secrets(config: BusConfig, secrets: Secrets) -> dict[str, ToolbusError]:
    """The servers that cannot be connected because a value they refer to is missing or invalid."""
    servers = config.servers.values()
    found = await asyncio.gather(*(_secret_error(server, secrets) for server in servers))
    missing = {server.alias: error for server, error in zip(servers, found, strict=True) if error is not None}
    for alias, error in missing.items():
        if config.servers[alias].required:
            raise error
        logger.warning("%s; the server is skipped", error)
    return missing


async def _secret_error(server: ServerConfig, secrets: Secrets) -> ToolbusError | None:
    try:
        await resolved(server, secrets)
    except (SecretMissing, ConfigError) as error:
        return error
    return None


def _without(config: BusConfig, skipped: Mapping[str, object]) -> BusConfig:
    # They stay on the bus, unconnected: the names of other tools must not depend on a secret. Without
    # listings, no lazy server is started to learn its tools.
    servers = {
        alias: server.model_copy(update={"lazy": True}) if alias in skipped else server
        for alias, server in config.servers.items()
    }
    context = tuple(source for source in config.context if source.server not in skipped)
    listings = {} if not skipped else {"keeps_listings": False}
    return config.model_copy(update={"servers": servers, "context": context, **listings})
