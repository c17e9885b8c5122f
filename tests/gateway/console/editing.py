"""A console over a config file that its bus follows, and what a person types into its forms."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests import warm
from tests.gateway.console.opening import Markup, Opened, console_over
from tests.inside.config import Serve, accept, candidate, trusted_config
from tests.inside.gateway import ConfigFollower
from tests.patience import until
from toolbus import BusConfig

PLAIN = str(Path(__file__).parents[2] / "servers" / "plain.py")
START = """# my servers
servers:
  # the first one
  files:
    command: {python}
    args: [{plain}, stay]
    env: {{LEVEL: low}}  # quiet
"""


def start_text() -> str:
    """A config with comments."""
    return START.format(python=warm.python(), plain=PLAIN)


def command_line(*behaviors: str) -> str:
    """The command of the plain server, as a person types it."""
    return " ".join([warm.python(), PLAIN, *behaviors])


def _ignore(label: str, text: str, style: str) -> None:
    """Ignore the reports of a follower: they are also on the pages."""


@asynccontextmanager
async def edited_console(
    folder: Path, text: str | None = None, serve: Serve | None = None, *, is_found: bool = False
) -> AsyncGenerator[tuple[Opened, Path]]:
    """A console that a browser has entered, and the config that its bus follows; named, or found."""
    path = folder / "toolbus.yaml"
    path.write_text(start_text() if text is None else text)
    if is_found:
        accept(candidate(path))
    began = time.time_ns()
    async with console_over(trusted_config(path) if is_found else str(path), serve) as opened:

        async def use(config: BusConfig) -> str:
            await opened.bus.reload(config)
            return ""

        follower = ConfigFollower(opened.bus.config, began, use, _ignore)
        opened.console.config_problem = lambda: follower.problem
        following = asyncio.create_task(follower.follow())
        await opened.enter()
        try:
            yield opened, path
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def gone_to(opened: Opened, path: str, form: Mapping[str, Any]) -> tuple[str, str]:
    """Send a form; where that leads, and the page there."""
    answered = await opened.post(path, form)
    assert answered.status_code == 303, answered.text
    place = answered.headers["location"].removeprefix("../")
    return place, await opened.page(place.partition("#")[0])


def hidden(page: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that goes to an action."""
    found = re.search(rf'<form[^>]*action="{action}"[^>]*>(.*?)</form>', page, re.DOTALL)
    assert found is not None, page
    inputs = Markup(found[1]).named("input")
    return {one["name"] or "": one["value"] or "" for one in inputs if one.get("type") == "hidden"}


async def tried(opened: Opened, place: str, page: str) -> str:
    """Try the server of a draft, and return the page after the trial."""
    async with opened.stream(place) as stream:
        await opened.post("add-server/try", hidden(page, "add-server/try"))
        await stream.until(lambda markup: "badge" in markup and "running" not in markup)
    return await opened.page(place)


async def in_use(opened: Opened, alias: str) -> None:
    """Wait until the bus has a server, and it is ready."""
    await until(lambda: alias in opened.bus.servers and opened.bus.servers[alias].state == "ready")
