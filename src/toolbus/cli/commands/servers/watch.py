"""`toolbus watch`: keep servers running and show events until Ctrl-C.

On a terminal it draws a live table; otherwise it prints one line per event, with `--json` one document
per line. It reloads the config when the file changes.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from toolbus.cli.commands.servers.watch_sign_in import SignInKey
from toolbus.cli.listing_cache import save_listings
from toolbus.cli.options import Settings
from toolbus.cli.output.event_lines import event_line, timed_line
from toolbus.cli.output.headline import STATE_STYLES
from toolbus.cli.output.screen import Screen, escaped_json, one_line
from toolbus.cli.session import async_command, load_trusted_config, selected_servers, starting_only
from toolbus.cli.sign_in import tokens_of
from toolbus.cli.suggested import suggested
from toolbus.config import BusConfig
from toolbus.core.operation.events import Event, ListChanged
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import Health
from toolbus.gateway.serve.follow import file_stamps, read_again, stamps_at_start

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.state.tokens.tokens import Tokens

POLL_SECONDS = 1.0
"""Interval for checking the config file and the servers' health."""
MAX_LINES = 12
"""How many events are shown below the table."""


@async_command
async def run(settings: Settings, servers: Sequence[str]) -> int:
    """Watch these servers, by default all."""
    began = time.time_ns()
    screen, config = Screen(settings), load_trusted_config(settings)
    selected = selected_servers(config, servers)
    view = _EventView(screen)
    with screen.spinner("starting " + ", ".join(selected)):
        from toolbus.bus.toolbus import Toolbus
    # Servers are lazy and connected one by one: `start` and `reload` would wait for the slowest.
    tokens = tokens_of(config)
    async with (
        Toolbus(starting_only(config, (), tokens), on_event=view.on_event) as bus,
        asyncio.TaskGroup() as connecting,
    ):
        follower = _ConfigFollower(bus, view, servers, connecting, config, tokens)
        try:
            with view.live(bus), _sign_in_key(screen, view, follower, connecting):
                await follower.follow(began)
        finally:
            save_listings(follower.config, bus)
    raise AssertionError("ends by a signal only")


def _sign_in_key(
    screen: Screen, view: "_EventView", follower: "_ConfigFollower", tasks: asyncio.TaskGroup
) -> AbstractContextManager[object]:
    if not view.is_live:
        return nullcontext()
    key = SignInKey(screen, follower.bus, view, lambda: (follower.config, follower.tokens), tasks)
    view.offer = lambda: key.offer
    return key


class _ConfigFollower:
    """Reloads the bus when its config file changes."""

    def __init__(
        self,
        bus: "Toolbus",
        view: "_EventView",
        servers: Sequence[str],
        connecting: asyncio.TaskGroup,
        config: BusConfig,
        tokens: "Tokens",
    ) -> None:
        self.bus = bus
        self._view = view
        self._servers = servers
        self._connecting = connecting
        self.config = config
        """The current config."""
        self.tokens = tokens
        """Its token store, which may be only in memory."""

    async def follow(self, began: int) -> None:
        """Poll the file and the servers' health forever."""
        config = self.config
        seen = stamps_at_start(config, began)
        self._connect(self._servers or config.servers)
        while True:
            self._view.health = await self.bus.health()
            await asyncio.sleep(POLL_SECONDS)
            if (now := file_stamps(self.config)) != seen:
                await self._reload()
                # The state before the reload, so that a write during it is noticed.
                seen = {file: now.get(file, stamp) for file, stamp in file_stamps(self.config).items()}

    async def _reload(self) -> None:
        """Reload the file, unless it is invalid."""
        config, file = self.config, Path(self.config.file or "")
        try:
            fresh = read_again(config)
            tokens = self.tokens if fresh.tokens == config.tokens else tokens_of(fresh)
            await self.bus.reload(starting_only(fresh, (), tokens))
        except ToolbusError as error:
            self._view.add_line("config", f"not reloaded: {str(error).removeprefix(f'{file}: ')}", "red")
            return
        self.config, self.tokens = fresh, tokens
        self._view.add_line("config", f"reloaded {file.name}")
        # Idle: its launch was held, and is approved now.
        states = self.bus.servers
        changed = [
            alias
            for alias, server in fresh.servers.items()
            if config.servers.get(alias) != server or states[alias].state == "idle"
        ]
        self._connect([alias for alias in changed if not self._servers or alias in self._servers])

    def _connect(self, servers: Iterable[str]) -> None:
        for alias in servers:
            self._connecting.create_task(_connect_server(self.bus, alias))


async def _connect_server(bus: "Toolbus", alias: str) -> None:
    with suppress(ToolbusError):  # the server's state shows it
        await bus.connect(alias)


class _EventView:
    """Shows events, as a live table or line by line."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lines: deque[Text] = deque(maxlen=MAX_LINES)
        self.is_live = screen.out.is_terminal and not screen.as_json
        self._live: Live | None = None
        self.offer: Callable[[], str] = str
        """What the user can do, shown below the table."""
        self.health: dict[str, Health] = {}

    def live(self, bus: "Toolbus") -> AbstractContextManager[object]:
        """The live table, if stdout is a terminal."""
        if not self.is_live:
            return nullcontext()
        self._live = Live(
            console=self._screen.out, refresh_per_second=4, get_renderable=lambda: self.render(bus)
        )
        return self._live

    @contextmanager
    def paused(self) -> Generator[None]:
        """Stop drawing the table until the block ends."""
        assert self._live is not None, "only a live table is paused"
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def on_event(self, event: Event) -> None:
        if self._screen.as_json:
            value = {"event": type(event).__name__, **asdict(event)}
            print(escaped_json(value), flush=True)
        elif not isinstance(event, ListChanged):  # what changed is an event of its own
            self.add_line(*event_line(event), at=event.at)

    def add_line(self, who: str, what: str, style: str = "", at: float | None = None) -> None:
        """Show one event."""
        line = timed_line(who, what, style, at)
        self._lines.append(line)
        if not self.is_live:
            self._screen.print(line)

    def render(self, bus: "Toolbus") -> Group:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("server", "state", "protocol", "tools", "restarts", "latency", "error"):
            table.add_column(name, no_wrap=name != "error", overflow="ellipsis")
        for alias, status in bus.servers.items():
            latency = self.health[alias].latency_ms if alias in self.health else None
            table.add_row(
                Text(alias, style="bold"),
                Text(status.state, style=STATE_STYLES.get(status.state, "")),
                f"{status.protocol} ({status.era})" if status.protocol else "",
                str(status.tools),
                str(status.restarts),
                "" if latency is None else f"{latency:.0f} ms",
                Text(
                    one_line(suggested((status.error or "").removeprefix(f"server {alias!r}: "))), style="red"
                ),
            )
        width = self._screen.out.width
        lines = [line.copy() for line in self._lines]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Group(table, Text(), *lines, Text(f"{self.offer()}Ctrl-C to quit", style="dim"))
