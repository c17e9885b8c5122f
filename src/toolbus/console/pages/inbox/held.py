"""What differs from the lock: why it is held, how it differs, and the button that approves what is shown."""

import json
from typing import cast

from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.held import HeldPart, HeldServer
from toolbus.console.page import Page, PageRequest
from toolbus.console.widgets import Tone, anchor, badge, button, titled
from toolbus.core.text.display import counted
from toolbus.core.values.records import JSON
from toolbus.lock.changes import EFFECTS, DefinitionChange, LockDifference, word_changes
from toolbus.lock.drift import HeldKind, label_of

_STATUS: dict[str, tuple[str, Tone]] = {
    "added": ("new", "good"),
    "changed": ("changed", "busy"),
    "removed": ("removed", "bad"),
}
_TAGS = {"same": "span", "removed": "del", "added": "ins"}


async def render(console: Console, request: PageRequest) -> Element:
    servers = console.held.servers()
    number = sum(len(server.parts) for server in servers.values())
    summary = f"{counted(number, 'difference')} from the lock" if number else "Nothing is held."
    return element(
        "div",
        live("held-summary", summary, tag="p", role="status"),
        live("held", [_server(alias, server) for alias, server in servers.items()]),
    )


async def approve(console: Console, request: PageRequest) -> str:
    alias, name = request.form.get("server"), request.form.get("name")
    kind = cast(HeldKind, request.form.get("kind"))  # one that is not held is refused
    console.held.approve(alias, (kind, name), request.form.get("digest"))
    await console.use_approved()
    return request.say(f"Approved {label_of(alias, kind, name)}.", "held")


async def approve_all(console: Console, request: PageRequest) -> str:
    """Approve all that was shown of a server."""
    alias = request.form.get("server")
    console.held.approve_all(alias, request.form.get("digest"))
    await console.use_approved()
    return request.say(f"Approved all that was held of {alias}.", "held")


def _server(alias: str, server: HeldServer) -> Element:
    heading = anchor("name", alias)
    fields, hint = {"server": alias, "digest": server.digest}, f"Approve all of {alias} as shown"
    approve_them = button(f"Approve all {len(server.shown)}", "held/approve-all", fields, hint=hint)
    return element(
        "section",
        titled("h2", alias, len(server.shown) > 1 and approve_them, key=heading),
        element("div", [_part(one) for one in server.parts], class_="wide cards"),
        aria_labelledby=heading,
    )


def _part(one: HeldPart) -> Element:
    held, heading = one.held, anchor("part", one.held.key)
    label = held.name if held.kind == "tool" else f"{held.kind} {held.name}".strip()
    fields = {"server": held.server, "kind": held.kind, "name": held.name, "digest": one.digest or ""}
    return element(
        "article",
        titled("h3", label, one.difference and badge(*_STATUS[one.difference.status]), key=heading),
        element("p", held.change, class_="faint"),
        [element("p", f"Warning: {warning}", class_="problem") for warning in one.warnings],
        one.difference and _difference(one.difference),
        one.digest
        and button("Approve", "held/approve", fields, class_="main", hint=f"Approve {held.key} as shown"),
        class_="card",
        aria_labelledby=heading,
    )


def _difference(difference: LockDifference) -> Element:
    return element("ul", [element("li", _change(one)) for one in difference.changes], class_="changes")


def _change(change: DefinitionChange) -> Child:
    """A change, in the words of `toolbus lock diff`."""
    before, after = change.before, change.after
    head: list[Child] = [element("code", change.at), " "]
    if change.is_text:
        return [*head, _words(str(before), str(after))]
    if change.effect == "changed":
        return [*head, _value("del", before), " ", _value("ins", after)]
    if change.effect in ("widened", "narrowed"):
        values = _value("del", before, "anything"), " ", _value("ins", after, "anything")
        return [*head, badge(EFFECTS[change.effect], "busy"), " ", *values]
    if change.effect == "removed":
        return [*head, badge("removed", "bad"), " ", _value("del", before)]
    is_new = change.effect == "required" and after is not None
    words = "new, required" if is_new else EFFECTS[change.effect]
    shown = None if after is None else [" ", _value("ins", after)]
    return [*head, badge(words, "good" if change.effect == "added" else "busy"), shown]


def _words(before: str, after: str) -> Element:
    return element(
        "span", [element(_TAGS[kind], text) for kind, text in word_changes(before, after)], class_="words"
    )


def _value(tag: str, value: JSON, missing: str = "nothing") -> Element:
    if value is None:
        text = missing
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return element(tag, text, class_="words")


PAGE = Page(
    path="held",
    title="Held",
    render=render,
    topics={"held"},
    actions={"approve": approve, "approve-all": approve_all},
    under="inbox",
)
