"""A console on a real socket, over a real bus, and a browser without a screen: cookies, forms, streams."""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import httpx2

from tests.gateway.front import Events
from tests.inside.config import Serve
from tests.inside.console import Console, ConsoleApp, ConsoleEntry, open_sandbox
from tests.inside.core import Interactions, QuestionRouter, QuestionRouting
from tests.inside.gateway import HttpLimits, HttpServer, StandaloneConsole, listening_socket
from tests.patience import PATIENCE
from toolbus import Toolbus


@dataclass
class Opened:
    """A console that is served."""

    url: str
    """Without a slash at its end: `http://127.0.0.1:PORT/console`."""
    port: int
    bus: Toolbus
    console: Console
    app: ConsoleApp
    http: httpx2.AsyncClient
    """Follows no redirects, and keeps cookies."""
    home: str = ""
    """The beginning of its pages' URLs once it has entered: `http://127.0.0.1:PORT/console/SECRET`."""

    def __post_init__(self) -> None:
        self.home = f"{self.url}/nobody"

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/console")

    async def enter(self) -> None:
        """Exchange a token for a session, as a browser does."""
        token = self.app.entry.new_token(self.app.entry.secret)
        assert token is not None
        answered = await self.http.get(f"{self.url}?token={token}")
        assert answered.status_code == 303
        self.home = home_of(self.url, answered.headers["location"])

    async def page(self, path: str) -> str:
        """The markup of a page."""
        answered = await self.http.get(f"{self.home}/{path}")
        assert answered.status_code == 200, answered.text
        return answered.text

    async def post(self, path: str, form: Mapping[str, Any], **headers: str) -> httpx2.Response:
        """Send a form, as one of our pages does; `headers` replace those that it would send."""
        kind = "application/x-www-form-urlencoded"  # also of a form without fields
        sent = {"origin": self.origin, "content-type": kind, **headers}
        kept = {name: value for name, value in sent.items() if value}
        return await self.http.post(f"{self.home}/{path}", data=dict(form), headers=kept)

    @asynccontextmanager
    async def stream(self, page: str) -> AsyncGenerator["Stream"]:
        """The event stream of a page."""
        async with self.http.stream("GET", f"{self.home}/events/{page}") as response:
            assert response.status_code == 200
            yield Stream(response)


def home_of(url: str, location: str) -> str:
    """The beginning of a session's URLs; `location` is where a browser that enters is sent."""
    return urljoin(url, location).rpartition("/")[0]


class Stream:
    """The updates of an open page."""

    def __init__(self, response: httpx2.Response) -> None:
        self.headers = response.headers
        self._events = Events(response)
        self.parts: dict[str, str] = {}
        """The last markup of each element; of a list, its rows."""
        self.rows: list[dict[str, Any]] = []
        """Rows that were added to lists or removed."""

    async def next(self) -> str | None:
        """The id of the element that changes next; None at the end of the stream."""
        while fields := await self._events.next():
            change = json.loads(fields.get("data", "null"))
            if fields.get("event") == "replace":
                self.parts[change["id"]] = change["html"]
                return change["id"]
            if fields.get("event") == "rows":
                self.rows.append(change)
                added = [html for html, _ in change["added"]]
                self.parts[change["id"]] = "".join([*added, *change["changed"]])
                return change["id"]
        return None

    async def until(self, true: Callable[[str], bool]) -> str:
        """Read until the markup of an element is as wanted, and return it."""
        async with asyncio.timeout(PATIENCE):
            while (name := await self.next()) is not None:
                if true(self.parts[name]):
                    return self.parts[name]
        raise AssertionError("the stream has ended")


@asynccontextmanager
async def console_over(
    config: Any,
    serve: Serve | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    limits: HttpLimits | None = None,
    board: QuestionRouter | None = None,
    **bus_options: Any,
) -> AsyncGenerator[Opened]:
    """The console of a bus that is started, on a free port of this machine."""
    board = board or QuestionRouter()
    interactions = board.interactions(Interactions(_routing=QuestionRouting(forwards=True)))
    async with Toolbus(config, interactions=interactions, **bus_options) as bus:
        console = Console(bus, board)
        app = ConsoleApp(console, serve or Serve(), ConsoleEntry(clock))
        server, sock = HttpServer(StandaloneConsole(app, limits)), listening_socket("127.0.0.1", 0)
        port = sock.getsockname()[1]
        await server.start(sock)
        try:
            other = listening_socket("127.0.0.1", 0)
            async with (
                open_sandbox(console.apps, other) as app.sandbox,
                httpx2.AsyncClient(timeout=PATIENCE) as http,
            ):
                yield Opened(f"http://127.0.0.1:{port}/console", port, bus, console, app, http)
        finally:
            app.drain()
            await server.close()
            sock.close()
            await console.close()


class Markup(HTMLParser):
    """The elements and the text of a page, as a browser would read them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.text += " "  # words of two elements are two words

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each element of that name."""
        return [attributes for name, attributes in self.elements if name == tag]


def plain(markup: str) -> str:
    """The text of a piece of markup, on one line."""
    return re.sub(r"\s+", " ", Markup(markup).text).strip()
