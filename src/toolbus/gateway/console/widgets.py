"""Small pieces that pages share."""

import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Literal, TypeAlias

from toolbus.gateway.console.html import Child, Element, element

Tone: TypeAlias = Literal["good", "busy", "bad", "quiet"]


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


def moment(at: float) -> Element:
    """A point in time; the script turns it into how long ago that is."""
    then = time.gmtime(at)
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", then)
    return element("time", shown, datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", then), title=shown)


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
