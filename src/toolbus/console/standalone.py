"""A console on a listener of its own, for a bus without a gateway; `HttpServer` runs it."""

from collections.abc import Callable

from toolbus.console.app import ConsoleApp
from toolbus.gateway.http.limits import Limits, Refusals
from toolbus.gateway.http.request import CONSOLE, HttpRequest, answer
from toolbus.gateway.metrics import Metrics


class StandaloneConsole:
    """A console alone; for this machine."""

    probes: frozenset[str] = frozenset()

    def __init__(self, console: ConsoleApp, limits: Limits | None = None) -> None:
        self._console = console
        self.limits = limits or Limits()
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
