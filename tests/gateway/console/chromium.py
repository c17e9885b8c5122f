"""A real browser for the console: one Chromium for all tests of a process, and tabs in it."""

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.auth.authorization_server import MODULES
from tests.auth.pages import why_no_browser
from tests.gateway.console.opening import Opened
from tests.interop.servers import NODE, require_installed
from tests.patience import PATIENCE
from tests.processes import keep_tree

SCRIPT = Path(__file__).with_suffix(".mjs")
SMALL = {"width": 360, "height": 740}
WIDE = {"width": 1280, "height": 900}


class Failed(AssertionError):
    """A failure in the browser."""


class NotStarted(Exception):
    """There is no browser here."""


class Chromium:
    """The browser, which does one thing at a time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._lock = threading.Lock()
        self._numbers = count(1)

    def ask(self, tab: int, action: str, *given: Any) -> Any:
        """Do something in a tab; see `chromium.mjs`."""
        keys, answers = self._process.stdin, self._process.stdout
        assert keys is not None
        assert answers is not None
        with self._lock:
            print(json.dumps({"tab": tab, "do": action, "with": given}), file=keys, flush=True)
            answered = json.loads(answers.readline())
        if "error" in answered:
            raise Failed(f"{action} {given}: {answered['error']}")
        return answered["value"]

    @asynccontextmanager
    async def tab(self, *, harmless: bool = True, **options: Any) -> AsyncGenerator["Tab"]:
        """A tab with cookies of its own; unless told otherwise, it must not have had problems at its end."""
        tab = Tab(self, next(self._numbers))
        await tab.do("open", {"viewport": WIDE, **options})
        try:
            yield tab
            if harmless:
                assert await tab.problems() == []
        finally:
            await tab.do("close")


class Tab:
    """One page of the browser."""

    def __init__(self, browser: Chromium, number: int) -> None:
        self._browser = browser
        self._number = number
        self.home = ""
        """The beginning of its pages' URLs once it has entered."""

    async def do(self, action: str, *given: Any) -> Any:
        """Do something, and return the outcome."""
        return await asyncio.to_thread(self._browser.ask, self._number, action, *given)

    async def enter(self, opened: Opened) -> None:
        """Come to the console with a fresh token."""
        await self.goto(f"{opened.url}?token={token(opened)}")
        self.home = (await self.do("url")).rpartition("/")[0]

    async def goto(self, url: str) -> None:
        await self.do("goto", url)

    async def click(self, selector: str) -> None:
        """Click; on a phone, most entries of the navigation are behind Menu."""
        if selector.startswith("nav ") and not await self.do("isVisible", selector):
            await self.do("click", "#menu summary")
        await self.do("click", selector)

    async def fill(self, selector: str, text: str) -> None:
        await self.do("fill", selector, text)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.do("keyboard.press", key)

    async def see(self, selector: str, text: str = "") -> None:
        """Wait until such an element exists, and contains this text."""
        words = f":has-text({json.dumps(text, ensure_ascii=False)})" if text else ""
        await self.do("waitForSelector", f"{selector}{words}")

    async def gone(self, selector: str) -> None:
        """Wait until no such element can be seen."""
        await self.do("waitForSelector", selector, {"state": "hidden"})

    async def text(self, selector: str = "body") -> str:
        return " ".join((await self.do("innerText", selector)).split())

    async def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        return await self.do("evaluate", script)

    async def loaded(self) -> None:
        """Wait until the page has its style sheet; a click does not wait for what it opens."""
        await self.do("waitForLoadState", "load")

    async def count(self, selector: str) -> int:
        return await self.run(f"document.querySelectorAll({json.dumps(selector)}).length")

    async def problems(self) -> list[str]:
        """Problems on the pages since the last call."""
        return await self.do("problems")


def token(opened: Opened) -> str:
    """A token for one browser."""
    made = opened.app.entry.new_token(opened.app.entry.secret)
    assert made is not None
    return made


@contextmanager
def chromium() -> Generator[Chromium]:
    """Start the browser, and end it."""
    folder = MODULES.parent / "browser"
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [NODE, str(SCRIPT), str(MODULES)],
        env=os.environ | {"TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process, keep_tree(process.pid):
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise NotStarted
        try:
            yield Chromium(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE)


def started_or_skipped() -> Iterator[Chromium]:
    """The browser, for a fixture; skips the test with the reason if it does not start here."""
    require_installed("oauth")
    with ExitStack() as stack:
        try:
            started = stack.enter_context(chromium())
        except NotStarted:
            why_not = why_no_browser()
            assert why_not, "Chromium starts for others"
            pytest.skip(why_not)
        yield started
