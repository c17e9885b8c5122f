"""Switch a server or a tool off or on in the config: the change of the file is shown before it is written."""

import asyncio
import json
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from toolbus.config.editing.config_file import ConfigEdit
from toolbus.config.editing.edit import with_switch
from toolbus.config.editing.edited import EditedFile
from toolbus.config.editing.switch import SwitchedText, ToolSwitch
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.config.secrets.literals import literal_secrets
from toolbus.config.secrets.redact import Redactor, redacted_by_all
from toolbus.console.console import Console
from toolbus.console.elements import Element, element
from toolbus.console.links import is_place
from toolbus.console.page import Fields, Page, PageRequest
from toolbus.console.pages.safety.differences import diff
from toolbus.console.widgets import form, hidden_fields
from toolbus.core.values.errors import ServerNotFound, ToolbusError


class NoFile(ToolbusError):
    """The bus has no config file to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A server or a tool to switch, and the page to return to."""

    server: str
    tool: str
    """The server's own name for it; empty for the whole server."""
    on: bool
    back: str
    """The page to go to afterwards."""

    @classmethod
    def of(cls, given: Fields) -> "Switch":
        back = given.get("back")
        return cls(
            server=given.get("server"),
            tool=given.get("tool"),
            on=given.get("to") == "on",
            back=back if is_place(back) else "lock",
        )

    def __str__(self) -> str:
        return f"{self.server}/{self.tool}" if self.tool else self.server

    @property
    def fields(self) -> dict[str, str]:
        to = "on" if self.on else "off"
        return {"server": self.server, "tool": self.tool, "to": to, "back": self.back}


async def render(console: Console, request: PageRequest) -> Element:
    switch = Switch.of(request.query)
    back = element("p", element("a", "Back", href=switch.back))
    try:
        edit, switched = await asyncio.to_thread(_edit, console, switch)
    except ToolbusError as error:
        return element("div", element("p", str(error), class_="problem"), back)
    word = "Enable" if switch.on else "Disable"
    if edit.after == edit.file.text:
        cause = switched.cause or ""
        state = "enabled" if switch.on else "disabled"
        return element("div", element("p", f"{switch} is already {state}{cause}."), back)
    shown = await asyncio.to_thread(_redacted, console, edit)
    write = form(
        "switch/write",
        hidden_fields({**switch.fields, "digest": edit.digest}),
        element(
            "div",
            element("button", word, type="submit", class_="main"),
            element("a", "Cancel", href=switch.back, class_="button"),
            class_="actions",
        ),
    )
    return element(
        "div",
        element("p", f"{word} {switch}? This changes ", element("code", str(edit.file.path)), ":"),
        diff(shown),
        switched.note and element("p", switched.note, class_="faint"),
        write,
    )


async def write(console: Console, request: PageRequest) -> str:
    """Write the change if it is as it was shown; the running process follows its config by itself."""
    switch = Switch.of(request.form)
    edit, _ = await asyncio.to_thread(_edit, console, switch)
    untrusted = await asyncio.to_thread(edit.save, request.form.get("digest"))
    if not switch.on and switch.tool:
        await _dismiss(console, switch)
    state = "Enabled" if switch.on else "Disabled"
    said = f"{state} {switch} in {edit.file.path}; it counts in a moment."
    return request.say(said, switch.back) if untrusted is None else request.fail(untrusted, switch.back)


async def _dismiss(console: Console, switch: Switch) -> None:
    """Do not ask any more about a held tool that is disabled."""
    one = await console.held.find(switch.server, "tool", switch.tool)
    if one is not None:
        await asyncio.to_thread(console.held.reject, one)
        console.changed("held")


def _edit(console: Console, switch: Switch) -> tuple[ConfigEdit, SwitchedText]:
    console.server_drafts.check()  # a console for other machines may not write the config
    config = console.bus.config
    known = [*config.servers, *config.disabled]
    if switch.server not in known:
        raise ServerNotFound(switch.server, known)
    file = config.file_of(switch.server) if switch.server in config.servers else config.file
    if file is None:
        raise NoFile(f"{switch.server!r} is not in a config file, so the program itself has to switch it")
    edited = EditedFile.read(Path(file), is_named=config.reviewed is None)
    try:
        switched = _switched(console, switch, edited)
    except NotEditable as error:
        key = "exclude" if switch.tool else json.dumps({"disabled": not switch.on})[1:-1]
        raise NoFile(f"{file} {error.problem}: change {key} in the entry {switch.server!r}") from None
    return ConfigEdit(file=edited, after=switched.text), switched


def _switched(console: Console, switch: Switch, edited: EditedFile) -> SwitchedText:
    if switch.server not in edited.servers():
        raise NoFile(f"{edited.path} has no server {switch.server!r}; it is in another file of the config")
    if not switch.tool:
        return SwitchedText(text=with_switch(edited.text, edited.path, switch.server, on=switch.on))
    tools = ToolSwitch(server=switch.server, pattern=escape(switch.tool))
    if not switch.on:
        return tools.off(edited)
    listed = console.bus.inventories.get(switch.server)
    return tools.on(edited, [] if listed is None else [tool.origin.tool for tool in listed.tools])


def _redacted(console: Console, edit: ConfigEdit) -> list[str]:
    """The lines of the change without secrets."""
    servers = console.bus.config.servers.values()
    redactor = Redactor(secret.value for server in servers for secret in literal_secrets(server))
    return [redacted_by_all(redactor(line)) for line in edit.diff]


PAGE = Page(
    path="switch",
    title="Change the config",
    render=render,
    under="lock",
    actions={"write": write},
)
