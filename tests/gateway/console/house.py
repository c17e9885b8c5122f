"""A console on which every page shows something of a server with markup in every field."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.gateway.console.opening import Opened, console_over
from tests.gateway.console.test_browser_servers import wild
from tests.gateway.console.wild import HOSTILE
from tests.inside.config import Serve, ServeAuth, ServeView
from tests.inside.console import BY_PATH, ConsoleKeys
from tests.inside.gateway import file_keys
from tests.lock.place import OFFER, READ, WRITE, Place
from tests.patience import until
from toolbus import ConnectionLost

ALIAS = f"wild {HOSTILE}"
TOO_WIDE = """document.scrollingElement.scrollWidth <= innerWidth ? null : [...document.querySelectorAll('*')]
  .filter((one) => one.getBoundingClientRect().right > innerWidth).slice(0, 9)
  .map((one) => one.outerHTML.slice(0, 99))"""


def paths(opened: Opened) -> list[str]:
    """Every page of the console, with what a page of one thing needs."""
    ended = [one.id for one in opened.console.calls.ended]
    given: dict[str, dict[str, Any]] = {
        "tools": {"tool": "x_kinds"},
        "server": {"name": ALIAS},
        "edit-server": {"name": ALIAS},
        "call": {"id": ended[0] if ended else ""},
        "search": {"words": "x"},
        "approve": {"server": "files", "kind": "tool", "name": "read"},
        "switch": {"server": "files", "tool": "read"},
    }
    return [
        f"{path}?{urlencode(given[path])}" if path in given else path
        for path, page in BY_PATH.items()
        if page.is_there(opened.console)
    ]


@asynccontextmanager
async def full_house(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Opened]:
    """A console on which every page shows something of a server with markup in every field."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    tool: dict[str, Any] = {
        "name": HOSTILE,
        "title": HOSTILE,
        "description": HOSTILE,
        "inputSchema": {"type": "object", "properties": {HOSTILE: {"description": HOSTILE}}},
    }
    read = {**READ, "title": HOSTILE, "description": f"Read {HOSTILE} a file."}
    place = Place(folder / "place", {"audit": "audit.jsonl"})
    place.settings["policy"] = [{"do": "ask", "tools": "*/refuse", "reason": HOSTILE}]
    place.more[ALIAS] = wild(prefix="x", trust_annotations=True)
    place.configure()
    place.approve()
    place.offer({**OFFER, "tools": [read, WRITE, tool], "instructions": HOSTILE})
    async with console_over(place.config, Serve()) as opened:
        stored = file_keys(place.config)
        stored.add(HOSTILE, views=(HOSTILE,), user=HOSTILE)
        serve = Serve(auth=ServeAuth(keys=True), views={"default": ServeView()})
        opened.console.keys = ConsoleKeys(stored=stored, serve=serve)
        await until(
            lambda: opened.bus.servers[ALIAS].state == "ready" and ALIAS in opened.console.held.servers()
        )
        for one in (await opened.console.held.load())[ALIAS].parts:
            await opened.console.held.approve(ALIAS, one.part, one.seal, confirmed=True)
        await opened.console.use_approved()
        await until(lambda: "x_kinds" in opened.bus.catalog and len(opened.bus.held) >= 3)
        yield opened


async def use(opened: Opened) -> list["asyncio.Task[Any]"]:
    """Have the server ask, fail, log and die; returns the tasks that wait for answers."""
    bus = opened.bus
    await bus.call("x_kinds", {"words": HOSTILE, "size": HOSTILE})
    assert (await bus.call("x_fail", {})).is_error
    with pytest.raises(ConnectionLost):
        await bus.call("x_die", {})
    await until(lambda: bus.servers[ALIAS].state == "ready")
    arguments = {"words": HOSTILE, "size": "small"}
    opened.console.trials.call("x_kinds", arguments, {}, "console-test")
    waiting = [asyncio.create_task(bus.call(name, {})) for name in ("x_ask", "x_refuse", "x_slow")]
    await until(lambda: len(opened.console.board.waiting) == 2)
    return waiting
