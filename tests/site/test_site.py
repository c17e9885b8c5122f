"""The site: no dead link, no request to other hosts, search from a folder, and no violation that axe finds.

`make site` builds it and runs these tests; without a site, those of the site are skipped.
"""

from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from tests.gateway.console.chromium import Chromium, started_or_skipped
from tests.interop.servers import INTEROP, require_installed
from tests.site.__main__ import SITE, Nav, adapted, navigation

HTML = SITE / "html"
AXE = INTEROP / "axe" / "node_modules" / "axe-core" / "axe.min.js"
VIOLATIONS = """axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }).then(({ violations }) =>
  violations.map((one) => [one.id, ...one.nodes.map((node) => node.html.slice(0, 200))]))"""
PAGES = (
    "index",
    "gateway",
    "configuration",
    "reference/configuration",
    "reference/python/toolbus",
    "security",
)
needs_site = pytest.mark.skipif(not HTML.is_dir(), reason="there is no site: `make site` builds it")


class References(HTMLParser):
    """What a page refers to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found["id"] or ""} if "id" in found else set()
        self.targets += [value for key in ("href", "src") if (value := found.get(key))]


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    yield from started_or_skipped()


def test_a_link_leads_to_the_page_of_the_site_or_becomes_its_text() -> None:
    page = SITE / "pages" / "frameworks" / "langchain.md"
    text = "[a](../agent.md#runs) [b](README.md) [c](../../SECURITY.md) [d](../../examples/notes.py) [e](#x)"
    shown = "[a](../agent.md#runs) [b](../frameworks/index.md) [c](../security.md) d [e](#x)"
    assert adapted(page, text) == shown


@needs_site
def test_every_page_of_the_documentation_is_in_the_navigation() -> None:
    def files(nav: Nav) -> Iterator[str]:
        for entry in nav:
            for value in entry.values():
                yield from [value] if isinstance(value, str) else files(value)

    listed = set(files(navigation()))
    made = {path.relative_to(SITE / "pages").as_posix() for path in (SITE / "pages").rglob("*.md")}
    assert made - listed <= {"about.md", "releasing.md"}
    assert listed <= made


@needs_site
def test_no_link_of_the_site_is_dead() -> None:
    pages = {
        path: References(path.read_text("utf-8")) for path in HTML.rglob("*.html") if path.name != "404.html"
    }
    assert len(pages) > 50
    dead: list[str] = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme:
                continue
            known = pages[file].anchors if file in pages else {""}
            if not file.is_file() or (
                parts.fragment and file in pages and unquote(parts.fragment) not in known
            ):
                dead.append(f"{path.relative_to(HTML)}: {target}")
    assert dead == []


@needs_site
@pytest.mark.anyio
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_page_in_a_folder_asks_no_other_host_and_axe_finds_nothing(
    browser: Chromium, scheme: str
) -> None:
    require_installed("axe")
    for name in PAGES:
        async with browser.tab(harmless=False, colorScheme=scheme) as tab:
            await tab.goto((HTML / f"{name}.html").as_uri())
            await tab.loaded()
            sent: list[str] = await tab.do("requests")
            assert len(sent) > 3
            assert [one for one in sent if urlsplit(one).scheme not in ("file", "data", "blob")] == [], name
            await tab.run(AXE.read_text("utf-8"))
            assert await tab.run(VIOLATIONS) == [], f"{name} in {scheme}"


@needs_site
@pytest.mark.anyio
async def test_search_finds_a_page_in_a_folder_without_a_server(browser: Chromium) -> None:
    async with browser.tab(harmless=False) as tab:
        await tab.goto((HTML / "index.html").as_uri())
        await tab.loaded()
        await tab.click(".md-search__button")
        await tab.do("keyboard.type", "lockfile")
        await tab.see("a[href*='lock.html']:visible", "ock")
