"""`toolbus watch`: the servers kept up, and all that happens to them, until Ctrl-C.

On a terminal a table that changes in place; elsewhere a line per event, with `--json` a document per
line. A config file that is saved is taken at once.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from toolbus.cli.commands.tools import STYLES
from toolbus.cli.completion.listings import remember
from toolbus.cli.options import Settings
from toolbus.cli.output.screen import Screen, escaped_json, one_line
from toolbus.cli.session import checked, configured, with_only
from toolbus.cli.session import run as run_async
from toolbus.config import BusConfig, usable_config
from toolbus.config.trust import trusted_config, watched_files
from toolbus.core.errors import ToolbusError
from toolbus.core.events import (
    CallEnded,
    CallStarted,
    CatalogChanged,
    Event,
    InputAnswered,
    InputAsked,
    Logged,
    Progressed,
    ResourceUpdated,
    StateChanged,
    Warned,
)
from toolbus.core.records import Health

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

LOOK_EVERY = 1.0
"""Seconds between two looks at the config file, and at the servers' health."""
LINES = 12
"""How many events the table shows."""


def run(settings: Settings, servers: Sequence[str]) -> int:
    """Watch these servers, by default all."""
    return run_async(lambda: _watched(settings, servers))


async def _watched(settings: Settings, servers: Sequence[str]) -> int:
    began = time.time_ns()
    screen, config = Screen(settings), configured(settings)
    wanted = checked(config, servers)
    view = _View(screen)
    with screen.moving("starting " + ", ".join(wanted)):
        from toolbus.bus.toolbus import Toolbus
    # Every server is lazy and connected here: `start` and `reload` would wait for the slowest one.
    async with (
        Toolbus(with_only(config, ()), on_event=view.hear) as bus,
        asyncio.TaskGroup() as connecting,
    ):
        follower = _Follower(bus, view, servers, connecting, config)
        try:
            with view.live(bus):
                await follower.follow(began)
        finally:
            remember(follower.config, bus)
    raise AssertionError("ends by a signal only")


class _Follower:
    """Keeps a bus in step with its config file."""

    def __init__(
        self,
        bus: "Toolbus",
        view: "_View",
        servers: Sequence[str],
        connecting: asyncio.TaskGroup,
        config: BusConfig,
    ) -> None:
        self._bus = bus
        self._view = view
        self._servers = servers
        self._connecting = connecting
        self.config = config
        """The one that is in force."""

    async def follow(self, began: int) -> None:
        """Look at the file and at the servers now and then; without end."""
        config = self.config
        # A file that was written after we began may have been read before that: it is taken again.
        read = {Path(config.file or ""), *map(Path, config.reviewed or ())}
        seen = {
            file: None if file in read and stamp is not None and stamp[0] >= began else stamp
            for file, stamp in _stamps(config).items()
        }
        self._connect(self._servers or config.servers)
        while True:
            self._view.health = await self._bus.health()
            await asyncio.sleep(LOOK_EVERY)
            if (now := _stamps(self.config)) != seen:
                await self._reload()
                # As they were before it was read: what was written meanwhile is looked at once more.
                seen = {file: now.get(file, stamp) for file, stamp in _stamps(self.config).items()}

    async def _reload(self) -> None:
        """Take the file as it is now, unless it cannot be used."""
        config, file = self.config, Path(self.config.file or "")
        try:
            # One that was only found is taken again only if the user agrees to the change: `toolbus trust`.
            fresh = usable_config(file) if config.reviewed is None else trusted_config(file)
            await self._bus.reload(with_only(fresh, ()))
        except ToolbusError as error:
            self._view.say("config", f"not reloaded: {str(error).removeprefix(f'{file}: ')}", "red")
            return
        self.config = fresh
        self._view.say("config", f"reloaded {file.name}")
        changed = [alias for alias, server in fresh.servers.items() if config.servers.get(alias) != server]
        self._connect([alias for alias in changed if not self._servers or alias in self._servers])

    def _connect(self, servers: Iterable[str]) -> None:
        for alias in servers:
            self._connecting.create_task(_connected(self._bus, alias))


async def _connected(bus: "Toolbus", alias: str) -> None:
    with suppress(ToolbusError):  # its state shows it
        await bus.connect(alias)


def _stamps(config: BusConfig) -> dict[Path, tuple[int, int] | None]:
    """When each file was last written that has a say in what the config is."""
    return {file: _stamp(file) for file in watched_files(config)}


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        return (file.stat().st_mtime_ns, file.stat().st_size)
    except OSError:
        return None  # an editor may write it anew at this very moment


class _View:
    """The last events, and how to show them."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lines: deque[Text] = deque(maxlen=LINES)
        self._live = screen.out.is_terminal and not screen.as_json
        self.health: dict[str, Health] = {}

    def live(self, bus: "Toolbus") -> AbstractContextManager[object]:
        """The table, on a terminal; elsewhere the events are all there is."""
        if not self._live:
            return nullcontext()
        return Live(console=self._screen.out, refresh_per_second=4, get_renderable=lambda: self.drawn(bus))

    def hear(self, event: Event) -> None:
        if self._screen.as_json:
            value = {"event": type(event).__name__, **asdict(event)}
            print(escaped_json(value), flush=True)
        else:
            self.say(*_told(event), at=event.at)

    def say(self, who: str, what: str, style: str = "", at: float | None = None) -> None:
        """One line of what happened."""
        clock = time.strftime("%H:%M:%S", time.localtime(at))
        line = Text.assemble((f"{clock}  {one_line(who):12}  ", "dim"), (one_line(what), style))
        self._lines.append(line)
        if not self._live:
            self._screen.print(line)

    def drawn(self, bus: "Toolbus") -> Group:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("server", "state", "protocol", "tools", "restarts", "latency", "error"):
            table.add_column(name, no_wrap=name != "error", overflow="ellipsis")
        for alias, status in bus.servers.items():
            latency = self.health[alias].latency_ms if alias in self.health else None
            table.add_row(
                Text(alias, style="bold"),
                Text(status.state, style=STYLES.get(status.state, "")),
                f"{status.protocol} ({status.era})" if status.protocol else "",
                str(status.tools),
                str(status.restarts),
                "" if latency is None else f"{latency:.0f} ms",
                Text(one_line((status.error or "").removeprefix(f"server {alias!r}: ")), style="red"),
            )
        width = self._screen.out.width
        lines = [line.copy() for line in self._lines]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Group(table, Text(), *lines, Text("Ctrl-C to quit", style="dim"))


def _told(event: Event) -> tuple[str, str, str]:
    """Who, what, and in which style."""
    match event:
        case StateChanged():
            reason = (
                "" if event.error is None else f": {event.error.removeprefix(f'server {event.server!r}: ')}"
            )
            return event.server, f"{event.previous} -> {event.state}{reason}", STYLES.get(event.state, "")
        case CatalogChanged():
            marked = (("+", event.added), ("-", event.removed), ("~", event.changed))
            return "catalog", " ".join(f"{sign}{name}" for sign, names in marked for name in names), "cyan"
        case CallStarted():
            return event.server or "toolbus", f"call {event.name}", ""
        case CallEnded():
            outcome = event.error or ("tool error" if event.is_error else "done")
            return event.server or "toolbus", f"call {event.name}: {outcome} in {event.elapsed_ms:.0f} ms", ""
        case Progressed():
            total = "" if event.total is None else f"/{event.total:g}"
            return event.name, f"{event.progress:g}{total} {event.message or ''}", "dim"
        case Logged():
            text = event.data if isinstance(event.data, str) else json.dumps(event.data, default=str)
            return event.server, f"{event.level}: {text}", "dim"
        case ResourceUpdated():
            return event.server, f"resource {event.uri} changed", "cyan"
        case InputAsked() | InputAnswered():
            said = f"asks: {event.message}" if isinstance(event, InputAsked) else f"answered: {event.action}"
            return event.server, f"{event.kind} {said}", "yellow"
        case Warned():
            return event.server, f"{event.tool + ': ' if event.tool else ''}{event.message}", "yellow"
        case _:
            assert_never(event)
