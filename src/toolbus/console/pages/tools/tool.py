"""One tool: what it says of itself, and a form to try it, with what came of the last calls."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlencode

from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.fields import InputField, arguments_of, field_widget, fields_of_schema
from toolbus.console.page import Notice, Page, PageRequest
from toolbus.console.pages.tools.catalog import link_to
from toolbus.console.trials import Outcome, Trial
from toolbus.console.widgets import (
    Tone,
    as_json,
    badge,
    button,
    facts,
    form,
    hidden_fields,
    moment,
    result_widget,
    titled,
)
from toolbus.core.text.display import counted, duration
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import ToolSpec

_TONES: dict[Outcome, Tone] = {"running": "busy", "done": "good", "failed": "bad", "canceled": "quiet"}
_HINTS = {
    "readOnlyHint": ("reads only", "may change things"),
    "destructiveHint": ("may destroy", "does not destroy"),
    "idempotentHint": ("may be repeated", "a repeated call acts again"),
    "openWorldHint": ("reaches other systems", "stays within its own system"),
}


async def render(console: Console, request: PageRequest) -> Element:
    name = request.query.get("name")
    back = element("p", element("a", "All tools", href="catalog"))
    spec = console.bus.catalog.get(name)
    selected = _selected(console, name, request.query.get("trial"))
    known = element("div") if spec is None else await _tool(console, spec, selected)
    missing = element("p", f"There is no tool {name!r} in the catalog now.", class_="problem")
    return element(
        "div",
        back,
        live("tool-missing", spec is None and missing, role="status"),
        element(
            "div",
            known,
            element(
                "div",
                # For those who do not see the badge change.
                live("trial-outcome", selected and _said(selected), role="status", class_="spoken"),
                live("trial", selected and _trial(selected)),
                live("trials", _list(console, name, selected)),
            ),
            class_="sides",
        ),
    )


async def call(console: Console, request: PageRequest) -> str:
    """Begin a call; the page then shows what comes of it."""
    name, typed = request.form.get("name"), request.form.lists
    spec = console.bus.catalog.get(name)
    if spec is None:
        return request.fail(f"There is no tool {name!r} in the catalog now.", "catalog")
    try:
        arguments = arguments_of(await _fields(spec), typed)
        return _place(console.trials.call(spec.name, arguments, typed, f"console-{request.session}"))
    except ValueError as error:
        return _place(console.trials.refuse(spec.name, typed, str(error)))
    except ToolbusError as error:  # too much at once
        return request.fail(str(error), link_to(spec))


async def cancel(console: Console, request: PageRequest) -> str:
    number = request.form.get("trial")
    trial = console.trials.get(int(number)) if number.isdecimal() else None
    if trial is None or not console.trials.cancel(trial.number):
        request.notice = Notice(text="That call has ended.", kind="failed")
    return "catalog" if trial is None else _place(trial)


def _said(trial: Trial) -> str:
    return f"Call {trial.number}: {trial.outcome}"


def _selected(console: Console, name: str, number: str) -> Trial | None:
    """The call that the page shows: the one in its URL, or the newest."""
    trial = console.trials.get(int(number)) if number.isdecimal() and len(number) < 20 else None
    if trial is not None and trial.tool == name:
        return trial
    return next(iter(console.trials.of(name)), None)


def _place(trial: Trial) -> str:
    return f"tool?{urlencode({'name': trial.tool, 'trial': trial.number})}#trial"


# What the tool says of itself


async def _tool(console: Console, spec: ToolSpec, selected: Trial | None) -> Element:
    tokens = (await console.costs.of([spec]))[spec.name]
    fields = await _fields(spec)
    given = {key: _hint(spec, key) for key in _HINTS}
    hints = [_HINTS[key][0 if hint else 1] for key, hint in given.items() if hint is not None]
    return element(
        "section",
        element("h2", spec.name, id="tool-name"),
        element("p", spec.description or "It has no description.", class_="description"),
        facts(
            {
                "server": spec.origin.server,
                "its own name": spec.origin.tool if spec.origin.tool != spec.name else None,
                "title": spec.title,
                "the server says": ", ".join(hints) or None,
                "tokens": ", ".join(f"{count:,} ({provider})" for provider, count in tokens.items()) or None,
            }
        ),
        _source("Input schema", "input-schema", spec.input_schema),
        spec.output_schema is not None and _source("Output schema", "output-schema", spec.output_schema),
        bool(spec.annotations) and _source("Annotations", "annotations", spec.annotations),
        _form(spec, fields, selected),
        class_="card",
        aria_labelledby="tool-name",
    )


def _hint(spec: ToolSpec, key: str) -> bool | None:
    given = spec.annotations.get(key)
    return given if isinstance(given, bool) else None


def _source(title: str, key: str, value: object) -> Element:
    return element(
        "details",
        element("summary", title),
        element("pre", as_json(value), tabindex=0, aria_label=title),
        id=key,
    )


async def _fields(spec: ToolSpec) -> list[InputField]:
    return await asyncio.to_thread(fields_of_schema, spec.input_schema)


def _form(spec: ToolSpec, fields: Sequence[InputField], selected: Trial | None) -> Element:
    typed = None if selected is None else selected.typed
    return form(
        "tool/call",
        element("h3", "Try it"),
        hidden_fields({"name": spec.name}),
        [field_widget(one, typed, "call") for one in fields]
        or element("p", "It takes no arguments.", class_="faint"),
        element("button", "Call", type="submit", class_="main"),
    )


# Calls


def _trial(trial: Trial) -> Child:
    is_running = trial.outcome == "running"
    return element(
        "article",
        titled("h2", f"Call {trial.number}", _outcome(trial)),
        facts({"began": moment(trial.began), "took": None if is_running else duration(trial.seconds)}),
        trial.arguments is not None and _source("Arguments", f"arguments-{trial.number}", trial.arguments),
        is_running and _progress(trial),
        is_running
        and button("Cancel", "tool/cancel", {"trial": str(trial.number)}, hint=f"Cancel call {trial.number}"),
        trial.error != "" and element("p", trial.error, class_="problem"),
        trial.result is not None and result_widget(trial.result),
        class_="card",
    )


def _outcome(trial: Trial) -> Element:
    return badge(trial.outcome, _TONES[trial.outcome])


def _progress(trial: Trial) -> Child:
    if trial.progress is None:
        return element("p", "No progress was reported yet.", class_="faint")
    done, total, message = trial.progress
    bar = (
        total is not None and total > 0 and element("progress", value=done, max=total, aria_label="progress")
    )
    share = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return element("p", bar, " ", share, message and f": {message}")


def _list(console: Console, name: str, selected: Trial | None) -> Child:
    trials = console.trials.of(name)
    if len(trials) < 2:
        return None
    return [
        element("h3", f"The last {counted(len(trials), 'call')} from here"),
        element("ul", [_entry(trial, is_selected=trial is selected) for trial in trials], class_="plain"),
    ]


def _entry(trial: Trial, *, is_selected: bool) -> Element:
    return element(
        "li",
        element(
            "a", f"Call {trial.number}", href=_place(trial), aria_current="true" if is_selected else None
        ),
        " ",
        _outcome(trial),
        " ",
        moment(trial.began),
    )


PAGE = Page(
    path="tool",
    title="Tool",
    render=render,
    topics={"catalog", "trials"},
    actions={"call": call, "cancel": cancel},
    under="catalog",
)
