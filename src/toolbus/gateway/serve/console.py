"""The console of a service: its pages, its durable runs, and how `toolbus console` finds it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from typing import Literal

from toolbus.bus.toolbus import Toolbus
from toolbus.config.settings.serve import Serve
from toolbus.console.announcement import Announcement, announced
from toolbus.console.app import ConsoleApp
from toolbus.console.apps.sandbox import open_sandbox
from toolbus.console.console import Console
from toolbus.core.ask.question_router import QuestionRouter
from toolbus.gateway.http.limits import HttpLimits, Refusals
from toolbus.gateway.http.request import CONSOLE, HttpRequest, answer
from toolbus.gateway.http.run import HttpServer, listening_socket
from toolbus.gateway.metrics import Metrics
from toolbus.gateway.serve.program import ServeProgram

HOST = "127.0.0.1"
SERVICES = {"serve": "gateway", "up": "bus"}
"""The service that each command runs, as its messages call it."""


@asynccontextmanager
async def open_console(
    app: ConsoleApp,
    program: ServeProgram,
    announcement: Callable[..., Announcement],
    command: Literal["serve", "up"],
) -> AsyncGenerator[None]:
    """Let `toolbus console` find a console, which shows durable runs, until the block ends.

    `announcement` takes the secret for its tokens.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(announced(announcement(secret=app.entry.secret)))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            problem = f"'toolbus console' will not find this {SERVICES[command]}: {reason}"
            program.report.add_line(command, problem, "yellow")
        async with program.console_runs(app.console):
            yield


@asynccontextmanager
async def standalone_console(
    bus: Toolbus,
    board: QuestionRouter,
    config: str,
    program: ServeProgram,
    config_problem: Callable[[], str | None],
) -> AsyncGenerator[str]:
    """Serve the console of a bus to this machine alone, and give its URL; raises `CannotListen`.

    `config` is the path of the config, by which `toolbus console` finds it.
    """
    sock = listening_socket(HOST, 0)
    url = f"http://{HOST}:{sock.getsockname()[1]}{CONSOLE}"
    console = Console(bus, board)
    console.config_problem = config_problem
    app = ConsoleApp(console, Serve())
    server = HttpServer(StandaloneConsole(app))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(console.close)
        stack.callback(sock.close)
        stack.push_async_callback(server.close)
        stack.callback(app.drain)
        await server.start(sock)
        app.sandbox = await stack.enter_async_context(open_sandbox(console.apps, listening_socket(HOST, 0)))
        found = partial(Announcement, url=url, public_url=url, config=config)
        await stack.enter_async_context(open_console(app, program, found, "up"))
        yield url


class StandaloneConsole:
    """An HTTP application with a console and nothing else."""

    probes: frozenset[str] = frozenset()

    def __init__(self, console: ConsoleApp, limits: HttpLimits | None = None) -> None:
        self._console = console
        self.limits = limits or HttpLimits()
        self.refusals = Refusals(Metrics())
        self.connections: Callable[[], int] = lambda: 0
        self.in_flight = 0

    async def serve(self, http: HttpRequest) -> None:
        """Answer one request."""
        path = http.facts.path
        is_here = path == CONSOLE or path.startswith(f"{CONSOLE}/")
        await answer(http, self._console.serve(http) if is_here else http.respond(404))

    async def idle(self) -> None:
        """There is nothing to wait for: actions are short, and streams end."""

    def tick(self) -> None:
        """Nothing is due."""

    def drain(self) -> None:
        """End the streams."""
        self._console.drain()
