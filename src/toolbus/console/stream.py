"""The event stream of an open page: the parts of it that changed, and nothing that a slow reader missed.

A page is rendered when it is to be sent, never ahead: a reader that does not keep up gets the latest state,
and nothing waits for it in memory.
"""

import asyncio
from collections.abc import Callable

from toolbus.console.html.elements import Element, element
from toolbus.console.html.layout import navigation
from toolbus.console.html.live import LiveElements
from toolbus.console.page import Page, PageRequest
from toolbus.console.pages import PAGES
from toolbus.console.state.console import Console
from toolbus.core.values.records import JSONObject
from toolbus.gateway.http.request import Headers, HttpRequest, encoded
from toolbus.gateway.http.streams import KEEPALIVE, woken

PAUSE = 0.25
"""Seconds between two events of a stream: what changes meanwhile is sent together."""
MOST_STREAMS = 32
"""Open pages that are followed at the same time."""


class Streams:
    """The streams of all open pages."""

    def __init__(self, console: Console, keepalive_seconds: float) -> None:
        self._console = console
        self._keepalive = keepalive_seconds
        self._open: set[asyncio.Event] = set()
        self._is_draining = False

    @property
    def is_full(self) -> bool:
        """Whether one more would be too many."""
        return self._is_draining or len(self._open) >= MOST_STREAMS

    def drain(self) -> None:
        """End all streams."""
        self._is_draining = True
        for wake in self._open:
            wake.set()

    async def serve(
        self,
        http: HttpRequest,
        page: Page,
        request: PageRequest,
        is_admitted: Callable[[], bool],
        headers: Headers,
    ) -> None:
        """Write what changes on the page until the client leaves, or is not admitted any more."""
        wake, elements = asyncio.Event(), LiveElements()
        topics = frozenset(page.topics).union(*(one.topics for one in PAGES if one.count is not None))
        unwatch = self._console.watch(topics, wake.set)
        self._open.add(wake)
        try:
            await http.start_stream(headers)
            while is_admitted() and not self._is_draining:
                wake.clear()
                content = await page.render(self._console, request)
                whole = element("div", navigation(page, self._console), content)
                changes = b"".join(map(_event, elements.changes(whole)))
                await http.write(changes or KEEPALIVE)
                await asyncio.sleep(PAUSE)
                await woken(wake, page.every or self._keepalive)
            await http.end_stream()
        finally:
            unwatch()
            self._open.discard(wake)


def _event(changed: Element) -> bytes:
    replaced: JSONObject = {"id": changed.id, "html": str(changed)}
    return b"event: replace\ndata: %s\n\n" % encoded(replaced)
