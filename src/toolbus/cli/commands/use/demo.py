"""`toolbus demo`: runs four bundled servers and a broken one, as real processes.

Only the agent's model at the end is scripted; every other line comes from the bus or a tool.
"""

import asyncio
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.commands.use.tools import print_server, servers_json
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen, one_line, visible
from toolbus.cli.session import open_bus
from toolbus.config import BusConfig, load_config
from toolbus.config.location import is_list
from toolbus.core.operation.events import CatalogChanged, Event, StateChanged
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ExtraMissing, ToolbusError
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

TIMEOUT = 120.0
"""Time limit for each step of the demo, in seconds."""
POEM = "The rain\nfalls on the roof\nand on the road.\n"


@command
async def demo(
    own: Invocation,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the demo's files in this folder.")
    ] = None,
) -> CommandResult:
    """Run a demo on bundled servers; needs no API key or network."""
    screen = own.screen
    async with AsyncExitStack() as stack:
        folder = out or Path(stack.enter_context(TemporaryDirectory(prefix="toolbus-demo-")))
        (folder / "files").mkdir(parents=True, exist_ok=True)
        (folder / "files" / "rain.txt").write_text(POEM, encoding="utf-8")
        with screen.spinner("starting two servers over HTTP"):
            worker, pictures = await asyncio.gather(
                stack.enter_async_context(_web_server("worker")),
                stack.enter_async_context(_web_server("pictures")),
            )
        config = _config(folder, worker.url, pictures.url)
        presenter = _Presenter(screen)
        bus = await stack.enter_async_context(open_bus(screen, config, config.servers, presenter.on_event))
        presenter.print_servers(bus)
        await _show_calls(presenter, bus, out)
        await _show_new_tool(presenter, bus)
        await _show_crash(presenter, bus, worker)
        await _show_errors(presenter, bus)
        presenter.print_title("An agent on the same servers; a script stands in for the model")
        presenter.report["calls"] += await run_agent(screen, bus)
        presenter.quiet = True
    me = "toolbus" if shutil.which("toolbus") else sys.argv[0]
    kept = f"are in {out}" if out else "were removed (keep them with --out DIR)"

    def lines() -> None:
        screen.summary((f"\nAll servers are stopped; their files {kept}", "dim"))
        screen.summary((f"Next: {me} init writes a config, {me} import reads an editor's.", "bold"))

    return CommandResult(presenter.report, lines)


def _config(folder: Path, worker: str, pictures: str) -> BusConfig:
    """Both transports, both eras, and one server that cannot start."""

    def module(name: str, *args: str) -> dict[str, JSON]:
        program = {"command": sys.executable, "args": ["-m", f"toolbus.demo.{name}", *args]}
        return {**program, "trust_annotations": True}  # it ships with toolbus

    return load_config(
        {
            "servers": {
                "notes": {**module("notes", "--db", str(folder / "notes.db")), "era": "legacy"},
                "files": module("files", str(folder / "files")),
                "worker": {"url": worker, "trust_annotations": True},
                "pictures": {"url": pictures, "era": "legacy", "trust_annotations": True},
                "broken": {"command": "no-such-program"},
            },
            "timeouts": {"reconnect": TIMEOUT},
        }
    )


async def _show_calls(presenter: "_Presenter", bus: "Toolbus", out: Path | None) -> None:
    presenter.print_title("Calls to different servers")
    await presenter.call(bus, "notes_add", {"text": "buy tea", "tags": ["shop", "soon"]})
    await presenter.call(bus, "notes_search", {"words": "tea"})
    await presenter.call(bus, "files_read", {"path": "rain.txt"})
    await presenter.call(bus, "pictures_plot", {"values": [3, 1, 4, 1, 5, 9, 2, 6]}, out=out)
    presenter.print_title("A slow tool reports its progress")
    await presenter.call(bus, "worker_count_words", {"seconds": 2})


async def _show_new_tool(presenter: "_Presenter", bus: "Toolbus") -> None:
    presenter.print_title("A server adds a tool at runtime")
    before = presenter.catalog_changes
    await presenter.call(bus, "notes_open_archive", {})
    await presenter.wait_until(lambda: presenter.catalog_changes > before)
    await presenter.call(bus, "notes_archive", {"before": "2000-01-01"})


async def _show_crash(presenter: "_Presenter", bus: "Toolbus", worker: "_WebServer") -> None:
    presenter.print_title("A server is killed; a call waits until it is back")
    await worker.kill()
    await asyncio.gather(presenter.call(bus, "worker_divide", {"a": 42, "b": 6}), worker.start())
    presenter.print_event(f"worker: back after {counted(bus.servers['worker'].restarts, 'restart')}")


async def _show_errors(presenter: "_Presenter", bus: "Toolbus") -> None:
    presenter.print_title("Errors say what to do")
    await presenter.call(bus, "worker_divide", {"a": 1, "b": 0})
    await presenter.call(bus, "notes_serch", {"words": "tea"})


class _Presenter:
    """Prints what happens, and collects it for `--json`."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.quiet = True
        self._changed = asyncio.Event()
        self.catalog_changes = 0
        self.report: dict[str, JSON] = {"servers": {}, "calls": [], "events": []}

    def on_event(self, event: Event) -> None:
        match event:
            case StateChanged() if event.state != event.previous:
                line = f"{event.server}: {event.previous} -> {event.state}"
            case CatalogChanged():
                self.catalog_changes += 1
                marked = (("+", event.added), ("-", event.removed), ("~", event.changed))
                line = "catalog: " + " ".join(f"{sign}{name}" for sign, names in marked for name in names)
            case _:
                return
        self.report["events"].append(line)
        # The table shows the states at the start.
        if not self.quiet:
            self.print_event(line)
        self._changed.set()

    def print_servers(self, bus: "Toolbus") -> None:
        self.quiet = False
        self.report["servers"] = servers_json(bus.servers)
        self.print_title(
            "Five servers in both eras of MCP: two over stdio, two over HTTP (worker, pictures), one broken"
        )
        for alias, status in bus.servers.items():
            print_server(self._screen, alias, status, [s for s in bus.catalog if s.origin.server == alias])

    def print_title(self, text: str) -> None:
        self._screen.summary((f"\n{text}", "bold"))

    def print_event(self, text: str) -> None:
        self._screen.line((f"  {visible(text)}", "magenta"))

    async def call(
        self, bus: "Toolbus", name: str, arguments: Mapping[str, JSON], out: Path | None = None
    ) -> None:
        """Call a tool; print the equivalent command and the result."""
        self._screen.line((f"$ toolbus call {name} {_as_typed(arguments)}".rstrip(), "cyan"))
        began, steps = time.perf_counter(), 0
        try:
            with self._screen.spinner(name) as spinner:

                def progressed(done: float, total: float | None, message: str | None) -> None:
                    nonlocal steps
                    steps += 1
                    spinner.set_progress(done, total)
                    spinner.set_text(one_line(message or name))

                result = await bus.call(name, arguments, timeout=TIMEOUT, on_progress=progressed)
        except ToolbusError as error:
            self._screen.line((visible(str(error)), "red"))
            self.report["calls"].append({"name": name, "error": str(error)})
            return
        files: results.SavedFiles = {} if out is None else results.save_blobs(result, out, name)
        results.print_result(self._screen, result, files)
        if steps:
            self.print_event(f"progress reported {steps} times in {time.perf_counter() - began:.1f} s")
        self.report["calls"].append(
            {
                "name": name,
                "is_error": result.is_error,
                "text": result.text,
                "content": results.content_json(result, files),
                "progress": steps,
            }
        )

    async def wait_until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not happened():
                self._changed.clear()
                await self._changed.wait()


def _as_typed(arguments: Mapping[str, JSON]) -> str:
    """The arguments as typed on a command line."""
    shown = {key: ",".join(map(str, v)) if is_list(v) else str(v) for key, v in arguments.items()}
    return " ".join(shlex.quote(f"{key}={text}") for key, text in shown.items())


class _WebServer:
    """A bundled server over streamable HTTP, in its own process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._port = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    async def start(self) -> None:
        """Start it, and wait until it listens; a restart uses the same port."""
        command: Sequence[str] = (
            sys.executable,
            "-m",
            f"toolbus.demo.{self._name}",
            "--http",
            str(self._port),
        )
        self._process = process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,  # the server exits when this closes, even if we are killed
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C must reach only us; we stop the server
        )
        assert process.stdout is not None
        async with asyncio.timeout(TIMEOUT):
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


AGENT_TIMEOUT = 30.0
"""Time limit for the agent, in seconds."""
PROMPT = "What do I have to buy, and how does rain.txt begin?"


async def run_agent(screen: Screen, bus: "Toolbus") -> list[JSON]:
    """Run the agent and print its steps; returns its calls. Prints a hint if pydantic-ai is missing."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    try:
        with screen.spinner("loading the agent"):
            from toolbus.agent import Agent, ToolCalled, ToolReturned
            from toolbus.testing import ScriptedModel, ToolCall
    except ExtraMissing:
        screen.line(('  skipped: it needs pydantic-ai; pip install "toolbus[agent]"', "yellow"))
        return []
    from toolbus.cli.chat.view import call_summary

    search = ToolCall("notes_search", {"words": "buy", "limit": 1})
    model = ScriptedModel([search, ToolCall("files_read", {"path": "rain.txt"}), _answer])
    screen.line(f"you: {PROMPT}")
    calls: list[JSON] = []
    async with asyncio.timeout(AGENT_TIMEOUT), Agent(model, tools=[bus]) as agent:
        run = agent.send(PROMPT)
        async for event in run:
            if isinstance(event, ToolCalled):
                screen.line((f"  {call_summary(event.name, event.arguments)}", "cyan"))
            elif isinstance(event, ToolReturned):
                content = [{"type": "text", "text": event.text}]
                facts = {"name": event.name, "is_error": event.is_error, "text": event.text}
                calls.append({**facts, "content": content, "progress": 0})
        screen.line(f"agent: {await run.final}")
    return calls


def _answer(results: list[str]) -> str:
    """The answer that the scripted model composes from the tool results."""
    found, poem = results
    return f"Your note says {json.loads(found)['notes'][0]['text']!r}. The file begins {one_line(poem)!r}."
