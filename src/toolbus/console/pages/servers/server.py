"""One server: how it is launched, what it offers, its calls, restarts and stderr, and its buttons."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode

from toolbus.bus.inner import tenant_of
from toolbus.config import ServerConfig
from toolbus.connect.link import LinkEnd
from toolbus.console.call_log import CallRecord
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.links import call_link, server_url, tool_link
from toolbus.console.page import Page, PageRequest
from toolbus.console.pages.servers.actions import actions_of
from toolbus.console.pages.servers.health import is_looping, strip_of
from toolbus.console.pages.servers.parts import (
    copyable,
    how_it_ended,
    launch_line,
    offers_sign_in,
    reason_of,
    server_button,
    sign_in_panel,
    state_badge,
)
from toolbus.console.widgets import Tone, badge, facts, form, moment, table, text_field
from toolbus.core.text.display import counted, duration
from toolbus.core.values.records import ServerStatus
from toolbus.state.stderr_log import StderrLine, logged_lines, stderr_path

MOST_TOOLS = 200
MOST_CALLS = 10
LINES_SHOWN = 100
LONGEST_LINE = 300
"""Characters of a line on stderr that are shown."""


async def render(console: Console, request: PageRequest) -> Element:
    alias, config = request.query.get("name"), console.bus.config
    status, server = console.bus.servers.get(alias), config.servers.get(alias)
    if status is None or server is None:
        return element(
            "div",
            live("server-state", _not_running(console, alias)),
            live("server-actions", _actions(console, alias), class_="actions section"),
        )
    words = request.query.get("search")
    lines = await _stderr_lines(console, alias, words)
    return element(
        "div",
        live("server-state", _state(console, server, status)),
        live("server-sign-in", sign_in_panel(alias, console.sign_ins.now.get(alias))),
        live("server-actions", _actions(console, alias), class_="actions section"),
        element("section", element("h2", "Launch"), _launch(console, server), class_="section"),
        live("server-ends", _ends(console, alias), tag="section", class_="section"),
        live("server-calls", _calls(console, alias), tag="section", class_="section"),
        live("server-tools", _tools(console, alias), tag="section", class_="section"),
        server.command is not None
        and element(
            "section",
            element("h2", "stderr"),
            _search(alias, words),
            live("server-stderr", _stderr(alias, lines, words)),
            class_="section",
        ),
    )


# The parts


def _not_running(console: Console, alias: str) -> Child:
    config = console.bus.config
    if alias in config.disabled:
        where = config.file or "the config"
        return [_name(alias, badge("disabled", "quiet")), element("p", f"{alias} is disabled in {where}.")]
    if alias in config.outside:
        text = f"The profile {config.profile!r}, which this bus uses, does not have {alias}."
        return [_name(alias, badge("not used", "quiet")), element("p", text)]
    text = f"No server is named {alias} here. If it was just saved, it will appear within seconds."
    return [_name(alias, badge("unknown", "quiet")), element("p", text)]


def _name(alias: str, state: Element) -> Element:
    return element("div", element("h2", alias), state, class_="title")


def _state(console: Console, config: ServerConfig, status: ServerStatus) -> Child:
    alias, error = config.alias, console.bus.failures.get(config.alias)
    era = status.era and (f"{status.era} ({status.protocol})" if status.protocol else status.era)
    return [
        _name(alias, state_badge(status.state, is_looping=is_looping(console, alias))),
        error and element("p", reason_of(error), class_="problem"),
        facts(
            {
                "since": moment(status.since),
                "transport": config.transport,
                "protocol": era,
                "legacy clients": _second_link(console, alias),
                "tools": status.tools,
                "restarts": status.restarts,
                "24 hours": strip_of(console, alias),
            }
        ),
    ]


def _second_link(console: Console, alias: str) -> str | None:
    """The state of the link for legacy clients, if there is one beside the first."""
    server = tenant_of(console.bus).servers.by_alias.get(alias)
    return None if server is None or server.second is None else server.second.state


def _actions(console: Console, alias: str) -> Child:
    config = console.bus.config
    known, runs = alias in config.servers or alias in config.disabled, alias in config.servers
    if not known:
        return element("a", "All servers", href="servers", class_="button")
    sign_in_button = runs and offers_sign_in(console, config.servers[alias])
    switch = "Disable" if runs else "Enable"
    return [
        sign_in_button and server_button("Sign in", "sign-in", alias, f"Sign in to {alias}", class_="main"),
        runs and server_button("Restart", "restart", alias, f"Restart {alias}"),
        _link("Edit", alias),
        _link(switch, alias, switch.lower()),
        _link("Remove", alias, "remove"),
    ]


def _link(label: str, alias: str, switch: str = "") -> Element:
    query = urlencode({"name": alias, **({"switch": switch} if switch else {})})
    return element("a", label, href=f"edit-server?{query}", class_="button", aria_label=f"{label} {alias}")


def _launch(console: Console, server: ServerConfig) -> Child:
    inherited = server.inherit_env
    passed = inherited if isinstance(inherited, str) else ", ".join(("safe", *inherited))
    is_program = server.command is not None
    return [
        copyable(
            "launch",
            launch_line(server),
            "the launch line" if is_program else "the document" if server.openapi else "the URL",
        ),
        facts(
            {
                "config": element("span", console.bus.config.file_of(server.alias) or "", class_="breakable"),
                "folder": server.cwd and element("span", server.cwd, class_="breakable"),
                "variables": ", ".join(server.env) or None,
                "variables from": server.env_file,
                "inherits": passed if is_program else None,
                "headers": ", ".join(server.headers) or None,
                "sign-in": server.auth.type if server.auth is not None else None,
                "sandbox": ("yes" if server.sandbox is not None else "no") if is_program else None,
                "registry": server.registry,
            }
        ),
    ]


def _ends(console: Console, alias: str) -> Child:
    link = tenant_of(console.bus).servers.links.get(alias)
    ends: Sequence[LinkEnd] = [] if link is None else [*link.ends][::-1]
    if not ends:
        text = "It has not ended by itself since this process started."
        return [element("h2", "Restarts"), element("p", text, class_="empty")]
    rows = [
        [
            moment(one.at),
            how_it_ended(one),
            element("span", (one.last_line or one.reason)[:LONGEST_LINE], class_="breakable"),
        ]
        for one in ends[:LINES_SHOWN]
    ]
    return [
        element("h2", "Restarts"),
        table("Restarts and failed attempts", ("When", "How it ended", "Last line"), rows),
    ]


def _calls(console: Console, alias: str) -> Child:
    records: Iterable[CallRecord] = [*console.calls.in_flight, *console.calls.ended]
    own = [one for one in records if one.server == alias][:MOST_CALLS]
    everything = element("a", "All calls", href=f"calls?{urlencode({'server': alias})}")
    heading = element("div", element("h2", "Calls"), everything, class_="title")
    if not own:
        return [heading, element("p", "No call of this server is known.", class_="empty")]
    rows = [
        [
            call_link(str(one.id), one.name),
            moment(one.at),
            duration(console.calls.running_for(one)),
            badge(*_outcome(one)),
        ]
        for one in own
    ]
    return [heading, table("Calls", ("Call", "Started", "Took", "Outcome"), rows)]


def _outcome(record: CallRecord) -> tuple[str, Tone]:
    if record.outcome is None:
        return "running", "busy"
    words = str(record.outcome).replace("_", " ").replace("cancelled", "canceled")
    return words, "bad" if record.is_error and words != "canceled" else "good" if words == "ok" else "quiet"


def _tools(console: Console, alias: str) -> Child:
    own = [spec for spec in console.bus.catalog if spec.origin.server == alias]
    more = len(own) - MOST_TOOLS
    return [
        element("h2", counted(len(own), "tool") if own else "Tools"),
        element("ul", [element("li", tool_link(one.name)) for one in own[:MOST_TOOLS]], class_="tool-names")
        if own
        else element("p", "None of its tools is in the catalog.", class_="empty"),
        more > 0
        and element(
            "p",
            f"and {more:,} more, under ",
            element("a", "Tools", href=f"tools?{urlencode({'server': alias})}"),
        ),
    ]


# stderr


async def _stderr_lines(console: Console, alias: str, words: str) -> list[StderrLine]:
    """The last lines that `toolbus logs` shows; without such a log, those that the connection knows."""
    file = console.bus.config.file
    found: list[StderrLine] = []
    if file is not None:
        found = await asyncio.to_thread(_logged, file, alias, words)
    if not found:
        known = (StderrLine("", line) for line in console.bus.stderr(alias))
        found = [line for line in known if words.casefold() in line.text.casefold()]
    return found[-LINES_SHOWN:]


def _logged(file: str, alias: str, words: str) -> list[StderrLine]:
    try:
        return logged_lines(Path(stderr_path(file, alias)), words=words, most=LINES_SHOWN)
    except OSError:
        return []


def _search(alias: str, words: str) -> Element:
    label, field = text_field("stderr-search", "Search", "search", type="search", value=words)
    line = element("div", field, element("button", "Search", type="submit"), class_="search")
    name = element("input", type="hidden", name="name", value=alias)
    return form("server", name, label, line, method="get", role="search")


def _stderr(alias: str, lines: Sequence[StderrLine], words: str) -> Child:
    if not lines:
        none = "No line has these words." if words else "Nothing was written to stderr."
        return element("p", none, class_="empty")
    shown = [[_time(line.at), line.text[:LONGEST_LINE], "\n"] for line in lines]
    most = f"The last {LINES_SHOWN} lines" if len(lines) == LINES_SHOWN else counted(len(lines), "line")
    return [
        element("p", f"{most}; the whole log: toolbus logs {alias}", class_="faint"),
        element("pre", shown, tabindex=0, aria_label=f"stderr of {alias}", data_follow=True),
    ]


def _time(at: str) -> Child:
    if not at:
        return None
    try:
        shown = datetime.fromisoformat(at).strftime("%H:%M:%S")
    except ValueError:  # somebody else wrote it
        return None
    return [element("span", shown, class_="faint", title=at), " "]


PAGE = Page(
    path="server",
    title="Server",
    render=render,
    topics={"servers", "catalog", "calls"},
    every=2.0,
    scripts=("servers.js",),
    actions=actions_of(server_url),
    under="servers",
)
