"""A bus for the length of one command: the right servers up, and none left when it is over."""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.cli.completion.listings import remember
from toolbus.cli.options import Settings
from toolbus.cli.output.screen import Screen, escaped_json, one_line
from toolbus.config import BusConfig, find_config, found_config, usable_config
from toolbus.config.find import at_home, named_config
from toolbus.core.errors import ConfigError, ServerNotFound
from toolbus.core.events import Event, Logged, StateChanged
from toolbus.core.interactions import Interactions

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.cli.output.progress import Moving

NOT_YET = ("idle", "connecting")
UNATTENDED = Interactions(declares_elicitation=True)
"""For commands without a person: all declare the same, because some servers list tools by that."""
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
}
logger = logging.getLogger("toolbus.server")


def run(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run the work of a command; a signal ends it, and what it started, in order."""
    return asyncio.run(_ended_by_signals(work()))


async def _ended_by_signals(work: Coroutine[Any, Any, int]) -> int:
    """Ctrl-C is asyncio's own matter; SIGTERM and a closed terminal end the work the same way."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        task.cancel()

    for name in ("SIGTERM", "SIGHUP"):
        with suppress(AttributeError, NotImplementedError):  # Windows has neither
            loop.add_signal_handler(getattr(signal, name), end, int(getattr(signal, name)))
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            return 128 + received[0]
        raise


def configured(settings: Settings) -> BusConfig:
    """The config that `--config` names, or the one that is found, once the user agreed to it."""
    from toolbus.cli.commands.trust import agreeing

    if settings.config is not None:
        return usable_config(settings.config)
    with _no_config_told():
        return found_config(agreeing(settings))


def written(settings: Settings) -> BusConfig:
    """The same, agreed to or not: to look at, not to use."""
    with _no_config_told():
        if named := settings.config or named_config():
            return usable_config(named)
        return at_home(usable_config(find_config()))


@contextmanager
def _no_config_told() -> Generator[None]:
    """Tell the user how to get a config if none is found."""
    try:
        yield
    except ConfigError as error:
        if error.file is not None:
            raise
        folder = str(Path.cwd())
        raise ConfigError(
            f"no config found in {folder!r} or its parents; create one with 'toolbus init', import an "
            "editor's with 'toolbus import', pass one with --config, or try 'toolbus demo'"
        ) from None


def checked(config: BusConfig, servers: Iterable[str]) -> list[str]:
    """The servers meant, by default all; `ServerNotFound` if there is no such server."""
    wanted = list(dict.fromkeys(servers))
    for alias in wanted:
        if alias in config.disabled:
            raise ConfigError(f"disabled; run 'toolbus enable {alias}'", file=config.file, server=alias)
        if alias not in config.servers:
            raise ServerNotFound(alias, list(config.servers))
    if not config.servers:
        raise ConfigError(_nothing_in(config), file=config.file)
    return wanted or list(config.servers)


def _nothing_in(config: BusConfig) -> str:
    if config.disabled:
        return f"all servers are disabled; run 'toolbus enable {config.disabled[0]}'"
    return "no servers configured; add one with 'toolbus add'"


@asynccontextmanager
async def opened(
    screen: Screen,
    config: BusConfig,
    servers: Collection[str],
    on_event: Callable[[Event], None] | None = None,
    interactions: Interactions = UNATTENDED,
    wait: float = 0,
) -> "AsyncGenerator[Toolbus]":
    """A bus on which these servers are up, or still down after `wait` seconds; the others stay idle.

    They stay on the bus all the same: the names of tools do not depend on who was asked for. What was
    listed is remembered at the end.
    """
    with screen.moving("starting " + ", ".join(servers)) as moving:
        # Here, under the spinner: importing the SDK takes longer than many a server.
        from toolbus.bus.toolbus import Toolbus

        starting = _Starting(config, moving, on_event)
        bus = Toolbus(with_only(config, servers), on_event=starting.hear, interactions=interactions)
        try:
            await bus.start()
            await starting.settled(bus, servers)
            if wait > 0:
                moving.say(one_line(f"waiting for {', '.join(servers)}"))
                await bus.wait_ready(list(servers), timeout=wait)
        except BaseException:
            await bus.stop()
            raise
    try:
        yield bus
    finally:
        try:
            remember(config, bus)
        finally:
            await bus.stop()


async def awaken(screen: Screen, bus: "Toolbus", config: BusConfig) -> None:
    """Have the idle servers of the bus up too."""
    idle = [alias for alias, status in bus.servers.items() if status.state == "idle"]
    with screen.moving("starting " + ", ".join(idle)):
        await bus.reload(with_only(config, config.servers))


def with_only(config: BusConfig, servers: Collection[str]) -> BusConfig:
    """The config with all but these servers waiting until they are needed, and none that stops the bus."""
    changed = {
        alias: server.model_copy(update={"lazy": alias not in servers, "required": False})
        for alias, server in config.servers.items()
    }
    return config.model_copy(update={"servers": changed})


def _log(event: Logged) -> None:
    """What a server reports goes into the log, which `-v` shows."""
    text = event.data if isinstance(event.data, str) else escaped_json(event.data)
    source = f" ({event.logger})" if event.logger else ""
    logger.log(LEVELS.get(event.level, logging.ERROR), "server %r%s: %s", event.server, source, text)


class _Starting:
    """Waits for servers, and tells which are being waited for."""

    def __init__(
        self, config: BusConfig, moving: "Moving", on_event: Callable[[Event], None] | None = None
    ) -> None:
        self._config = config
        self._moving = moving
        self._on_event = on_event
        self._waiting: dict[str, None] = {}
        self._turn = asyncio.Event()

    def hear(self, event: Event) -> None:
        if isinstance(event, StateChanged):
            self._turn.set()
            if event.state == "connecting":
                self._waiting[event.server] = None
            else:
                self._waiting.pop(event.server, None)
            if self._waiting:
                self._moving.say(one_line("starting " + ", ".join(map(self._shown, self._waiting))))
        if isinstance(event, Logged):
            _log(event)
        if self._on_event is not None:
            self._on_event(event)

    async def settled(self, bus: "Toolbus", servers: Collection[str]) -> None:
        """Bounded by the connect timeout of each server."""
        while any(bus.servers[alias].state in NOT_YET for alias in servers):
            self._turn.clear()
            await self._turn.wait()

    def _shown(self, alias: str) -> str:
        from toolbus.connect.link import DOWNLOADERS

        command = Path(self._config.servers[alias].command or "").stem
        return f"{alias} ({command} may be downloading)" if command in DOWNLOADERS else alias
