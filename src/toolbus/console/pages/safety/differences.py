"""Held changes, with old and new side by side, and signs of deception."""

from collections.abc import Iterable, Sequence

from toolbus.console.elements import Child, Element, element
from toolbus.console.safety.held import HeldPart, text_of
from toolbus.console.widgets import Tone, badge
from toolbus.core.text.display import counted
from toolbus.core.values.records import JSON
from toolbus.lock.changes import EFFECTS, DefinitionChange, Words, word_changes
from toolbus.lock.drift import HeldTool

LONGEST_OLD = 20_000
"""Characters of the approved text that are shown of one change."""
_SAME = 160
"""Characters that are shown around a change in a text."""
_STATUS: dict[str, tuple[str, Tone]] = {
    "added": ("new", "quiet"),
    "changed": ("changed", "busy"),
    "removed": ("removed", "bad"),
}
_ALARMING = ("required", "widened", "narrowed", "optional")


def label_of_part(held: HeldTool) -> str:
    """The name of a part within its server."""
    return held.name if held.kind == "tool" else f"{held.kind} {held.name}".strip()


def status_of(one: HeldPart) -> Element | None:
    """Whether it is new, changed or removed."""
    return None if one.difference is None else badge(*_STATUS[one.difference.status])


def signs(warnings: Sequence[str]) -> Element | None:
    """The signs of deception, in a block that no text of a server can have."""
    if not warnings:
        return None
    return element(
        "div",
        element("strong", f"{counted(len(warnings), 'sign')} of deception"),
        element("ul", [element("li", warning) for warning in warnings]),
        class_="signs",
        role="note",
    )


def differences(one: HeldPart) -> Element | None:
    """The changes, each with the approved value on the left and the new one on the right."""
    if one.difference is None or not one.difference.changes:
        return None
    rows = [_row(change) for change in one.difference.changes]
    return element(
        "table",
        element("thead", element("tr", [element("th", text, scope="col") for text in _HEADINGS])),
        element("tbody", rows),
        class_="compare",
        aria_label=f"Changes of {one.held.key}",
    )


_HEADINGS = ("Part", "Approved", "Now")


def _row(change: DefinitionChange) -> Element:
    old, new = (
        _texts(change) if change.is_text else (_value("del", change.before), _value("ins", change.after))
    )
    effect = badge(EFFECTS[change.effect], "busy") if change.effect in _ALARMING else None
    return element(
        "tr",
        element("th", element("code", change.at), effect and [" ", effect], scope="row"),
        element("td", old, data_label=_HEADINGS[1]),
        element("td", new, data_label=_HEADINGS[2]),
    )


def _texts(change: DefinitionChange) -> tuple[Element, Element]:
    """Both texts, each with its own words marked and long equal parts cut."""
    words = word_changes(str(change.before), str(change.after))
    old = _side(words, "removed", "del", LONGEST_OLD)
    return old, _side(words, "added", "ins", None)


def _side(words: Iterable[Words], kind: str, tag: str, most: int | None) -> Element:
    """One of two texts; only of the old one a part may be left out."""
    shown: list[Child] = []
    left = most
    for one, text in words:
        if one not in ("same", kind):
            continue
        if left is not None and left <= 0:
            shown.append(_left_out("more characters"))
            break
        if one == "same":
            shown.append(_cut(text))
        else:
            shown.append(element(tag, text if left is None else text[:left]))
        left = None if left is None else left - len(text)
    return element("div", shown, class_="words")


def _cut(text: str) -> Child:
    """A text that was approved as it is: its middle is left out."""
    rest = len(text) - 2 * _SAME
    if rest < _SAME:
        return text
    return [text[:_SAME], _left_out(f"{rest:,} unchanged characters"), text[-_SAME:]]


def _left_out(what: str) -> Element:
    """Words of ours inside a text of a server."""
    return element("span", f" [{what}] ", class_="left-out")


def _value(tag: str, value: JSON) -> Element:
    if value is None:
        return element("span", "-", class_="faint")
    text = text_of(value)
    rest = len(text) - LONGEST_OLD if tag == "del" else 0
    shown = text[:LONGEST_OLD] if rest > 0 else text
    return element("div", element(tag, shown), rest > 0 and _left_out(f"{rest:,} more"), class_="words")


def diff(lines: Iterable[str]) -> Element:
    """The lines of a file that change."""
    kinds = {"+": "ins", "-": "del"}
    return element(
        "pre",
        [
            [element("span", line, class_="faint") if line.startswith("@@") else _line(line, kinds), "\n"]
            for line in lines
        ],
        class_="diff",
        tabindex=0,
        aria_label="The change of the file",
    )


def _line(line: str, kinds: dict[str, str]) -> Child:
    tag = kinds.get(line[:1])
    return line if tag is None else element(tag, line)
