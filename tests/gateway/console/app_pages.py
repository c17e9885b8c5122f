"""Apps in the console: a server with one, its frame in the browser, and what it may do there."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.gateway.console.chromium import Chromium, Failed, Tab
from tests.gateway.console.opening import Opened, console_over
from tests.patience import PATIENCE

DASHBOARD = str(Path(__file__).parents[2] / "servers" / "dashboard.py")
VIEW = "/view"
ALLOW_ONCE = "#questions-here button:text-is('Allow once')"
DENY = "#questions-here button:text-is('Deny')"


def dashboard(script: str = "", **more: Any) -> dict[str, Any]:
    """The entry of a server whose app runs a script of the test, beside its own."""
    return {"command": sys.executable, "args": [DASHBOARD, json.dumps({"script": script, **more})]}


async def in_app(tab: Tab, expression: str) -> Any:
    """The value of an expression in the app."""
    return await tab.do("frame.evaluate", VIEW, expression)


async def app_says(tab: Tab, expected: str) -> None:
    """Wait until the app shows a text."""
    said = ""
    try:
        async with asyncio.timeout(PATIENCE):
            while expected not in said:
                await asyncio.sleep(0.05)
                try:
                    said = await in_app(tab, "document.body.innerText")
                except Failed:  # its frame is not there yet
                    continue
    except TimeoutError:
        raise AssertionError(f"the app says {said!r}, not {expected!r}") from None


@asynccontextmanager
async def app_of(
    browser: Chromium,
    config: dict[str, Any],
    tool: str = "dash_show",
    *,
    harmless: bool = True,
    **options: Any,
) -> AsyncGenerator[tuple[Opened, Tab]]:
    """A console and a browser in which a tool with an app was called."""
    async with console_over(config) as opened, browser.tab(harmless=harmless, **options) as tab:
        await tab.enter(opened)
        await tab.goto(f"{tab.home}/tools?tool={tool}")
        await tab.click("#call")
        yield opened, tab
