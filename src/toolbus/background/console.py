"""The console of a background bus: a listener of its own, which only this machine reaches."""

from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager

from toolbus.bus.toolbus import Toolbus
from toolbus.cli.console_runs import console_runs
from toolbus.cli.output.serve_log import ServeLog
from toolbus.config.settings.serve import Serve
from toolbus.console.announcement import Announcement, announced
from toolbus.console.app import ConsoleApp
from toolbus.console.console import Console
from toolbus.core.ask.question_router import QuestionRouter
from toolbus.gateway.http.limits import HttpLimits, Refusals
from toolbus.gateway.http.request import CONSOLE, HttpRequest, answer
from toolbus.gateway.http.run import CannotListen, HttpServer, listening_socket
from toolbus.gateway.metrics import Metrics

HOST = "127.0.0.1"


@asynccontextmanager
async def open_console(
    bus: Toolbus, board: QuestionRouter, config: str, log: ServeLog
) -> AsyncGenerator[str | None]:
    """Serve the console of a bus that has started, and give its URL; None if that is impossible.

    `config` is the path of the config, by which `toolbus console` finds it.
    """
    try:
        sock = listening_socket(HOST, 0)
    except CannotListen as error:
        log.add_line("up", f"there is no console: {error}", "yellow")
        yield None
        return
    url = f"http://{HOST}:{sock.getsockname()[1]}{CONSOLE}"
    console = Console(bus, board)
    app = ConsoleApp(console, Serve())
    server = HttpServer(StandaloneConsole(app))
    try:
        await server.start(sock)
        with ExitStack() as stack:
            found = Announcement(url=url, public_url=url, secret=app.entry.secret, config=config)
            try:
                stack.enter_context(announced(found))
            except OSError as error:
                reason = error.strerror or type(error).__name__
                log.add_line("up", f"'toolbus console' will not find this bus: {reason}", "yellow")
            async with console_runs(console, log):
                yield url
    finally:
        app.drain()
        await server.close()
        sock.close()
        await console.close()


class StandaloneConsole:
    """A console alone; for this machine."""

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
