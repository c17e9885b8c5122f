"""Buses whose users have credentials of their own for the server of tests/servers/personal.py."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from tests import warm
from tests.conftest import SERVERS
from tests.inside.bus import View
from tests.patience import PATIENCE
from toolbus import Toolbus

T = TypeVar("T")


def token_of(name: str, user: str) -> str:
    """The secrets of all users: each token is the name of its owner."""
    return user or "bus"


def web(port: int, era: str, **more: Any) -> dict[str, Any]:
    """The server over HTTP, with a token of each user."""
    url = f"http://127.0.0.1:{port}/mcp"
    return {"url": url, "era": era, "headers": {"Authorization": "Bearer ${TOKEN}"}, **more}


def process(who: str = "${user:-bus}", **more: Any) -> dict[str, Any]:
    """The server as a process, with a variable of each user."""
    command = {"command": warm.python(), "args": [str(SERVERS / "personal.py"), "stdio"]}
    return {**command, "env": {"WHO": who}, **more}


def bus_of(entry: dict[str, Any], **more: Any) -> Toolbus:
    """A bus with that server, `me`."""
    options: dict[str, Any] = {"get_secret": token_of, **more}
    return Toolbus({"servers": {"me": entry}}, **options)


async def text_of(view: View, tool: str, **arguments: Any) -> str:
    """The text of the result of a tool of `me`."""
    return (await view.call(f"me/{tool}", arguments)).text


def heard(view: View, *kinds: type[Any]) -> list[Any]:
    """The events of these kinds from now on, as they come."""
    found: list[Any] = []
    view.on_event(lambda event: found.append(event) if isinstance(event, kinds) else None)
    return found


async def event_of(view: View, kind: type[T], work: Awaitable[object], **facts: object) -> T:
    """The first event of that kind with these facts, after the work was begun."""
    found: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def look(event: object) -> None:
        fits = isinstance(event, kind) and all(getattr(event, name) == fact for name, fact in facts.items())
        if isinstance(event, kind) and fits and not found.done():
            found.set_result(event)

    end = view.on_event(look)
    await work
    async with asyncio.timeout(PATIENCE):
        event = await found
    end()
    return event
