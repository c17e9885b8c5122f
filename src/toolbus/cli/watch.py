"""`toolbus watch`: the servers kept up, and all that happens to them, until Ctrl-C.

On a terminal a table that changes in place; elsewhere a line per event, with `--json` a document per
line. A config file that is saved is taken at once.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from toolbus.cli.options import Settings
from toolbus.cli.screen import Screen, escaped_json, one_line
from toolbus.cli.session import checked, configured, opened, with_only
from toolbus.cli.session import run as run_async
from toolbus.cli.tools import STYLES
from toolbus.config import BusConfig, usable_config
from toolbus.config.trust import trusted_config, watched_files
from toolbus.errors import ToolbusError
from toolbus.events import (
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
from toolbus.records import Health

if TYPE_CHECKING:
    from toolbus.bus import Toolbus

LOOK_EVERY = 1.0
"""Seconds between two looks at the config file, and at the servers' health."""
LINES = 12
"""How many events the table shows."""


def run(settings: Settings, servers: Sequence[str]) -> int:
    """Watch these servers, by default all."""
    return run_async(lambda: _watched(settings, servers))


async def _watched(settings: Settings, servers: Sequence[str]) -> int:
    screen, config = Screen(settings), configured(settings)
    view = _View(screen)
    async with opened(screen, config, checked(config, servers), view.hear) as bus:
        if not screen.out.is_terminal or screen.as_json:
            await _followed(bus, config, view, servers)
        with Live(console=screen.out, refresh_per_second=4, get_renderable=lambda: view.drawn(bus)):
            await _followed(bus, config, view, servers)
    raise AssertionError("ends by a signal only")


async def _followed(bus: "Toolbus", config: BusConfig, view: "_View", servers: Sequence[str]) -> None:
    """Look at the file and at the servers now and then; without end."""
    seen = _stamps(config)
    while True:
        view.health = await bus.health()
        await asyncio.sleep(LOOK_EVERY)
        if (now := _stamps(config)) != seen:
            config = await _reloaded(bus, config, view, servers)
            # As they were before it was read: what was written meanwhile is looked at once more.
            seen = {file: now.get(file, stamp) for file, stamp in _stamps(config).items()}


async def _reloaded(bus: "Toolbus", config: BusConfig, view: "_View", servers: Sequence[str]) -> BusConfig:
    """The config that is in force: the file as it is now, or what it was if that cannot be used."""
    file = Path(config.file or "")
    try:
        # One that was only found is taken again only if the user agrees to the change: `toolbus trust`.
        fresh = usable_config(file) if config.reviewed is None else trusted_config(file)
        await bus.reload(with_only(fresh, servers or fresh.servers))
    except ToolbusError as error:
        view.say("config", f"kept as it was: {str(error).removeprefix(f'{file}: ')}", "red")
        return config
    view.say("config", f"{file.name} was changed and is in force")
    return fresh


def _stamps(config: BusConfig) -> dict[Path, object]:
    """When each file was last written that has a say in what the config is."""
    return {file: _stamp(file) for file in watched_files(config)}


def _stamp(file: Path) -> object:
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
        for name in ("server", "state", "protocol", "tools", "restarts", "answers in", "error"):
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
        return Group(table, Text(), *lines, Text("Ctrl-C ends it", style="dim"))


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
            return event.server, f"call {event.name}", ""
        case CallEnded():
            outcome = event.error or ("the tool says error" if event.is_error else "done")
            return event.server, f"call {event.name}: {outcome} in {event.elapsed_ms:.0f} ms", ""
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
