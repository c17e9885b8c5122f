"""A bus for the duration of one command: starts the servers it needs, stops them at the end."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from toolbus.cli.listing_cache import CachedListing, fresh_listings, save_listings
from toolbus.cli.options import SharedOptions, no_config
from toolbus.cli.output.screen import Screen, escaped_json, one_line
from toolbus.cli.terminal import CommandValue, working_folder
from toolbus.config import BusConfig, find_config, found_config, usable_config
from toolbus.config.find import named_config, with_config_cwd
from toolbus.config.load import with_profile
from toolbus.core.ask.interactions import Interactions
from toolbus.core.operation.events import Event, Logged, StateChanged
from toolbus.core.operation.operation import Caller
from toolbus.core.values.errors import ConfigError, ServerNotFound
from toolbus.core.values.records import State
from toolbus.state.stderr_log import kept_stderr

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.cli.output.spinner import Spinner
    from toolbus.state.tokens.tokens import TokenSource
    from toolbus.tape.use import BusTapes

MOST_SHOWN = 8
"""The maximum number of starting servers that the spinner names."""
STARTING_STATES = ("idle", "connecting")
UNATTENDED = Interactions(declares_elicitation=True)
"""Interactions of commands without a user.

Elicitation is still declared: some servers list tools based on it.
"""
LOG_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
}
logger = logging.getLogger("toolbus.server")


class BusSource(Protocol):
    """The source of the commands' bus: they start one, or borrow the background bus."""

    session: str
    """The session of their calls."""

    def config(self, settings: SharedOptions) -> BusConfig:
        """The config, after the user has trusted it."""
        ...

    def tokens(self, config: BusConfig) -> "TokenSource":
        """The token store of the config."""
        ...

    def listings(self, config: BusConfig) -> Mapping[str, CachedListing]:
        """The recent listings of servers, as far as they are needed before a start."""
        ...

    def startups(self, servers: Collection[str]) -> Iterable[Event]:
        """The events of these servers since they were started, before the command came."""
        ...

    def opened(
        self,
        screen: Screen,
        config: BusConfig,
        servers: Collection[str],
        on_event: Callable[[Event], None] | None,
        interactions: Interactions,
        wait: float,
        tokens: "TokenSource | None",
    ) -> "AbstractAsyncContextManager[Toolbus]":
        """The bus, with these servers started."""
        ...

    async def start_others(self, bus: "Toolbus", config: BusConfig, servers: Collection[str]) -> None:
        """Start more servers."""
        ...


class OwnBus:
    """Starts a bus for each command."""

    session = ""
    tapes: "BusTapes | None" = None
    """The tapes of the command that runs."""

    def config(self, settings: SharedOptions) -> BusConfig:
        """The config from `--config`, or the one found."""
        from toolbus.cli.input.trust import trust_prompt

        if settings.config is not None:
            return with_profile(usable_config(settings.config), settings.profile)
        with explain_missing_config():
            found = found_config(trust_prompt(settings))
        return with_profile(found, settings.profile)

    def tokens(self, config: BusConfig) -> "TokenSource":
        from toolbus.bus.engine.stores import store_for_command, tokens_in

        return tokens_in(config, store_for_command(config))

    def listings(self, config: BusConfig) -> Mapping[str, CachedListing]:
        """The cached ones that are fresh."""
        return fresh_listings(config) if self.tapes is None else {}

    def startups(self, servers: Collection[str]) -> Iterable[Event]:
        """Nothing: the command has seen all of it."""
        return ()

    @asynccontextmanager
    async def opened(
        self,
        screen: Screen,
        config: BusConfig,
        servers: Collection[str],
        on_event: Callable[[Event], None] | None,
        interactions: Interactions,
        wait: float,
        tokens: "TokenSource | None",
    ) -> "AsyncGenerator[Toolbus]":
        """A new bus; listings are cached at the end."""
        with kept_stderr(config.file):
            with screen.spinner("starting " + ", ".join(servers)) as spinner:
                # Imported here, under the spinner: the SDK takes longer to import than many servers to start.
                from toolbus.bus.toolbus import Toolbus

                starting = _StartupMonitor(config, spinner, on_event)
                own = starting_only(config, servers, tokens)
                tapes = self.tapes
                bus = Toolbus(
                    own,
                    on_event=starting.handle,
                    interactions=interactions,
                    observers=() if tapes is None else tapes.observers,
                )
                try:
                    if tapes is not None:
                        tapes.begin()
                    await bus.start()
                    if bus.lock is not None:  # then it has not started them yet
                        await bus.wait_ready(list(servers), timeout=0)
                    await starting.wait_until_settled(bus, servers)
                    if wait > 0:
                        spinner.set_text(one_line(f"waiting for {', '.join(servers)}"))
                        await bus.wait_ready(list(servers), timeout=wait)
                except BaseException:
                    await bus.close()
                    raise
            try:
                yield bus
            finally:
                try:
                    if tapes is None:
                        save_listings(config, bus)
                finally:
                    await bus.close()
                    if tapes is not None:
                        await tapes.close()

    async def start_others(self, bus: "Toolbus", config: BusConfig, servers: Collection[str]) -> None:
        await bus.reload(starting_only(config, config.servers))


OWN_BUS = OwnBus()
BUS: CommandValue[BusSource] = CommandValue("toolbus_bus", OWN_BUS)


def command_line() -> Caller:
    """The caller of the operations of a command."""
    return Caller(face="cli", session=BUS.get().session)


def load_trusted_config(settings: SharedOptions) -> BusConfig:
    """Load the config from `--config`, or the one found, after the user has trusted it."""
    return BUS.get().config(settings)


def load_untrusted_config(settings: SharedOptions) -> BusConfig:
    """Load the same config without asking for trust: to show it, not to use it."""
    with explain_missing_config():
        named = settings.config or named_config()
        config = usable_config(named) if named else with_config_cwd(usable_config(find_config()))
    return with_profile(config, settings.profile)


@contextmanager
def explain_missing_config() -> Generator[None]:
    """Replace the error for a missing config by one that says how to get one."""
    try:
        yield
    except ConfigError as error:
        if error.file is not None:
            raise
        raise no_config(working_folder()) from None


def selected_servers(config: BusConfig, servers: Iterable[str]) -> list[str]:
    """The named servers, by default all; raises `ServerNotFound` for an unknown one."""
    names = list(dict.fromkeys(servers))
    for alias in names:
        if alias in config.outside:
            problem = f"is not in the profile {config.profile!r}; leave out --profile"
            raise ConfigError(problem, file=config.file, server=alias)
        if alias in config.disabled:
            raise ConfigError(f"disabled; run 'toolbus enable {alias}'", file=config.file, server=alias)
        if alias not in config.servers:
            raise ServerNotFound(alias, list(config.servers))
    if not config.servers:
        raise ConfigError(_no_servers_reason(config), file=config.file)
    return names or list(config.servers)


def _no_servers_reason(config: BusConfig) -> str:
    if config.outside:
        return f"the profile {config.profile!r} has no servers that are enabled"
    if config.disabled:
        return f"all servers are disabled; run 'toolbus enable {config.disabled[0]}'"
    return "no servers configured; add one with 'toolbus add'"


def open_bus(
    screen: Screen,
    config: BusConfig,
    servers: Collection[str],
    on_event: Callable[[Event], None] | None = None,
    interactions: Interactions = UNATTENDED,
    wait: float = 0,
    tokens: "TokenSource | None" = None,
) -> "AbstractAsyncContextManager[Toolbus]":
    """Open a bus and start these servers, waiting up to `wait` seconds for those that are down.

    The others stay on the bus, idle, because tool names must not depend on which servers were started.
    """
    return BUS.get().opened(screen, config, servers, on_event, interactions, wait, tokens)


async def start_idle_servers(screen: Screen, bus: "Toolbus", config: BusConfig) -> None:
    """Start the idle servers of the bus."""
    idle = [alias for alias, status in bus.servers.items() if status.state == "idle"]
    with screen.spinner("starting " + ", ".join(idle)):
        await BUS.get().start_others(bus, config, idle)


def starting_only(
    config: BusConfig, servers: Collection[str], tokens: "TokenSource | None" = None
) -> BusConfig:
    """The config with all other servers lazy, none required, and the token store, if it is open already."""
    changed = {
        alias: server.model_copy(update={"lazy": alias not in servers, "required": False})
        for alias, server in config.servers.items()
    }
    store = config.tokens if tokens is None else tokens
    as_written = all(changed[alias].lazy == server.lazy for alias, server in config.servers.items())
    update = {"servers": changed, "tokens": store, "keeps_listings": as_written}
    return config.model_copy(update=update)


def log_server_message(event: Logged) -> None:
    """Write a server's log message to our log, which `-v` shows."""
    text = event.data if isinstance(event.data, str) else escaped_json(event.data)
    source = f" ({event.logger})" if event.logger else ""
    logger.log(LOG_LEVELS.get(event.level, logging.ERROR), "server %r%s: %s", event.server, source, text)


class _StartupMonitor:
    """Waits for servers to start, and shows their names in the spinner."""

    def __init__(
        self, config: BusConfig, spinner: "Spinner", on_event: Callable[[Event], None] | None = None
    ) -> None:
        self._config = config
        self._spinner = spinner
        self._on_event = on_event
        self._waiting: dict[str, None] = {}
        self._states: dict[str, State] = {}
        self._state_changed = asyncio.Event()

    def handle(self, event: Event) -> None:
        if isinstance(event, StateChanged):
            self._states[event.server] = event.state
            self._state_changed.set()
            if event.state == "connecting":
                self._waiting[event.server] = None
            else:
                self._waiting.pop(event.server, None)
            if self._waiting:
                shown = list(map(self._label, islice(self._waiting, MOST_SHOWN)))
                more = len(self._waiting) - len(shown)
                names = ", ".join(shown) + (f" and {more} more" if more else "")
                self._spinner.set_text(one_line(f"starting {names}"))
        if isinstance(event, Logged):
            log_server_message(event)
        if self._on_event is not None:
            self._on_event(event)

    async def wait_until_settled(self, bus: "Toolbus", servers: Collection[str]) -> None:
        """Wait until no server is starting; each has a connect timeout."""
        # Asked for once: with many servers, all states after every change would take longer than the rest.
        states = {alias: status.state for alias, status in bus.servers.items()}
        while any(self._states.get(alias, states[alias]) in STARTING_STATES for alias in servers):
            self._state_changed.clear()
            await self._state_changed.wait()

    def _label(self, alias: str) -> str:
        from toolbus.connect.opening.diagnostics import DOWNLOADERS

        command = Path(self._config.servers[alias].command or "").stem
        return f"{alias} ({command} may be downloading)" if command in DOWNLOADERS else alias
