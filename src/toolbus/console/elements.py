"""HTML as a tree of elements. Every text is escaped, because there is no way to pass markup as text.

Texts come from servers: characters that a browser would hide or obey are written out. An element that could
run code, and a link that could, is an error of ours.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from html import escape
from typing import TypeAlias, Union

from toolbus.core.text.text import visible

Child: TypeAlias = Union["Element", str, int, float, Iterable["Child"], None]
"""The possible children of an element. None, True and False are left out: `condition and element(...)`."""
Attribute: TypeAlias = str | int | float | bool | None
"""True is an attribute without a value; False and None are left out."""

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "source", "wbr"})
_FORBIDDEN = frozenset({"style", "iframe", "object", "embed", "base", "template", "foreignObject"})
_LINKS = frozenset({"href", "src", "action", "formaction"})
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*")
_URL = re.compile(r"[!-~]*")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")


class Element:
    """An element, with what it contains."""

    __slots__ = ("_attributes", "_children", "_digest", "_name", "id", "is_feed", "is_live", "pace")

    def __init__(
        self, name: str, attributes: dict[str, Attribute], children: Iterable[Child], *, is_live: bool = False
    ) -> None:
        self._name = name
        self._attributes = attributes
        self._children = tuple(_flat(children))
        self._digest = ""
        self.id = str(attributes.get("id", ""))
        self.is_live = is_live
        """Whether the event stream replaces it when it changes; see `live`."""
        self.is_feed = False
        """Whether only rows that come and go are sent; see `feed`."""
        self.pace = 0.0
        """Seconds from one change that is sent to the next."""
        if not _NAME.fullmatch(name) or name in _FORBIDDEN:
            raise ValueError(f"<{name}> is not an element of the page")
        if self._children and (name in _VOID or name == "script"):
            raise ValueError(f"<{name}> contains nothing")
        for key, value in attributes.items():
            _check_attribute(name, key, value)

    def __str__(self) -> str:
        return "".join(self._pieces(in_full=True))

    @property
    def digest(self) -> str:
        """The digest of what it contains, without the live elements below it."""
        if not self._digest:
            own = "".join(self._pieces(in_full=False)).encode(errors="replace")
            self._digest = sha256(own).hexdigest()[:16]
        return self._digest

    @property
    def rows(self) -> Iterator["Element"]:
        """The rows of a feed."""
        return (child for child in self._children if isinstance(child, Element))

    def live_below(self) -> Iterator["Element"]:
        """The live elements below it, but not those within them."""
        for child in self._children:
            if isinstance(child, Element):
                yield from (child,) if child.is_live else child.live_below()

    def _pieces(self, *, in_full: bool) -> Iterator[str]:
        yield f"<{self._name}{''.join(map(_attribute, self._attributes.items()))}"
        yield f' data-live="{self.digest}">' if self.is_live and in_full else ">"
        if self._name in _VOID:
            return
        for child in self._children if in_full or not self.is_feed else ():
            if isinstance(child, str):
                yield escape(visible(child), quote=False)
            elif in_full or not child.is_live:
                yield from child._pieces(in_full=in_full)
            else:
                yield f"<{_attribute(('id', child.id))}>"
        yield f"</{self._name}>"


def element(name: str, /, *children: Child, **attributes: Attribute) -> Element:
    """An element: `element("a", "tools", href="catalog", class_="tab")`.

    `class_` is `class`, and `aria_label` is `aria-label`.
    """
    return Element(name, {_spelled(key): value for key, value in attributes.items()}, children)


def live(key: str, /, *children: Child, tag: str = "div", **attributes: Attribute) -> Element:
    """An element with the id `key` that the event stream replaces as a whole when it changes.

    It may contain others. Input fields belong outside of it: text that a person types would be lost.
    """
    given = {_spelled(key): value for key, value in attributes.items()}
    return Element(tag, {"id": key, **given}, children, is_live=True)


def slow(seconds: float, element: Element) -> Element:
    """A live element that is replaced once in this many seconds, however often it changes."""
    element.pace = seconds
    return element


def feed(key: str, *rows: Element, tag: str = "tbody", **attributes: Attribute) -> Element:
    """A live list of rows, each with an id of its own: an open page gets new and changed rows only."""
    given: dict[str, Attribute] = {_spelled(name): value for name, value in attributes.items()}
    made = Element(tag, {"id": key, "data-feed": True, **given}, rows, is_live=True)
    made.is_feed = True
    return made


def _spelled(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _check_attribute(name: str, key: str, value: Attribute) -> None:
    lowered = key.lower()
    if not _NAME.fullmatch(key) or lowered.startswith("on") or lowered in ("style", "srcdoc"):
        raise ValueError(f"{key!r} is not an attribute of the page")
    if lowered in _LINKS and isinstance(value, str) and not _is_safe_link(name, value):
        raise ValueError(f"the {lowered} of <{name}> is neither of the page nor http or https")


def _is_safe_link(name: str, url: str) -> bool:
    if not _URL.fullmatch(url):  # browsers ignore some characters, such as line feeds
        return False
    scheme = _SCHEME.match(url)
    if scheme is None or (name == "a" and scheme[1].lower() in ("http", "https")):
        return not url.startswith(("//", "\\", "/\\"))
    return name == "img" and _PICTURE.fullmatch(url) is not None


def _attribute(pair: tuple[str, Attribute]) -> str:
    key, value = pair
    if value is None or value is False:
        return ""
    if value is True:
        return f" {key}"
    # What a form sends back must be what it was given.
    text = escape(str(value)).replace("\r", "&#13;") if key == "value" else escape(visible(str(value)))
    return f' {key}="{text}"'


def _flat(children: Iterable[Child]) -> Iterator[Element | str]:
    for child in children:
        if isinstance(child, Element | str):
            yield child
        elif isinstance(child, bool) or child is None:
            continue
        elif isinstance(child, int | float):
            yield str(child)
        else:
            yield from _flat(child)
