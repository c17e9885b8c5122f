"""The whole of a page: head, header, navigation, notices, and content."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Notice, Page
from toolbus.console.pages import PAGES
from toolbus.console.widgets import form, hidden_fields, moment
from toolbus.core import version

Theme: TypeAlias = Literal["light", "dark"]
"""A choice of a person; without it, the page looks as the system does."""
THEME_ACTION = "theme/choose"
"""The action of every page that chooses the theme."""
NAVIGATION = "navigation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The facts around the content of a page."""

    notices: Sequence[Notice]
    place: str
    """The page with its query, as links lead to it."""
    theme: Theme | None


def document(page: Page, console: Console, content: Element, around: Surroundings) -> str:
    """A page."""
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        _header(page, console, around),
        element("main", _said(around.notices), element("h1", page.title), content, id="content", tabindex=-1),
        data_stream=f"events/{around.place}",
    )
    return _html(f"{page.title} - toolbus", body, "../", theme=around.theme, scripts=page.scripts)


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
    """A page for a browser without a session, or for a page that does not exist.

    `assets` is the way from there to `/console/`. With `reloads`, the browser asks again at once.
    """
    content = [element("h1", title), *(element("p", line) for line in lines)]
    body = element("body", element("main", content, class_="refusal"))
    return _html(f"{title} - toolbus", body, assets, reloads=reloads)


def _header(page: Page, console: Console, around: Surroundings) -> Element:
    """On a phone, all but the pages with a number is behind Menu: that `details` is only a switch."""
    find = element(
        "a",
        "Search ",
        element("kbd", "Ctrl K"),
        href="search",
        id="find",
        class_="find",
        aria_keyshortcuts="Control+K Meta+K /",
    )
    return element(
        "header",
        element("a", "toolbus", href=PAGES[0].path, class_="brand"),
        _context(console),
        element("span", id="connection", class_="connection", role="status"),
        find,
        element("details", element("summary", "Menu"), id="menu", class_="menu"),
        navigation(page, console),
        _theme_switch(around),
        class_="top",
    )


def _context(console: Console) -> Element:
    """The process that is shown: several consoles may be open."""
    config = console.bus.config
    folder = str(Path(config.folder or "").absolute())
    file = None if config.file is None else Path(config.file).absolute()
    shown = element("strong", "no config file" if file is None else file.name)
    if file is not None and str(file.parent) != folder:
        shown = element("strong", str(file))
    return element(
        "p",
        element("span", shown, " in ", folder, class_="path breakable", title=str(file or folder)),
        element("span", f"toolbus {version()}"),
        element("span", "started ", moment(console.began)),
        class_="context",
    )


def _theme_switch(around: Surroundings) -> Element:
    choices = (("light", "Light"), ("dark", "Dark"), ("system", "System"))
    chosen = around.theme or "system"
    buttons = [
        element(
            "button",
            text,
            type="submit",
            name="theme",
            value=value,
            aria_pressed=str(value == chosen).lower(),
        )
        for value, text in choices
    ]
    group = element("div", buttons, role="group", aria_label="Theme")
    return form(THEME_ACTION, hidden_fields({"back": around.place}), group, class_="theme")


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
        class_="counted" if page.count is not None else None,
    )


def _said(notices: Sequence[Notice]) -> Element:
    return element(
        "div",
        [
            element("p", notice.text, notice.more and [" ", notice.more], class_=f"notice {notice.kind}")
            for notice in notices
        ],
        class_="notices",
        role="status",
    )


def _html(
    title: str,
    body: Element,
    assets: str,
    *,
    reloads: bool = False,
    theme: Theme | None = None,
    scripts: Sequence[str] = (),
) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content=theme or "light dark"),
        reloads and element("meta", http_equiv="refresh", content="0"),
        element("title", title),
        element("link", rel="icon", href=f"{assets}static/icon.svg", type="image/svg+xml"),
        element("link", rel="stylesheet", href=f"{assets}static/console.css"),
        [
            element("script", src=f"{assets}static/{script}", defer=True)
            for script in ("console.js", *scripts)
        ],
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en', data_theme=theme)}\n"
