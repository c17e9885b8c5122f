"""The tools: all of them by server on one side, and on the other one tool, to be looked at and called."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolbus.bus.calls import ForeseenCall
from toolbus.bus.inner import calls_of
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.links import tool_url
from toolbus.console.page import Notice, Page, PageRequest
from toolbus.console.pages.tools.arguments import ArgumentForm
from toolbus.console.pages.tools.form import TypedArguments, form_widget, verdict_widget
from toolbus.console.pages.tools.listing import ListQuery, ListSource, search_form, tool_list
from toolbus.console.pages.tools.result import save_result
from toolbus.console.pages.tools.switching import switch, switch_of, switch_panel
from toolbus.console.pages.tools.tool import about_tool, trial_side, trial_url
from toolbus.console.trials import Draft, Trial
from toolbus.core.values.errors import CallDenied, ToolbusError
from toolbus.core.values.records import ToolSpec

_CONTROLS = frozenset({"name", "do"})
"""The fields of the form that are no arguments."""


async def render(console: Console, request: PageRequest) -> Element:
    """The whole page, or the one part of it that the script asks for."""
    query, only = ListQuery.of(request.query), request.query.get("only")
    if only == "verdict":
        return element("div", await _verdict_alone(console, request, query.tool))
    side = None if only == "pane" else await _side(console, query)
    pane = None if only == "list" else await _pane(console, request, query.tool)
    return element("div", side, pane, class_="tools with-tool" if query.tool else "tools")


async def _side(console: Console, query: ListQuery) -> Element:
    source = await ListSource.of(console)
    shown = await asyncio.to_thread(tool_list, source, query)
    return element("section", search_form(query), shown, class_="tools-side", aria_label="All tools")


# One tool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The form of a tool as the page shows it."""

    typed: TypedArguments
    call: ForeseenCall | None
    """The call that would be made; None if the arguments cannot be read."""
    problem: str = ""
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    focus: str = ""


async def _pane(console: Console, request: PageRequest, name: str) -> Element:
    back = element("p", element("a", "All tools", href="tools"), class_="to-list")
    if not name:
        return element("section", element("p", "Choose a tool.", class_="empty"), id="pane")
    spec = console.bus.catalog.get(name)
    if spec is None:
        return element("section", back, await _missing(console, request, name), id="pane")
    draft, selected = _kept(console, request, spec)
    shown = await _shown(console, spec, draft, await _typed_before(console, request, spec, draft, selected))
    tokens = (await console.costs.of([spec]))[spec.name]
    to = switch_of(request.query.get("switch"))
    return element(
        "section",
        back,
        about_tool(spec, _as_listed(console, spec), tokens),
        to and await switch_panel(console, spec.origin, to),
        element(
            "div",
            element(
                "section",
                verdict_widget(shown.typed, shown.call),
                form_widget(spec, shown.typed, shown.problem, shown.problems, shown.focus),
                class_="card",
                aria_label="Call it",
            ),
            trial_side(console, spec, selected, request.apps),
            class_="sides",
        ),
        id="pane",
    )


async def _missing(console: Console, request: PageRequest, name: str) -> Child:
    """A tool that cannot be called: it is switched off, denied, on hold, or unknown."""
    found = [
        tool
        for inventory in console.bus.inventories.values()
        for tool in inventory.tools
        if str(tool.origin) == name
    ]
    error = calls_of(console.bus).missing(name, console.bus.catalog.names)
    reason = live("tool-missing", element("p", str(error), class_="problem"), role="status")
    if not found:
        return reason
    if isinstance(error, CallDenied):
        return [about_tool(found[0], None, {}, "denied"), reason]
    to = switch_of(request.query.get("switch"))
    return [
        about_tool(found[0], None, {}, "off"),
        live("tool-missing", element("p", "No client can call it now."), role="status"),
        to and await switch_panel(console, found[0].origin, to),
    ]


def _as_listed(console: Console, spec: ToolSpec) -> ToolSpec | None:
    """The tool as its server describes it."""
    inventory = console.bus.inventories.get(spec.origin.server)
    tools = () if inventory is None else inventory.tools
    return next((tool for tool in tools if tool.origin == spec.origin), None)


def _kept(console: Console, request: PageRequest, spec: ToolSpec) -> tuple[Draft | None, Trial | None]:
    """The form that was not sent, and the call that the page shows: those in its URL, or the newest call."""
    draft = _number(request.query.get("draft"))
    trial = console.trials.get(_number(request.query.get("trial")))
    if trial is None or trial.tool != spec.name:
        trial = next(iter(console.trials.of(spec.name)), None)
    return console.forms.get(draft, spec.name), trial


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 20 else -1


async def _typed_before(
    console: Console, request: PageRequest, spec: ToolSpec, draft: Draft | None, selected: Trial | None
) -> Mapping[str, list[str]] | None:
    """The text to begin with: of a draft, of an earlier call, or of the newest call from here."""
    if draft is not None:
        return draft.typed
    if earlier := request.query.get("again"):
        arguments = await console.arguments_of(earlier)
        if arguments is None:
            return None
        return (await asyncio.to_thread(ArgumentForm, spec.input_schema, value=dict(arguments))).typed
    return None if selected is None or "fresh" in request.query else selected.typed


async def _shown(
    console: Console, spec: ToolSpec, draft: Draft | None, typed: Mapping[str, list[str]] | None
) -> _Shown:
    read = await _read(spec, typed)
    call = _foreseen(console, spec, read)
    if draft is None:
        return _Shown(typed=read, call=call)
    return _Shown(typed=read, call=call, problem=draft.problem, problems=draft.problems, focus=draft.focus)


async def _read(spec: ToolSpec, typed: Mapping[str, list[str]] | None) -> TypedArguments:
    # The form of a call that was not made on this page has nothing typed in it.
    return await asyncio.to_thread(TypedArguments.read, spec.input_schema, typed or None)


def _foreseen(console: Console, spec: ToolSpec, typed: TypedArguments) -> ForeseenCall | None:
    return calls_of(console.bus).foreseen(spec, typed.arguments) if typed.is_readable else None


async def _verdict_alone(console: Console, request: PageRequest, name: str) -> Child:
    spec = console.bus.catalog.get(name)
    draft = None if spec is None else console.forms.get(_number(request.query.get("draft")), spec.name)
    if spec is None or draft is None:
        return None
    read = await _read(spec, draft.typed)
    return verdict_widget(read, _foreseen(console, spec, read))


# Actions


def _sent(request: PageRequest) -> dict[str, list[str]]:
    return {key: values for key, values in request.form.lists.items() if key not in _CONTROLS}


def _unknown(request: PageRequest) -> str:
    return request.fail(f"There is no tool {request.form.get('name')!r} in the catalog now.", "tools")


async def call(console: Console, request: PageRequest) -> str:
    """Begin a call, unless the arguments have a problem; the page then shows its result."""
    spec = console.bus.catalog.get(request.form.get("name"))
    if spec is None:
        return _unknown(request)
    typed = _sent(request)
    read = await _read(spec, typed)
    found = _foreseen(console, spec, read)
    if found is None or found.problem is not None:
        return _refused(console, request, spec, read, found)
    try:
        session = f"console-{request.session}"
        trial = console.trials.call(spec.name, read.arguments, read.typed, session, found.sent)
    except ToolbusError as error:  # too much at once
        return request.fail(str(error), tool_url(spec.name))
    return f"{trial_url(trial)}#trial"


def _refused(
    console: Console, request: PageRequest, spec: ToolSpec, read: TypedArguments, found: ForeseenCall | None
) -> str:
    """Keep a form with its problems; the first such field gets the focus."""
    problem, problems = (read.problem, dict(read.problems)) if found is None else read.with_foreseen(found)
    keys = () if read.form is None else read.form.by_key
    focus = next((key for key in keys if key in problems), "")
    return _draft(console, request, spec, read.typed, problem=problem, problems=problems, focus=focus)


def _draft(
    console: Console, request: PageRequest, spec: ToolSpec, typed: Mapping[str, list[str]], **more: Any
) -> str:
    try:
        draft = console.forms.keep(spec.name, typed, **more)
    except ToolbusError as error:
        return request.fail(str(error), tool_url(spec.name))
    return tool_url(spec.name, draft=draft.number)


async def edit(console: Console, request: PageRequest) -> str:
    """Change the form without a call: add an item, turn fields into JSON, or check them."""
    spec = console.bus.catalog.get(request.form.get("name"))
    if spec is None:
        return _unknown(request)
    read = await _read(spec, _sent(request))
    do, _, key = request.form.get("do").partition(" ")
    match do:
        case "check":
            found = _foreseen(console, spec, read)
            if found is None or found.problem is not None:
                return _refused(console, request, spec, read, found)
            return _draft(console, request, spec, read.typed)
        case "foresee":
            place = _draft(console, request, spec, read.typed, slot=request.session)
            return f"{place}&only=verdict"
        case "json":
            return _draft(console, request, spec, await asyncio.to_thread(read.as_text))
        case "form":
            if read.problem:
                return _refused(console, request, spec, read, None)
            return _draft(console, request, spec, await asyncio.to_thread(read.as_fields, spec.input_schema))
        case _:
            typed, focus = await asyncio.to_thread(_reshaped, read, do, key)
            return _draft(console, request, spec, typed, focus=focus)


def _reshaped(read: TypedArguments, do: str, key: str) -> tuple[Mapping[str, list[str]], str]:
    """The text after a change of the form's shape, and the key that gets the focus."""
    if read.form is None:
        return read.typed, ""
    where, _, item = key.partition(" ")
    match do:
        case "add":
            return read.form.with_item(where), read.form.next_key(where)
        case "remove":
            return read.form.without(where, _number(item)), where
        case _:
            return read.typed, where


async def again(console: Console, request: PageRequest) -> str:
    """Make a call once more, with the same arguments."""
    trial = console.trials.get(_number(request.form.get("trial")))
    if trial is None:
        return request.fail("That call is not kept any more.", "tools")
    session = f"console-{request.session}"
    try:
        fresh = console.trials.call(trial.tool, trial.arguments, trial.typed, session, trial.sent)
    except ToolbusError as error:
        return request.fail(str(error), trial_url(trial))
    return f"{trial_url(fresh)}#trial"


async def cancel(console: Console, request: PageRequest) -> str:
    trial = console.trials.get(_number(request.form.get("trial")))
    if trial is None or not console.trials.cancel(trial.number):
        request.notice = Notice(text="That call has ended.", kind="failed")
    return "tools" if trial is None else f"{trial_url(trial)}#trial"


PAGE = Page(
    path="tools",
    title="Tools",
    render=render,
    topics={"catalog", "trials", "questions", "servers"},
    scripts=("apps.js", "tools.js"),
    shows_apps=True,
    actions={"call": call, "edit": edit, "again": again, "cancel": cancel, "switch": switch},
    downloads={"result": save_result},
)
