"""`toolbus demo`: four servers that ship with toolbus, and one that is broken, as real processes.

Nothing here is staged but the model of the agent at the end, which says so: every other line is what the
bus reported or a tool answered.
"""

import asyncio
import shlex
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.commands.demo_agent import played
from toolbus.cli.commands.tools import counted, servers_json, show_server
from toolbus.cli.options import Settings
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen, one_line, visible
from toolbus.cli.session import opened
from toolbus.cli.session import run as run_async
from toolbus.config import BusConfig, load_config
from toolbus.config.location import is_list
from toolbus.core.errors import ToolbusError
from toolbus.core.events import CatalogChanged, Event, StateChanged
from toolbus.core.records import JSON

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

PATIENCE = 120.0
"""Seconds that anything in the demo may take."""
POEM = "The rain\nfalls on the roof\nand on the road.\n"


def run(settings: Settings, out: Path | None) -> int:
    """Show it all; what it makes is kept in `out`, or removed at the end."""
    return run_async(lambda: _shown(settings, out))


async def _shown(settings: Settings, out: Path | None) -> int:
    screen = Screen(settings)
    async with AsyncExitStack() as stack:
        folder = out or Path(stack.enter_context(TemporaryDirectory(prefix="toolbus-demo-")))
        (folder / "files").mkdir(parents=True, exist_ok=True)
        (folder / "files" / "rain.txt").write_text(POEM, encoding="utf-8")
        with screen.moving("starting two servers over HTTP"):
            worker, pictures = await asyncio.gather(
                stack.enter_async_context(_web_server("worker")),
                stack.enter_async_context(_web_server("pictures")),
            )
        config = _config(folder, worker.url, pictures.url)
        show = _Show(screen)
        bus = await stack.enter_async_context(opened(screen, config, config.servers, show.hear))
        show.table(bus)
        await _calls(show, bus, out)
        await _a_new_tool(show, bus)
        await _a_crash(show, bus, worker)
        await _mistakes(show, bus)
        show.title("An agent on the same servers; a script stands in for the model")
        show.report["calls"] += await played(screen, bus)
        show.quiet = True
    if screen.as_json:
        screen.json(show.report)
    me = "toolbus" if shutil.which("toolbus") else sys.argv[0]
    kept = f"are in {out}" if out else "were removed (keep them with --out DIR)"
    screen.summary(Text(f"\nAll servers are stopped; their files {kept}", style="dim"))
    screen.summary(Text(f"Next: {me} init writes a config, {me} import reads an editor's.", style="bold"))
    return 0


def _config(folder: Path, worker: str, pictures: str) -> BusConfig:
    """Both transports, both eras, and one server that cannot start."""

    def module(name: str, *args: str) -> dict[str, JSON]:
        return {"command": sys.executable, "args": ["-m", f"toolbus.demo.{name}", *args]}

    return load_config(
        {
            "servers": {
                "notes": {**module("notes", "--db", str(folder / "notes.db")), "era": "legacy"},
                "files": module("files", str(folder / "files")),
                "worker": {"url": worker},
                "pictures": {"url": pictures, "era": "legacy"},
                "broken": {"command": "no-such-program"},
            },
            "timeouts": {"recover": PATIENCE},
        }
    )


async def _calls(show: "_Show", bus: "Toolbus", out: Path | None) -> None:
    show.title("Calls to different servers")
    await show.call(bus, "notes_add", {"text": "buy tea", "tags": ["shop", "soon"]})
    await show.call(bus, "notes_search", {"words": "tea"})
    await show.call(bus, "files_read", {"path": "rain.txt"})
    await show.call(bus, "pictures_plot", {"values": [3, 1, 4, 1, 5, 9, 2, 6]}, out=out)
    show.title("A slow tool reports its progress")
    await show.call(bus, "worker_count_words", {"seconds": 2})


async def _a_new_tool(show: "_Show", bus: "Toolbus") -> None:
    show.title("A server adds a tool at runtime")
    before = show.catalog_changes
    await show.call(bus, "notes_open_archive", {})
    await show.until(lambda: show.catalog_changes > before)
    await show.call(bus, "notes_archive", {"before": "2000-01-01"})


async def _a_crash(show: "_Show", bus: "Toolbus", worker: "_WebServer") -> None:
    show.title("A server is killed; a call waits until it is back")
    await worker.kill()
    await asyncio.gather(show.call(bus, "worker_divide", {"a": 42, "b": 6}), worker.start())
    show.say(f"worker: back after {counted(bus.servers['worker'].restarts, 'restart')}")


async def _mistakes(show: "_Show", bus: "Toolbus") -> None:
    show.title("Errors say what to do")
    await show.call(bus, "worker_divide", {"a": 1, "b": 0})
    await show.call(bus, "notes_serch", {"words": "tea"})


class _Show:
    """Prints what happens, and keeps it for `--json`."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.quiet = True
        self._turn = asyncio.Event()
        self.catalog_changes = 0
        self.report: dict[str, JSON] = {"servers": {}, "calls": [], "events": []}

    def hear(self, event: Event) -> None:
        match event:
            case StateChanged() if event.state != event.previous:
                told = f"{event.server}: {event.previous} -> {event.state}"
            case CatalogChanged():
                self.catalog_changes += 1
                marked = (("+", event.added), ("-", event.removed), ("~", event.changed))
                told = "catalog: " + " ".join(f"{sign}{name}" for sign, names in marked for name in names)
            case _:
                return
        self.report["events"].append(told)
        # The first ones are in the table.
        if not self.quiet:
            self.say(told)
        self._turn.set()

    def table(self, bus: "Toolbus") -> None:
        self.quiet = False
        self.report["servers"] = servers_json(bus.servers)
        self.title(
            "Five servers in both eras of MCP: two over stdio, two over HTTP (worker, pictures), one broken"
        )
        for alias, status in bus.servers.items():
            show_server(self._screen, alias, status, [s for s in bus.catalog if s.origin.server == alias])

    def title(self, text: str) -> None:
        self._screen.summary(Text(f"\n{text}", style="bold"))

    def say(self, text: str) -> None:
        self._screen.print(Text(f"  {visible(text)}", style="magenta"))

    async def call(
        self, bus: "Toolbus", name: str, arguments: Mapping[str, JSON], out: Path | None = None
    ) -> None:
        """Call a tool, and print the command that would do the same, and what came back."""
        self._screen.print(Text(f"$ toolbus call {name} {_typed(arguments)}".rstrip(), style="cyan"))
        began, steps = time.perf_counter(), 0
        try:
            with self._screen.moving(name) as moving:

                def progressed(done: float, total: float | None, message: str | None) -> None:
                    nonlocal steps
                    steps += 1
                    moving.came(done, total)
                    moving.say(one_line(message or name))

                result = await bus.call(name, arguments, timeout=PATIENCE, on_progress=progressed)
        except ToolbusError as error:
            self._screen.print(Text(visible(str(error)), style="red"))
            self.report["calls"].append({"name": name, "error": str(error)})
            return
        files: results.Saved = {} if out is None else results.saved(result, out, name)
        results.show(self._screen, result, files)
        if steps:
            self.say(f"progress reported {steps} times in {time.perf_counter() - began:.1f} s")
        self.report["calls"].append(
            {
                "name": name,
                "is_error": result.is_error,
                "text": result.text,
                "content": results.as_json(result, files),
                "progress": steps,
            }
        )

    async def until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not happened():
                self._turn.clear()
                await self._turn.wait()


def _typed(arguments: Mapping[str, JSON]) -> str:
    """The arguments as one would type them."""
    shown = {key: ",".join(map(str, v)) if is_list(v) else str(v) for key, v in arguments.items()}
    return " ".join(shlex.quote(f"{key}={text}") for key, text in shown.items())


class _WebServer:
    """A server of the package over streamable HTTP, in a process of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._port = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    async def start(self) -> None:
        """Start it, the second time on the same port; returns when it listens."""
        command: Sequence[str] = (
            sys.executable,
            "-m",
            f"toolbus.demo.{self._name}",
            "--http",
            str(self._port),
        )
        self._process = process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,  # it leaves when this ends, even if we are killed
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us: we end it
        )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await process.stdout.readline()).decode()
        self._port = int(line.rpartition(":")[2].partition("/")[0])

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def _web_server(name: str) -> AsyncGenerator[_WebServer]:
    server = _WebServer(name)
    try:
        await server.start()
        yield server
    finally:
        await server.kill()
