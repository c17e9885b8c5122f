"""An extension that brings MCP servers to a host of the OpenAI Agents SDK: N servers, one manifest, no code.

    initialize(context)   read and check the manifest, look for its secrets; nothing is connected
    start()               connect to all servers; one that fails hurts only itself
    get_tools()           what they offer, as function tools; nothing before `start` and after `stop`
    get_context()         the text of the resources that the manifest chooses
    health_check()        whether every server that should be up is
    stop()                disconnect; calls under way end

The host may stop and start it again, and initialise it anew.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolbus.adapters.openai_agents import FunctionTool, function_tool
from toolbus.adapters.tool_list import Offer
from toolbus.bus.context import ContextProvider
from toolbus.bus.toolbus import Toolbus
from toolbus.config import BusConfig, GetSecret, Secrets, ServerConfig, resolved
from toolbus.core.errors import BusClosed, ConfigError, SecretMissing, ToolbusError
from toolbus.core.interactions import NOBODY, Interactions
from toolbus.core.records import Health, ServerStatus
from toolbus.extension.host import HostEvents, get_secret_of, manifest_of, publish_of
from toolbus.extension.manifest import Source, bridge_config, load_manifest

logger = logging.getLogger("toolbus")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan:
    """What `initialize` settled."""

    config: BusConfig
    skipped: Mapping[str, ToolbusError] = field(default_factory=dict[str, ToolbusError])
    get_secret: GetSecret | None = None
    events: HostEvents | None = None


class McpBridgeExtension:
    """MCP servers as an extension, from a manifest: its path, its content, or what the context carries."""

    def __init__(self, manifest: Source | None = None, *, interactions: Interactions = NOBODY) -> None:
        """`interactions` answer what the servers ask: a person, a model, folders."""
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
            wanted = bridge_config(manifest)
            get_secret = get_secret_of(context)
            publish = publish_of(context)
            skipped = await _without_secret(wanted, Secrets(get_secret, wanted.folder))
            plan = Plan(
                config=_without(wanted, skipped),
                skipped=skipped,
                get_secret=get_secret,
                events=None if publish is None else HostEvents(publish),
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
            self._context = ContextProvider(self._bus)
        bus = self._bus
        try:
            await bus.start()
        except BaseException:
            if self._bus is bus:
                self._bus = None
            raise

    def get_tools(self, server: str | None = None) -> list[FunctionTool]:
        """The tools, `mcp_<alias>_<tool>`, as they are now; of one server, or of all."""
        bus = self._running
        return [] if bus is None else list(Offer(bus, function_tool, server, live=True))

    async def get_context(self, *_: object, **__: object) -> str:
        """The text of the resources under `config.context`; one that cannot be read is a warning.

        What has not changed is not read again. Takes whatever the host hands to its context providers.
        """
        return "" if self._running is None or self._context is None else await self._context.text()

    async def health_check(self) -> bool:
        """Whether it runs and no server that should be up is down; one without its secret should not."""
        health = await self.health()
        return self._running is not None and all(one.ok for one in health.values())

    async def health(self) -> dict[str, Health]:
        """The answer of each server that should be up."""
        bus = self._running
        if bus is None or self._plan is None:
            return {}
        try:
            answers = await bus.health()
        except BusClosed:  # stopped in the meantime
            return {}
        return {alias: one for alias, one in answers.items() if alias not in self._plan.skipped}

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """The state of every server, now; empty unless it runs."""
        return {} if self._running is None else self._running.servers

    @property
    def skipped(self) -> dict[str, str]:
        """The servers that are left out for want of a secret, and which one."""
        return {} if self._plan is None else {a: str(error) for a, error in self._plan.skipped.items()}

    async def stop(self) -> None:
        """Disconnect from all servers; calls under way end. Any number of times, also without a start."""
        bus = self._bus
        if bus is None:
            return
        await bus.stop()
        if self._plan is not None and self._plan.events is not None:
            await self._plan.events.finish()
        if self._bus is bus:
            self._bus = None

    @property
    def _running(self) -> Toolbus | None:
        return self._bus if self._bus is not None and self._bus.running else None


async def _without_secret(config: BusConfig, secrets: Secrets) -> dict[str, ToolbusError]:
    """The servers that cannot be connected because a value they refer to is missing, or cannot be used."""
    servers = config.servers.values()
    found = await asyncio.gather(*(_lacking(server, secrets) for server in servers))
    lacking = {server.alias: error for server, error in zip(servers, found, strict=True) if error is not None}
    for alias, error in lacking.items():
        if config.servers[alias].required:
            raise error
        logger.warning("%s; the server is skipped", error)
    return lacking


async def _lacking(server: ServerConfig, secrets: Secrets) -> ToolbusError | None:
    try:
        await resolved(server, secrets)
    except (SecretMissing, ConfigError) as error:
        return error
    return None


def _without(config: BusConfig, skipped: Mapping[str, object]) -> BusConfig:
    # They stay on the bus, idle: the names of the other tools must not depend on a secret.
    servers = {
        alias: server.model_copy(update={"lazy": True}) if alias in skipped else server
        for alias, server in config.servers.items()
    }
    context = tuple(source for source in config.context if source.server not in skipped)
    return config.model_copy(update={"servers": servers, "context": context})
