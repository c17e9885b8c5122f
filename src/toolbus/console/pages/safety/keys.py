"""The keys that let clients into the gateway, and the clients: who has one, adding and revoking."""

import asyncio
import time

from toolbus.console.console import Console, ConsoleKeys
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Page, PageRequest
from toolbus.console.widgets import (
    anchor,
    badge,
    button,
    choice,
    form,
    moment,
    short_session,
    table,
    text_field,
)
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.access.keys import NAME, NAME_RULE, KeysUnusable, StoredKey, explained
from toolbus.gateway.protocol.clients import MODERN_SECONDS, ConnectedClient

MOST_DAYS = 3650
_DAY = 86_400
_COLUMNS = ("Name", "View", "User", "Created", "Expires", "Last used", "")


_CLIENT_COLUMNS = ("Client", "Protocol", "Session", "View", "Key", "Since", "Last call", "")
MOST_CLIENTS = 200
"""Clients that are listed."""


class WrongKey(ToolbusError):
    """The entered values do not make a key."""


async def render(console: Console, request: PageRequest) -> Element:
    return element("div", await _keys_part(console), live("clients", _clients(console)))


async def _keys_part(console: Console) -> Child:
    if console.keys is None and console.clients is not None:
        text = "Clients need no key here; serve.auth.keys: true in the config requires one."
        return live("keys", element("p", text, class_="faint"))
    try:
        keys = _keys(console)
        with explained():
            known, used = await asyncio.to_thread(lambda: (keys.stored.all(), keys.stored.used()))
    except (WrongKey, KeysUnusable) as error:
        return live("keys", element("p", str(error), class_="problem"))
    rows = [_row(keys, key, used.get(key.digest)) for key in known]
    empty = element("p", "There are no keys.", class_="empty")
    return [
        live("keys", table("Keys", _COLUMNS, rows, is_named=True) if rows else empty),
        element("h2", "Add a key"),
        _form(keys),
    ]


async def add(console: Console, request: PageRequest) -> str:
    """Make a key, and have the next page show it, once."""
    keys, form = _keys(console), request.form
    name, view, user, days = (form.get(field).strip() for field in ("name", "view", "user", "days"))
    if not NAME.fullmatch(name):
        raise WrongKey(NAME_RULE)
    if keys.serve.view(view) is None:
        raise WrongKey(f"the config has no view named {view!r}")
    if days and not (days.isascii() and days.isdigit() and 0 < int(days[:9]) <= MOST_DAYS):
        raise WrongKey(f"a key is valid for 1 to {MOST_DAYS} days; leave it empty for a key without an end")
    views = () if view == keys.serve.default_view else (view,)
    expires = time.time() + int(days) * _DAY if days else None
    with explained():
        key, _ = await asyncio.to_thread(keys.stored.add, name, views=views, user=user, expires=expires)
    console.changed("keys")
    return request.say(f"The key {name}, which is not shown again: {key}", "keys")


async def revoke(console: Console, request: PageRequest) -> str:
    keys, name = _keys(console), request.form.get("name")
    with explained():
        was_there = await asyncio.to_thread(keys.stored.revoke, name)
    if not was_there:
        raise WrongKey(f"no key is named {name!r}")
    console.changed("keys")
    return request.say(f"Revoked {name}.", "keys")


def _keys(console: Console) -> ConsoleKeys:
    if console.keys is None:  # since the page was opened
        raise WrongKey("clients can no longer use keys: see serve.auth.keys in the config")
    return console.keys


def _row(keys: ConsoleKeys, key: StoredKey, used: float | None) -> list[Child]:
    is_over = key.expires is not None and key.expires <= time.time()
    expires: Child = "never" if key.expires is None else moment(key.expires)
    return [
        key.name,
        ", ".join(key.views or (keys.serve.default_view,)),
        key.user or "-",
        moment(key.created),
        [badge("expired", "bad"), " ", expires] if is_over else expires,
        "never" if used is None else moment(used),
        _revoking(key.name, key.name),
    ]


def _clients(console: Console) -> Child:
    """The MCP clients that are connected."""
    if console.clients is None:
        return None
    found = console.clients.all
    rows = [_client(console, one) for one in found[:MOST_CLIENTS]]
    more = len(found) - len(rows)
    minutes = round(MODERN_SECONDS / 60)
    without = f"A client without a session is listed for {minutes} minutes after its last request."
    return [
        element("h2", f"Connected clients: {len(found)}"),
        table("Connected clients", _CLIENT_COLUMNS, rows, is_named=True)
        if rows
        else element("p", "No client is connected.", class_="empty"),
        more > 0 and element("p", f"and {more} more", class_="faint"),
        element("p", without, class_="faint"),
    ]


def _client(console: Console, one: ConnectedClient) -> list[Child]:
    who = one.principal
    is_key = who.kind == "key"
    holder = {"local": "this machine", "key": who.name}.get(who.kind, f"{who.kind} {who.name}")
    return [
        f"{one.name or 'unnamed'} {one.version}".strip(),
        f"{one.era}, {one.protocol}",
        element("code", short_session(one.session)) if one.session else "none",
        who.view,
        [holder, f", user {who.user}" if who.user and who.user != who.name else ""],
        moment(one.since),
        [moment(one.called), f" ({counted(one.calls, 'call')})"] if one.called is not None else "never",
        _revoking(who.name, f"client-{one.session or one.name}") if is_key and console.keys else None,
    ]


def _revoking(name: str, place: str) -> Element:
    """A button that asks before it revokes a key."""
    return element(
        "details",
        element("summary", "Revoke", aria_label=f"Revoke {name}"),
        element("p", f"Clients with the key {name} are refused within two seconds."),
        button("Revoke it for good", "keys/revoke", {"name": name}, hint=f"Revoke {name} for good"),
        id=anchor("revoke", place),
    )


def _form(keys: ConsoleKeys) -> Element:
    serve = keys.serve
    views = list(serve.views) or [serve.default_view]
    user = "User whose logins and secrets its calls use (optional)"
    days = {"type": "number", "autocomplete": None, "min": 1, "max": MOST_DAYS}
    return form(
        "keys/add",
        text_field("key-name", "Name, such as who holds it", "name", required=True),
        choice("key-view", "View", "view", {one: one for one in views}, serve.default_view),
        text_field("key-user", user, "user"),
        text_field("key-days", "Days until it expires (optional)", "days", **days),
        element("button", "Add", type="submit", class_="main"),
    )


PAGE = Page(
    path="keys",
    title="Keys",
    render=render,
    topics={"keys"},
    every=10.0,
    actions={"add": add, "revoke": revoke},
    is_there=lambda console: console.keys is not None or console.clients is not None,
)
