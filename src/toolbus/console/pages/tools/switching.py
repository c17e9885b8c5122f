"""Switch a tool off or on in the config file: the change is shown first, and written only as it was shown."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from toolbus.config import BusConfig
from toolbus.config.editing.config_file import ConfigEdit
from toolbus.config.editing.edited import EditedFile
from toolbus.config.editing.switch import NotSwitched, SwitchedText, ToolSwitch
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.console.console import Console
from toolbus.console.elements import Element, element
from toolbus.console.links import tool_url
from toolbus.console.page import PageRequest
from toolbus.console.widgets import form, hidden_fields
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import Origin

Switch: TypeAlias = Literal["on", "off"]
SWITCHES: tuple[Switch, ...] = ("on", "off")


def switch_of(text: str) -> Switch | None:
    return next((one for one in SWITCHES if one == text), None)


async def switch_panel(console: Console, origin: Origin, to: Switch) -> Element:
    """The change of the file that switches a tool, with the button that writes it."""
    back = element("a", "Leave it as it is", href=tool_url(str(origin)), class_="button")
    try:
        edit, switched = await _edit(console, origin, to)
    except (ToolbusError, OSError) as error:
        return _panel(origin, to, element("p", str(error), class_="problem"), back)
    if edit.after == edit.file.text:
        return _panel(origin, to, element("p", f"It is already {to} in the file{switched.cause}."), back)
    fields = {"server": origin.server, "tool": origin.tool, "to": to, "digest": edit.digest}
    return _panel(
        origin,
        to,
        element("p", "This is the change of ", element("code", str(edit.file.path), class_="breakable"), ":"),
        element("pre", [_line(one) for one in edit.diff], tabindex=0, aria_label="the change of the file"),
        switched.note != "" and element("p", switched.note, class_="problem"),
        form(
            "tools/switch",
            hidden_fields(fields),
            element(
                "div",
                element("button", "Write this change", type="submit", class_="main", autofocus=True),
                back,
                class_="actions",
            ),
        ),
    )


async def switch(console: Console, request: PageRequest) -> str:
    """Write the change that was shown, and no other."""
    origin, to = (
        Origin(request.form.get("server"), request.form.get("tool")),
        switch_of(request.form.get("to")),
    )
    if to is None or origin.server not in console.bus.config.servers or not origin.tool:
        return request.fail(f"There is no tool {str(origin)!r} to switch.", "tools")
    try:
        edit, _ = await _edit(console, origin, to)
        problem = await asyncio.to_thread(edit.save, request.form.get("digest"))
    except ToolbusError as error:
        return request.fail(str(error), tool_url(str(origin), switch=to))
    said = f"Switched {origin} {to}; the change is in use as soon as the config is read again."
    return request.say(f"{said} {problem}." if problem else said, tool_url(str(origin)))


async def _edit(console: Console, origin: Origin, to: Switch) -> tuple[ConfigEdit, SwitchedText]:
    config, inventory = console.bus.config, console.bus.inventories.get(origin.server)
    known = () if inventory is None else [tool.origin.tool for tool in inventory.tools]
    return await asyncio.to_thread(_edited, config, origin, to, known)


def _edited(
    config: BusConfig, origin: Origin, to: Switch, known: Sequence[str]
) -> tuple[ConfigEdit, SwitchedText]:
    """The change of the file that has the server."""
    file = config.file_of(origin.server)
    if file is None:
        raise NotSwitched(
            f"server {origin.server!r} is in no config file; its program decides about its tools"
        )
    edited = EditedFile.read(Path(file), is_named=config.reviewed is None)
    if origin.server not in edited.servers():
        raise NotSwitched(f"server {origin.server!r} is not in {edited.path} any more")
    one = ToolSwitch(server=origin.server, pattern=_exactly(origin.tool))
    try:
        switched = one.off(edited) if to == "off" else one.on(edited, known)
    except NotEditable as error:
        problem = f"{edited.path} {error.problem}: change exclude in the entry {origin.server!r}"
        raise NotSwitched(problem) from None
    return ConfigEdit(file=edited, after=switched.text), switched


def _exactly(tool: str) -> str:
    """The pattern that matches this name alone."""
    return "".join(f"[{mark}]" if mark in "*?[" else mark for mark in tool)


def _panel(origin: Origin, to: Switch, *content: Element | bool) -> Element:
    heading = "switch-title"
    return element(
        "section",
        element("h3", f"Switch {origin} {to}", id=heading),
        content,
        id="switch",
        class_="card",
        aria_labelledby=heading,
    )


def _line(text: str) -> Element:
    kind = {"+": "ins", "-": "del"}.get(text[:1], "span")
    return element(kind, f"{text}\n")
