"""The whole of a page: head, navigation, what was done, and the content."""

from collections.abc import Iterable

from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Notice, Page
from toolbus.console.pages import PAGES

NAVIGATION = "navigation"


def document(page: Page, console: Console, content: Element, notices: Iterable[Notice], stream: str) -> str:
    """A page; `stream` is the URL of its event stream."""
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        element(
            "header",
            element("a", "toolbus", href=PAGES[0].path, class_="brand"),
            navigation(page, console),
            element("span", id="connection", class_="connection", role="status"),
            class_="top",
        ),
        element("main", _said(notices), element("h1", page.title), content, id="content", tabindex=-1),
        data_stream=stream,
    )
    return _html(f"{page.title} - toolbus", body, assets="../")


def navigation(page: Page, console: Console) -> Element:
    """The links to the pages; live, because of the numbers in it."""
    current = page.under or page.path
    return live(
        NAVIGATION,
        element(
            "ul",
            [
                _entry(one, console, is_current=one.path == current)
                for one in PAGES
                if not one.under and one.is_there(console)
            ],
        ),
        tag="nav",
        aria_label="Pages",
    )


def refusal(title: str, *lines: Child, assets: str = "", reloads: bool = False) -> str:
    """A page for somebody who is not let in, or asks for what is not there.

    `assets` is the way from there to `/console/`. With `reloads`, the browser asks again at once.
    """
    content = [element("h1", title), *(element("p", line) for line in lines)]
    body = element("body", element("main", content, class_="refusal"))
    return _html(f"{title} - toolbus", body, assets, reloads=reloads)


def _entry(page: Page, console: Console, *, is_current: bool) -> Element:
    count = 0 if page.count is None else page.count(console)
    return element(
        "li",
        element(
            "a",
            page.title,
            count > 0 and [" ", element("span", count, class_="count")],
            href=page.path,
            aria_current="page" if is_current else None,
        ),
    )


def _said(notices: Iterable[Notice]) -> Element:
    return element(
        "div",
        [element("p", notice.text, class_=f"notice {notice.kind}") for notice in notices],
        class_="notices",
        role="status",
    )


def _html(title: str, body: Element, assets: str, *, reloads: bool = False) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        reloads and element("meta", http_equiv="refresh", content="0"),
        element("title", title),
        element("link", rel="icon", href=f"{assets}static/icon.svg", type="image/svg+xml"),
        element("link", rel="stylesheet", href=f"{assets}static/console.css"),
        element("script", src=f"{assets}static/console.js", defer=True),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"
