"""Switch a tool off or on in the config file: the change is shown first, and written only as it was shown."""

import asyncio
from collections.abc import Sequence
from typing import Literal, TypeAlias

from toolbus.config import BusConfig
from toolbus.config.editing.edited import EditedFile
from toolbus.config.editing.switch import SwitchedText, ToolSwitch
from toolbus.console.console import Console
from toolbus.console.editing.plan import FilePlan, file_with, planned
from toolbus.console.elements import Child, Element, element
from toolbus.console.links import tool_url
from toolbus.console.page import PageRequest
from toolbus.console.pages.servers.parts import difference_section
from toolbus.console.widgets import form, hidden_fields
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import Origin

Switch: TypeAlias = Literal["on", "off"]
SWITCHES: tuple[Switch, ...] = ("on", "off")
USED_WITHIN = 4.0
"""Seconds for the bus to use the change, before the page is shown again."""


def switch_of(text: str) -> Switch | None:
    return next((one for one in SWITCHES if one == text), None)


async def switch_panel(console: Console, origin: Origin, to: Switch) -> Element:
    """The change of the file that switches a tool, with the button that writes it."""
    back = element("a", "Leave it as it is", href=tool_url(str(origin)), class_="button")
    try:
        console.server_drafts.check()
        plan, switched = await _plan(console, origin, to)
        problem = plan.problem
    except (ToolbusError, OSError) as error:
        return _panel(origin, to, element("p", str(error), class_="problem"), back)
    if problem is not None:
        return _panel(origin, to, element("p", problem, class_="problem"), back)
    if not plan.is_change:
        return _panel(origin, to, element("p", f"It is already {to} in the file{switched.cause}."), back)
    fields = {"server": origin.server, "tool": origin.tool, "to": to, "digest": plan.digest}
    write = element("button", "Write this change", type="submit", class_="main", autofocus=True)
    return _panel(
        origin,
        to,
        switched.note != "" and element("p", switched.note, class_="problem"),
        await asyncio.to_thread(
            difference_section,
            plan,
            form("tools/switch", hidden_fields(fields), element("div", write, back, class_="actions")),
        ),
    )


async def switch(console: Console, request: PageRequest) -> str:
    """Write the change that was shown, and no other."""
    origin = Origin(request.form.get("server"), request.form.get("tool"))
    to = switch_of(request.form.get("to"))
    config = console.bus.config
    if to is None or origin.server not in config.servers or not origin.tool:
        return request.fail(f"There is no tool {str(origin)!r} to switch.", "tools")
    before, page = config.servers[origin.server], tool_url(str(origin), switch=to)
    try:
        console.server_drafts.check()
        plan, _ = await _plan(console, origin, to)
        if plan.digest != request.form.get("digest"):
            return request.fail("The file has changed since it was shown. Nothing was written.", page)
        if (problem := plan.problem) is not None:
            return request.fail(problem, page)
        note = await asyncio.to_thread(plan.edited.save, plan.after)
    except (ToolbusError, OSError) as error:
        return request.fail(str(error), page)
    await console.server_drafts.until_used(lambda now: now.servers.get(origin.server) != before, USED_WITHIN)
    return request.say(f"Switched {origin} {to}. {note or ''}".strip(), tool_url(str(origin)))


async def _plan(console: Console, origin: Origin, to: Switch) -> tuple[FilePlan, SwitchedText]:
    config, inventory = console.bus.config, console.bus.inventories.get(origin.server)
    known = () if inventory is None else [tool.origin.tool for tool in inventory.tools]
    return await asyncio.to_thread(planned_switch, config, origin, to, known)


def planned_switch(
    config: BusConfig, origin: Origin, to: Switch, known: Sequence[str]
) -> tuple[FilePlan, SwitchedText]:
    """The change of the file that has the server."""
    one = ToolSwitch(server=origin.server, pattern=_exactly(origin.tool))
    found: list[SwitchedText] = []

    def change(edited: EditedFile) -> str:
        found.append(one.off(edited) if to == "off" else one.on(edited, known))
        return found[0].text

    plan = planned(config, file_with(config, origin.server), origin.server, change)
    return plan, found[0]


def _exactly(tool: str) -> str:
    """The pattern that matches this name alone."""
    return "".join(f"[{mark}]" if mark in "*?[" else mark for mark in tool)


def _panel(origin: Origin, to: Switch, *content: Child) -> Element:
    heading = "switch-title"
    return element(
        "section",
        element("h3", f"Switch {origin} {to}", id=heading),
        content,
        id="switch",
        class_="card",
        aria_labelledby=heading,
    )
