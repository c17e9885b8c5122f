"""One tool: its description for a model, its cost, and the calls from here."""

from collections.abc import Mapping, Sequence

from toolbus.console.apps.frames import AppPlace
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.links import server_link, tool_url
from toolbus.console.pages.inbox.questions import question_card
from toolbus.console.pages.tools.listing import ToolState
from toolbus.console.pages.tools.result import copies, result_views, saved_links
from toolbus.console.trials import Trial
from toolbus.console.widgets import as_json, badge, button, facts, moment, status, titled
from toolbus.core.ask.approval import ApprovalRequest
from toolbus.core.ask.question_router import WaitingQuestion
from toolbus.core.text.display import counted, duration
from toolbus.core.values.apps import app_of
from toolbus.core.values.records import ToolSpec

_HINTS = {
    "readOnlyHint": ("reads only", "may change things"),
    "destructiveHint": ("may destroy", "does not destroy"),
    "idempotentHint": ("may be repeated", "a repeated call acts again"),
    "openWorldHint": ("reaches other systems", "stays within its own system"),
}


def about_tool(
    spec: ToolSpec, own: ToolSpec | None, tokens: Mapping[str, int], state: ToolState = "on"
) -> Element:
    """The description of a tool for a model; `own` is the tool as its server sent it."""
    given = {key: _hint(spec, key) for key in _HINTS}
    hints = [_HINTS[key][0 if hint else 1] for key, hint in given.items() if hint is not None]
    # A link: the change of the file is shown first.
    words, to = ("Switch on", "on") if state == "off" else ("Switch off", "off")
    switch = element("a", words, href=tool_url(str(spec.origin), switch=to), class_="button small")
    return live(
        "tool-about",
        titled("h2", spec.name, None if state == "on" else badge(state, "quiet"), switch, key="tool-name"),
        element("p", spec.description or "It has no description.", class_="description"),
        own is not None and _own_description(spec, own),
        facts(
            {
                "server": server_link(spec.origin.server),
                "its own name": spec.origin.tool if spec.origin.tool != spec.name else None,
                "title": spec.title,
                "app": app_of(spec.meta),
                "the server says": ", ".join(hints) or None,
                "tokens": ", ".join(f"{count:,} ({provider})" for provider, count in tokens.items()) or None,
            }
        ),
        _source("Input schema", "input-schema", spec.input_schema),
        spec.output_schema is not None and _source("Output schema", "output-schema", spec.output_schema),
        bool(spec.annotations) and _source("Annotations", "annotations", dict(spec.annotations)),
        tag="section",
        class_="card tool-about",
        aria_labelledby="tool-name",
    )


def _own_description(spec: ToolSpec, own: ToolSpec) -> Child:
    """The server's own description, where it differs."""
    parts = {
        "description": (spec.description, own.description),
        "title": (spec.title, own.title),
        "input schema": (spec.input_schema, own.input_schema),
    }
    changed = [name for name, (ours, theirs) in parts.items() if ours != theirs]
    if not changed:
        return None
    return element(
        "details",
        element("summary", f"toolbus changed its {', '.join(changed)}; what the server sent"),
        "description" in changed
        and element("p", own.description or "It has no description.", class_="description"),
        "title" in changed and element("p", own.title or "It has no title."),
        "input schema" in changed
        and element("pre", as_json(own.input_schema), tabindex=0, aria_label="the server's input schema"),
        id="own-description",
    )


def _hint(spec: ToolSpec, key: str) -> bool | None:
    given = spec.annotations.get(key)
    return given if isinstance(given, bool) else None


def _source(title: str, key: str, value: object) -> Element:
    return element(
        "details",
        element("summary", title),
        element("pre", as_json(value), tabindex=0, aria_label=title, class_="breakable"),
        id=key,
    )


# Calls


def trial_url(trial: Trial) -> str:
    return tool_url(trial.tool, trial=trial.number)


def trial_side(console: Console, spec: ToolSpec, selected: Trial | None, apps: AppPlace) -> Element:
    """The calls from here; the questions of the selected one come first, and its app."""
    cards = [] if selected is None else _questions(console, spec, selected)
    return element(
        "div",
        # For those who do not see the badge change.
        live("trial-outcome", selected and _said(selected, cards), role="status", class_="spoken"),
        live("questions-here", cards, class_="here"),
        selected and _app(spec, selected, apps),
        live("trial", selected and _trial(console, spec, selected)),
        live("trials", _list(console.trials.of(spec.name), selected)),
        class_="trial-side",
    )


def _said(trial: Trial, waiting: Sequence[Element]) -> str:
    asks = "; it waits for your answer" if waiting else ""
    return f"Call {trial.number}: {trial.outcome}{asks}"


def _app(spec: ToolSpec, trial: Trial, apps: AppPlace) -> Child:
    """The place of the app of a call, which is not live: the script puts its frame there."""
    if app_of(spec.meta) is None:
        return None
    if apps.problem:
        return element("section", element("h2", "App"), element("p", apps.problem), class_="card")
    return element(
        "section",
        element("h2", "App", id="app-name"),
        # Its questions are above its frame, which cannot move or cover them.
        element("div", id="app-asks", class_="here"),
        element("div", class_="app-facts"),
        element("noscript", element("p", "An app needs JavaScript.")),
        element("div", class_="app-view"),
        element(
            "details",
            element("summary", "Messages of the app"),
            element("ul", class_="plain app-lines"),
            hidden=True,
        ),
        id="app",
        data_trial=trial.number,
        class_="card app",
        aria_labelledby="app-name",
    )


def _questions(console: Console, spec: ToolSpec, trial: Trial) -> list[Element]:
    """The questions that the call or its app waits for, with their forms."""
    apps, found = console.apps.sessions_of(trial), console.board.waiting.values()
    return [
        question_card(console, one, trial_url(trial))
        for one in found
        if one.session in apps or _is_of(one, spec, trial)
    ]


def _is_of(waiting: WaitingQuestion, spec: ToolSpec, trial: Trial) -> bool:
    if trial.outcome != "running":
        return False
    question = waiting.question
    if question.session != trial.session:
        return False
    if isinstance(question, ApprovalRequest):
        return question.name == spec.name
    return question.server == spec.origin.server and question.tool in (None, spec.origin.tool)


def _trial(console: Console, spec: ToolSpec, trial: Trial) -> Child:
    is_running = trial.outcome == "running"
    again = {"trial": str(trial.number)}
    return element(
        "article",
        titled("h2", f"Call {trial.number}", status(trial.outcome)),
        facts({"began": moment(trial.began), "took": None if is_running else duration(trial.seconds)}),
        is_running and _progress(trial),
        trial.error != "" and element("p", trial.error, class_="problem"),
        trial.result is not None and result_views(trial, spec.origin.tool),
        trial.result is not None and saved_links(trial),
        copies(console.bus.config, trial),
        button("Cancel", "tools/cancel", again, hint=f"Cancel call {trial.number}")
        if is_running
        else button("Call again", "tools/again", again, hint=f"Call again, call {trial.number}"),
        class_="card",
    )


def _progress(trial: Trial) -> Child:
    if trial.progress is None:
        return element("p", "No progress was reported yet.", class_="faint")
    done, total, message = trial.progress
    bar = (
        total is not None and total > 0 and element("progress", value=done, max=total, aria_label="progress")
    )
    share = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return element("p", bar, " ", share, message and f": {message}")


def _list(trials: Sequence[Trial], selected: Trial | None) -> Child:
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
            "a",
            f"Call {trial.number}",
            href=f"{trial_url(trial)}#trial",
            aria_current="true" if is_selected else None,
        ),
        " ",
        status(trial.outcome),
        " ",
        moment(trial.began),
    )
