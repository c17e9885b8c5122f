"""Responses that do not end well: a connection that is closed too soon, and silence."""

from collections.abc import Callable, Iterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class Broken(Response):
    """A stream that is cut off after its events; without events, no answer at all."""

    def __init__(self, events: Iterator[str] | None, lose_client: Callable[[], None]) -> None:
        super().__init__(media_type="text/event-stream")
        self._events = events
        self._hang_up = lose_client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._events is not None:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for event in self._events:
                await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
        self._hang_up()
        await _gone(receive)


class Silent(Response):
    """No answer until the client goes away, or the server does."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _gone(receive)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
