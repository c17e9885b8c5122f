"""Small pieces that pages share."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Literal, TypeAlias

from toolbus.console.html.elements import Child, Element, element

Tone: TypeAlias = Literal["good", "busy", "bad", "quiet"]

_SHOWN = 8
"""Characters of the name of a session."""


def anchor(kind: str, name: str) -> str:
    """An id for what has this name: a name may contain anything, an id may not."""
    return f"{kind}-{sha256(name.encode(errors='replace')).hexdigest()[:12]}"


def badge(text: str, tone: Tone) -> Element:
    """A word in a color; the word alone says it."""
    return element("span", text, class_=f"badge {tone}")


def facts(pairs: Mapping[str, Child]) -> Element:
    """Names with their values; those without one are left out."""
    shown = [(name, value) for name, value in pairs.items() if value is not None]
    return element(
        "dl",
        [element("div", element("dt", name), element("dd", value)) for name, value in shown],
        class_="facts",
    )


def short_session(session: str) -> str:
    """As much of the name of a session as tells it from others; all of it would let a reader use it."""
    kind, dash, rest = session.partition("-")
    return f"{kind}-{rest[:_SHOWN]}" if dash and kind.isalpha() else session[:_SHOWN]


def moment(at: float) -> Element:
    """A point in time; the script turns it into how long ago that is."""
    then = time.gmtime(at)
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", then)
    return element("time", shown, datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", then), title=shown)


def moment_of(text: str) -> Element:
    """The same for a time such as `2026-11-16T15:04:05Z`; what is not one is shown as it is."""
    try:
        return moment(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        return element("span", text)


def button(
    label: str, action: str, fields: Mapping[str, str], *, class_: str = "", hint: str = ""
) -> Element:
    """A form that is one button: it posts the fields to `action`, such as `servers/restart`."""
    return element(
        "form",
        [element("input", type="hidden", name=name, value=value) for name, value in fields.items()],
        element("button", label, type="submit", class_=class_ or None, aria_label=hint or None),
        method="post",
        action=action,
    )


def table(label: str, headings: Sequence[str], rows: Iterable[Sequence[Child]]) -> Element:
    """A table that scrolls by itself, also by keyboard."""
    head = element("tr", [element("th", heading, scope="col") for heading in headings])
    body = [element("tr", [element("td", cell) for cell in row]) for row in rows]
    return element(
        "div",
        element("table", element("thead", head), element("tbody", body)),
        class_="table",
        role="region",
        tabindex=0,
        aria_label=label,
    )


def choice(name: str, label: str, options: Mapping[str, str], chosen: str) -> Element:
    """A labelled field with some values, by what is shown for them."""
    field = f"field-{name}"
    return element(
        "div",
        element("label", label, for_=field),
        element(
            "select",
            [
                element("option", shown, value=value, selected=value == chosen)
                for value, shown in options.items()
            ],
            name=name,
            id=field,
        ),
    )
