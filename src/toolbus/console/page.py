"""A page of the console: a value in the table of pages (`pages/__init__.py`).

    PAGE = Page(path="servers", title="Servers", render=render, actions={"restart": restart})

It is at `/console/SECRET/servers`, and its action at `/console/SECRET/servers/restart`, with the secret of
the session. All links between pages are relative (`href="tools?search=x"`): no page knows that secret, and
a proxy may put a prefix in front.
"""

from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolbus.console.apps.frames import AppPlace
from toolbus.console.console import Console, Topic
from toolbus.console.editing.fields import Fields
from toolbus.console.elements import Element


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message of the next page about the action before it."""

    text: str
    kind: Literal["done", "failed"] = "done"
    more: Element | None = None
    """A link to what it is about."""


@dataclass(slots=True, kw_only=True)
class PageRequest:
    """A request for a page, or for one of its actions."""

    session: str
    """The session of the browser: an opaque name, the same for all its requests."""
    query: Fields = field(default_factory=Fields)
    form: Fields = field(default_factory=Fields)
    """The form of an action."""
    apps: AppPlace = field(default_factory=AppPlace)
    """The place of apps for the browser."""
    notice: Notice | None = None
    """Set by an action: what the next page says."""

    def say(self, text: str, goes_to: str, more: Element | None = None) -> str:
        """End an action: the page to go to says that it is done."""
        self.notice = Notice(text=text, more=more)
        return goes_to

    def fail(self, text: str, goes_to: str) -> str:
        """End an action: the page to go to says why it was not done."""
        self.notice = Notice(text=text, kind="failed")
        return goes_to


Render: TypeAlias = Callable[[Console, PageRequest], Awaitable[Element]]
"""The content of the page. Its `live` elements are rendered again when one of the topics changes."""
Action: TypeAlias = Callable[[Console, PageRequest], Awaitable[str]]
"""Does something, and returns the page to go to, relative to the others: `servers#files`.

A `ToolbusError` is shown as a notice on the page that the action belongs to. Leave long work to
`Console.begin`: the browser waits for an action.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A file that the browser saves."""

    name: str
    """Of ours: ASCII letters, digits, `-`, `_` and `.`."""
    kind: str
    """Its media type."""
    content: bytes


Export: TypeAlias = Callable[[Console, PageRequest], Awaitable[Download]]
"""Makes a file of what a page shows; a `ToolbusError` is shown instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of the console."""

    path: str
    title: str
    render: Render
    topics: Set[Topic] = frozenset()
    """The topics it shows; it is rendered again when one of them changes."""
    every: float | None = None
    """Seconds after which it is rendered again in any case, for what changes without an event."""
    scripts: tuple[str, ...] = ()
    """Files in `static/` that this page alone loads, after the script of all pages."""
    actions: Mapping[str, Action] = field(default_factory=dict[str, Action])
    shows_apps: bool = False
    """Whether it has frames of the other origin."""
    downloads: Mapping[str, Export] = field(default_factory=dict[str, Export])
    """Files of the page, by name: a link to `audit/export?form=csv` is answered by `export`."""
    under: str = ""
    """The page in the navigation that it belongs to; empty if it is there itself."""
    count: Callable[[Console], int] | None = None
    """A number beside its title in the navigation, if it is not 0: the entries that wait there."""
    is_there: Callable[[Console], bool] = lambda console: True
    """Whether this console has the page."""
