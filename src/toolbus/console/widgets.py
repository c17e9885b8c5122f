"""Small pieces that pages share."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Literal, TypeAlias

from toolbus.console.elements import Attribute, Child, Element, element

Tone: TypeAlias = Literal["good", "busy", "bad", "quiet"]

_TONES: Mapping[str, Tone] = {
    **dict.fromkeys(("ok", "done", "ready", "allowed", "approved", "answered"), "good"),
    **dict.fromkeys(("running", "waiting", "waits", "begun", "pending", "connecting", "retrying"), "busy"),
    **dict.fromkeys(("canceled", "closed", "idle", "disabled", "off", "declined"), "quiet"),
}
"""One color for one meaning, on all pages; every other outcome is a failure."""
_WORDS = {"cancelled": "canceled", "auth_required": "sign-in needed", "not_json": "not JSON"}
_SHOWN = 8
"""Characters of the name of a session."""


def anchor(kind: str, name: str) -> str:
    """An id for a name: a name may contain anything, an id may not."""
    return f"{kind}-{sha256(name.encode(errors='replace')).hexdigest()[:12]}"


def badge(text: str, tone: Tone) -> Element:
    """A word in a color; the word alone says it."""
    return element("span", text, class_=f"badge {tone}")


def status(state: str) -> Element:
    """The state or outcome of a server, a call, a run or a step, in the words and colors of all pages."""
    word = _WORDS.get(state) or state.replace("_", " ")
    return badge(word, _TONES.get(word, "bad"))


def titled(tag: str, text: str, *beside: Child, key: str | None = None) -> Element:
    """A heading with what stands beside it."""
    return element("div", element(tag, text, id=key), *beside, class_="title")


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
    # Ours begin with a word; the session of a client is random, and may have a dash anywhere.
    return f"{kind}-{rest[:_SHOWN]}" if dash and kind in ("cli", "console", "app") else session[:_SHOWN]


def moment(at: float) -> Element:
    """A point in time; the script turns it into how long ago that is."""
    then = time.gmtime(at)
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", then)
    return element("time", shown, datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", then), title=shown)


def moment_of(text: str) -> Element:
    """The same for a time such as `2026-11-16T15:04:05Z`; any other text is shown unchanged."""
    try:
        return moment(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        return element("span", text)


def form(action: str, *content: Child, method: str = "post", **attributes: Attribute) -> Element:
    """A form that goes to a page, or to one of its actions, such as `servers/restart`."""
    given = {"class_": "stacked"} | attributes
    return element("form", *content, method=method, action=action, **given)


def hidden_fields(values: Mapping[str, str]) -> list[Element]:
    """Fields of a form that a person does not see."""
    return [element("input", type="hidden", name=name, value=value) for name, value in values.items()]


def button(
    label: str, action: str, fields: Mapping[str, str], *, class_: str = "", hint: str = ""
) -> Element:
    """A form that is one button: it posts the fields to `action`."""
    shown = element("button", label, type="submit", class_=class_ or None, aria_label=hint or None)
    return form(action, hidden_fields(fields), shown, class_=None)


def text_field(key: str, label: str, name: str, **attributes: Attribute) -> list[Element]:
    """An input with its label; `key` is its id."""
    given = {"type": "text", "autocomplete": "off"} | attributes
    return [element("label", label, for_=key), element("input", id=key, name=name, **given)]


def table(
    label: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[Child]],
    *,
    is_named: bool = False,
    number: int | None = None,
) -> Element:
    """A table that scrolls by itself, by mouse or keyboard.

    If it `is_named`, the first cell of a row is its heading. `number` is the column that has numbers.
    """

    def cell(column: int, content: Child) -> Element:
        scope = "row" if is_named and column == 0 else None
        name = "td" if scope is None else "th"
        return element(name, content, scope=scope, class_="number" if column == number else None)

    titles = [
        element(
            "th",
            heading or element("span", "Actions", class_="spoken"),
            scope="col",
            class_="number" if column == number else None,
        )
        for column, heading in enumerate(headings)
    ]
    body = [element("tr", [cell(*one) for one in enumerate(row)]) for row in rows]
    return element(
        "div",
        element("table", element("thead", element("tr", titles)), element("tbody", body)),
        class_="table",
        role="region",
        tabindex=0,
        aria_label=label,
    )


def choice(key: str, label: str, name: str, options: Mapping[str, str], chosen: str) -> list[Element]:
    """A field with its label and some values, by the texts shown for them."""
    shown = [element("option", text, value=one, selected=one == chosen) for one, text in options.items()]
    return [element("label", label, for_=key), element("select", shown, name=name, id=key)]


def as_json(value: object) -> str:
    """JSON for people, as it is: the page writes out invisible characters."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=repr)
