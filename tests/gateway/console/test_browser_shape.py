"""Every page as people with other screens, eyes and hands need it: 360 px wide, and by the rules of axe."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.console.chromium import SMALL, Chromium, Tab
from tests.gateway.console.house import TOO_WIDE, full_house, paths, use
from tests.gateway.console.opening import Opened
from tests.interop.servers import INTEROP, require_installed

pytestmark = pytest.mark.anyio

AXE = INTEROP / "axe" / "node_modules" / "axe-core" / "axe.min.js"
VIOLATIONS = """axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations.map((one) =>
  [one.id, ...one.nodes.map((node) => [node.html, node.any.map((any) => any.message)])]))"""
SPLIT = """[...document.querySelectorAll(
    'h1, h2, h3, button, .button, nav a, th, dt, label, summary, .badge')]
  .filter((one) => one.checkVisibility() && !one.closest('.spoken'))
  .flatMap((one) => {
    const texts = document.createTreeWalker(one, NodeFilter.SHOW_TEXT), split = [];
    while (texts.nextNode()) {
      for (const word of texts.currentNode.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
        const whole = texts.currentNode.data.slice(0, word.index).match(/\\S*$/)[0]
          + texts.currentNode.data.slice(word.index).match(/^\\S*/)[0];
        if (whole.length > 24) continue; // what a server names may be wider than the screen
        const range = document.createRange();
        range.setStart(texts.currentNode, word.index);
        range.setEnd(texts.currentNode, word.index + word[0].length);
        const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (tops.size > 1) split.push(word[0]);
      }
    }
    return split;
  })"""
"""Words that are on two lines."""
CUT = """[...document.querySelectorAll('button, .button, nav a, th, .badge, h1, h2, label')]
  .filter((one) => one.checkVisibility() && !one.closest('.spoken')
    && one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0
    && getComputedStyle(one).display !== 'inline')
  .map((one) => one.outerHTML.slice(0, 120))"""
"""Texts that are cut."""
SMALL_TARGETS = """[...document.querySelectorAll('.answers > *, nav a, .menu summary')]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 40)
  .map((one) => one.outerHTML.slice(0, 120))"""


@asynccontextmanager
async def _used_house(
    browser: Chromium, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncGenerator[tuple[Opened, Tab]]:
    """A tab of a console on which everything waits for somebody."""
    async with full_house(folder, monkeypatch) as opened, browser.tab(**options) as tab:
        await tab.enter(opened)
        waiting = await use(opened)
        try:
            yield opened, tab
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


async def test_no_page_cuts_or_breaks_a_word_on_a_phone(
    browser: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, Any] = {}
    async with _used_house(browser, tmp_path, monkeypatch, viewport=SMALL) as (opened, tab):
        for path in paths(opened):
            await tab.goto(f"{tab.home}/{path}")
            await tab.see("#content")
            for opens in ("false", "true"):
                await tab.run(f"document.querySelectorAll('details').forEach((one) => one.open = {opens})")
                problems = [await tab.run(script) for script in (TOO_WIDE, SPLIT, CUT, SMALL_TARGETS)]
                if any(problems):
                    found[path] = problems
    assert not found, json.dumps(found, indent=1)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_on_any_page(
    browser: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    require_installed("axe")
    found: dict[str, Any] = {}
    async with _used_house(browser, tmp_path, monkeypatch, colorScheme=theme) as (opened, tab):
        for path in paths(opened):
            await tab.goto(f"{tab.home}/{path}")
            await tab.see("#content")
            await tab.run(f"void (0, eval)({json.dumps(AXE.read_text())})")
            if violations := await tab.run(VIOLATIONS):
                found[path] = violations
    assert not found, json.dumps(found, indent=1)
