"""The servers that `toolbus watch` keeps running, and its view of their events.

On a terminal it draws a live table; otherwise it prints one line per event, with `--json` one document
per line. It reloads the config when the file changes.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from toolbus.bus.toolbus import Toolbus
from toolbus.cli.input.keys import keys_call
from toolbus.cli.listing_cache import save_listings
from toolbus.cli.options import suggested
from toolbus.cli.output.event_lines import event_line, timed_line
from toolbus.cli.output.headline import STATE_STYLES
from toolbus.cli.output.screen import Screen, one_line
from toolbus.cli.session import starting_only
from toolbus.cli.sign_in import (
    LoginOptions,
    LoginPrompt,
    connect_signed_in,
    sign_in,
    signed_in_line,
    tokens_after,
    tokens_of,
    waiting_for_sign_in,
)
from toolbus.config import BusConfig
from toolbus.core.operation.events import Event, ListChanged
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import Health
from toolbus.gateway.serve.follow import ConfigFollower
from toolbus.gateway.serve.signals import Stop, run_until
from toolbus.state.stderr_log import kept_stderr

POLL_SECONDS = 1.0
"""Interval for checking the servers' health."""
KEY = "l"
"""The key that starts a sign-in."""
MAX_LINES = 12
"""The maximum number of events below the table."""


class ServerWatch:
    """The bus of the watched servers, which follows its config."""

    def __init__(self, screen: Screen, config: BusConfig, servers: Sequence[str], began: int) -> None:
        self._screen = screen
        self._view = view = _EventView(screen)
        self._servers = servers
        self._follower = ConfigFollower(config, began, self._use, view.add_line)
        self._tokens = tokens_of(config)  # which may be only in memory
        self._tasks = asyncio.TaskGroup()
        # Servers are lazy and connected one by one: `start` and `reload` would wait for the slowest.
        self._bus = Toolbus(starting_only(config, (), self._tokens), on_event=view.on_event)
        self._key = _SignInKey(self._bus, lambda alias: self._tasks.create_task(self._sign_in(alias)))

    async def run(self, stop: Stop) -> int:
        """Keep the servers running until a signal comes; returns the exit code for it."""
        with kept_stderr(self._follower.config.file):
            await self._watch(stop)
        return 128 + stop.number

    async def _watch(self, stop: Stop) -> None:
        async with self._bus:
            try:
                with self._view.live(self._bus, self._key):
                    work = (self._connect_servers(), self._follower.follow(), self._follow_health())
                    await run_until([stop.event.wait()], *work)
            finally:
                save_listings(self._follower.config, self._bus)

    async def _connect_servers(self) -> None:
        async with self._tasks:
            self._connect(self._servers or self._follower.config.servers)
            await asyncio.Event().wait()  # cancelled in the end

    async def _follow_health(self) -> None:
        while True:
            self._view.health = await self._bus.health()
            await asyncio.sleep(POLL_SECONDS)

    async def _sign_in(self, alias: str) -> None:
        view, bus = self._view, self._bus
        try:
            with view.paused():
                prompt = LoginPrompt(self._screen)
                login = await sign_in(self._follower.config, alias, self._tokens, prompt, LoginOptions())
            view.add_line(alias, signed_in_line(alias, login, self._tokens.place), "green")
            await connect_signed_in(bus, alias)
        except ToolbusError as error:
            view.add_line(alias, str(error).removeprefix(f"server {alias!r}: "), "red")
        finally:
            self._key.listen()

    async def _use(self, fresh: BusConfig) -> str:
        config = self._follower.config
        tokens = tokens_after(fresh, config, self._tokens)
        await self._bus.reload(starting_only(fresh, (), tokens))
        self._tokens = tokens
        # Idle: its launch was held, and is approved now.
        states = self._bus.servers
        changed = [
            alias
            for alias, server in fresh.servers.items()
            if config.servers.get(alias) != server or states[alias].state == "idle"
        ]
        self._connect([alias for alias in changed if not self._servers or alias in self._servers])
        return f" {Path(fresh.file or '').name}"

    def _connect(self, servers: Iterable[str]) -> None:
        for alias in servers:
            self._tasks.create_task(_connect_server(self._bus, alias))


async def _connect_server(bus: Toolbus, alias: str) -> None:
    with suppress(ToolbusError):  # the server's state shows it
        await bus.connect(alias)


class _SignInKey:
    """A key that signs in to the first server that needs it, while it is entered."""

    def __init__(self, bus: Toolbus, start: Callable[[str], object]) -> None:
        """`start` starts a sign-in, which listens again when it has ended."""
        self._bus = bus
        self._start = start
        self._keys = ExitStack()
        self._has_keys = False

    def __enter__(self) -> "_SignInKey":
        self.listen()
        return self

    def __exit__(self, *error: object) -> None:
        self._keys.close()

    @property
    def offer(self) -> str:
        """The hint below the table; empty if nobody needs to sign in, or there is no keyboard."""
        needed = waiting_for_sign_in(self._bus)
        return f"{KEY}: sign in to {needed[0]}; " if needed and self._has_keys else ""

    def listen(self) -> None:
        """Listen for the key, until it is pressed."""
        self._has_keys = self._keys.enter_context(keys_call(self._press))

    def _press(self, key: str) -> None:
        needed = waiting_for_sign_in(self._bus)
        if key.lower() == KEY and needed and self._has_keys:
            self._has_keys = False
            self._keys.close()  # the prompt reads the keyboard now
            self._start(needed[0])


class _EventView:
    """Shows events, as a live table or line by line."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lines: deque[Text] = deque(maxlen=MAX_LINES)
        self.is_live = screen.out.is_terminal and not screen.as_json
        self._live: Live | None = None
        self.health: dict[str, Health] = {}

    @contextmanager
    def live(self, bus: Toolbus, key: _SignInKey) -> Generator[None]:
        """Draw the table until the block ends, if stdout is a terminal; below it is what the key does."""
        if not self.is_live:
            yield
            return
        self._live = Live(
            console=self._screen.out, refresh_per_second=4, get_renderable=lambda: self.render(bus, key.offer)
        )
        with self._live, key:
            yield

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
            self._screen.json_line({"event": type(event).__name__, **asdict(event)})
        elif not isinstance(event, ListChanged):  # what changed is an event of its own
            self.add_line(*event_line(event), at=event.at)

    def add_line(self, who: str, what: str, style: str = "", at: float | None = None) -> None:
        """Show one event."""
        line = timed_line(who, what, style, at)
        self._lines.append(line)
        if not self.is_live:
            self._screen.print(line)

    def render(self, bus: Toolbus, offer: str) -> Group:
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
        return Group(table, Text(), *lines, Text(f"{offer}Ctrl-C to quit", style="dim"))
