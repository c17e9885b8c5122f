"""The lock: the state of each server, or how to create a lockfile."""

import asyncio
from collections.abc import Mapping

from toolbus.bus.inner import tenant_of
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.links import held_url, server_link
from toolbus.console.page import Page, PageRequest
from toolbus.console.pages.safety.differences import signs
from toolbus.console.safety.locking import (
    FirstLock,
    LockState,
    LockStatus,
    ServerLock,
    first_lock,
    lock_status,
)
from toolbus.console.widgets import Tone, badge, button, moment, table
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ToolbusError
from toolbus.lock.definitions import KINDS
from toolbus.lock.file import NAME, LockedServer

MOST_NAMES = 20
"""Tools of a server that are named before they are locked for the first time."""
MOST_SIGNS = 50
_TONES: Mapping[LockState, Tone] = {"locked": "good", "only warns": "busy", "off": "quiet"}
"""Everything else waits for an approval."""
_COLUMNS = ("Server", "State", "On hold", "Locked", "Package", "Digest")


class NoLock(ToolbusError):
    """A lockfile cannot be created."""


async def render(console: Console, request: PageRequest) -> Element:
    status = await asyncio.to_thread(lock_status, console.bus, console.lock_digests)
    if status is None:
        return element("div", live("lock", await _without_lock(console)))
    number = len(console.held.open)
    to_review = counted(number, "change") + " on hold to review" if number else "All changes on hold"
    return element(
        "div",
        live("lock-file", _file(status), tag="p"),
        element("p", live("lock-held", element("a", to_review, href="held"), tag="span")),
        live("lock", _table(status)),
    )


async def create(console: Console, request: PageRequest) -> str:
    """Create the lockfile as shown."""
    found = await _first(console) if console.bus.lock is None else None
    if found is None:
        raise NoLock(f"there is a {NAME} already, or no config file beside which it could be")
    await asyncio.to_thread(found.write, request.form.get("digest"))
    await console.use_approved()
    return request.say(f"Created {found.path}. Commit it, so that your team approves the same.", "lock")


# With a lockfile


def _file(status: LockStatus) -> list[Child]:
    when: list[Child] = [] if status.written is None else [", written ", moment(status.written)]
    gone = f"; in it, but not in the config: {', '.join(status.gone)}" if status.gone else ""
    return [element("code", str(status.path), class_="breakable"), *when, gone]


def _table(status: LockStatus) -> Element:
    rows = [_row(one) for one in status.servers]
    return table("The lock of each server", _COLUMNS, rows, is_named=True)


def _row(one: ServerLock) -> list[Child]:
    return [
        server_link(one.server),
        badge(one.state, _TONES.get(one.state, "busy")),
        one.held > 0 and element("a", counted(one.held, "change"), href=held_url(one.server)),
        None if one.locked is None else _counts(one.locked),
        None if one.locked is None else _package(one.locked),
        one.digest and element("code", one.digest.removeprefix("sha256:")[:12], title=one.digest),
    ]


def _counts(locked: LockedServer) -> str:
    found = [counted(len(locked.definitions[kind]), kind[:-1]) for kind in KINDS if locked.definitions[kind]]
    found += ["instructions"] if locked.instructions else []
    return ", ".join(found) or "nothing"


def _package(locked: LockedServer) -> str:
    name, version = locked.package.get("name"), locked.package.get("version")
    return f"{name} {version or ''}".strip() if name else ""


# Without one


async def _without_lock(console: Console) -> list[Child]:
    config = console.bus.config
    if config.file is None:
        return [element("p", "This bus has no config file, so there can be no lockfile beside it.")]
    command = element("code", f"toolbus lock --config {config.file}")
    shown: list[Child] = [
        element("p", f"The config has no {NAME}, so agents get every change of a server at once."),
        element(
            "p",
            f"A {NAME} holds changed and new tools until you approve them. To create it, run ",
            command,
        ),
    ]
    found = await _first(console)
    if found is None or not found.servers:
        return [*shown, element("p", "No server is connected whose tools could be locked here.")]
    return [*shown, *await asyncio.to_thread(_offer, found)]


def _offer(found: FirstLock) -> list[Child]:
    rows = [[server_link(alias), _named(one), found.launches[alias]] for alias, one in found.servers.items()]
    flagged = [f"{one.server}{f'/{one.tool}' if one.tool else ''}: {one.reason}" for one in found.signs]
    more = len(flagged) - MOST_SIGNS
    return [
        element("h2", "Or lock what the servers offer now"),
        signs([*flagged[:MOST_SIGNS], *([f"and {more} more"] if more > 0 else [])]),
        flagged
        and element("p", "Parts with such signs are left out of the lock: review each of them afterwards."),
        found.missing
        and element(
            "p", f"These servers are not connected, so they are left out: {', '.join(found.missing)}"
        ),
        table("The first lock", ("Server", "Offers", "Launched by"), rows, is_named=True),
        button(f"Create {NAME}", "lock/create", {"digest": found.digest}, class_="main"),
    ]


def _named(server: LockedServer) -> str:
    names = list(server.definitions["tools"])
    more = len(names) - MOST_NAMES
    listed = ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"{_counts(server)}: {listed}" if names else _counts(server)


async def _first(console: Console) -> FirstLock | None:
    bus = console.bus
    ready = {alias: status.state == "ready" for alias, status in bus.servers.items()}
    listed = dict(tenant_of(bus).live.snapshot.unreviewed)
    return await asyncio.to_thread(first_lock, bus.config, listed, ready)


PAGE = Page(
    path="lock",
    title="Lock",
    render=render,
    topics={"held", "servers", "catalog"},
    actions={"create": create},
)
