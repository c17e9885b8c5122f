"""Pieces that the pages of servers share: states, buttons, the sign-in, differences and trials."""

import shlex
from collections.abc import Mapping, Sequence

from toolbus.config import ServerConfig
from toolbus.config.secrets.literals import without_literals
from toolbus.connect.link import LinkEnd
from toolbus.console.console import Console
from toolbus.console.editing.drafts import ServerDraft
from toolbus.console.editing.plan import FilePlan
from toolbus.console.elements import Child, Element, element
from toolbus.console.links import server_url
from toolbus.console.trials import SignIn
from toolbus.console.widgets import Tone, anchor, badge, button, form, hidden_fields, text_field
from toolbus.core.text.display import counted, duration
from toolbus.core.text.lookalikes import spelled_out
from toolbus.core.values.errors import LoginRequired, ToolbusError, problem_of
from toolbus.core.values.records import State

TONES: dict[State, Tone] = {
    "idle": "quiet",
    "connecting": "busy",
    "ready": "good",
    "retrying": "busy",
    "auth_required": "bad",
    "failed": "bad",
    "closed": "quiet",
}
NAMES: dict[State, str] = {"auth_required": "sign-in needed"}
_PASTE = "The URL of the page that it could not open at the end"
TOOLS_SHOWN = 100
"""Tools of a trial that are listed."""


def state_badge(state: State, *, is_looping: bool) -> Element:
    """The state of a server; one that ends again and again is never shown as ready."""
    return badge("crash loop", "bad") if is_looping else badge(NAMES.get(state, state), TONES[state])


def reason_of(error: ToolbusError) -> str:
    """The reason why a server cannot be used, without the command to sign in."""
    return error.reason if isinstance(error, LoginRequired) else problem_of(error)


def server_button(
    label: str, action: str, alias: str, hint: str, *, class_: str = "", page: str = "server"
) -> Element:
    """A button for a server; afterwards the browser is on the page that has it."""
    return button(label, f"{page}/{action}", {"server": alias}, class_=class_, hint=hint)


def offers_sign_in(console: Console, config: ServerConfig) -> bool:
    """Whether a person can sign in to a server now."""
    error, known = console.bus.failures.get(config.alias), console.sign_ins.now.get(config.alias)
    is_oauth = config.auth is not None and config.auth.type == "oauth"
    return isinstance(error, LoginRequired) and is_oauth and (known is None or not known.is_waiting)


def launch_line(config: ServerConfig) -> str:
    """The command line, URL or OpenAPI document of a server, without secrets."""
    shown = without_literals(config)
    words = [shown[key] for key in shown if key == "command" or key.startswith("args[")]
    return shlex.join(words) if words else shown.get("url") or shown.get("openapi.document", "")


def copyable(key: str, text: str, what: str) -> Element:
    """A text that can be selected, with a button that the script shows."""
    return element(
        "div",
        element("code", text, id=key, class_="breakable launch", tabindex=0),
        element("button", "Copy", type="button", data_copy=key, aria_label=f"Copy {what}"),
        class_="copyable",
    )


def how_it_ended(end: LinkEnd) -> str:
    """The end of a session or attempt, in a few words."""
    if end.exit_status is not None:
        return end.exit_status
    return "connection lost" if end.was_ready else "could not connect"


# Signing in


def sign_in_panel(alias: str, known: SignIn | None) -> Child:
    if known is None:
        return None
    if not known.is_waiting:
        return element("p", f"The sign-in failed: {known.problem}", class_="problem")
    quit_button = server_button("Cancel", "cancel", alias, f"Cancel the sign-in to {alias}")
    if known.request is None:
        return element("div", element("p", f"Asking {alias} where to sign in."), quit_button, class_="panel")
    return element("div", _steps(alias, known), quit_button, class_="panel")


def _steps(alias: str, known: SignIn) -> Child:
    request = known.request
    assert request is not None, "the caller checks it"
    link = element(
        "a",
        f"Sign in to {alias} in a new tab",
        href=request.url,
        target="_blank",
        rel="noopener noreferrer",
        class_="main button",
    )
    if request.code is not None:
        return [element("p", link), element("p", "Enter this code there: ", element("code", request.code))]
    return [
        element("p", link),
        element(
            "details",
            element("summary", "My browser runs on another machine"),
            form(
                "server/finish",
                hidden_fields({"server": alias}),
                text_field(anchor("url", alias), _PASTE, "url", required=True),
                element("button", "Finish", type="submit"),
            ),
            id=anchor("paste", alias),
        ),
    ]


# What would be written


def rows(pairs: Sequence[tuple[str, str]]) -> Element:
    """Labels with their texts, one per line; hidden and look-alike characters are spelled out."""
    return element(
        "dl",
        [
            element("div", element("dt", label), element("dd", spelled_out(text), class_="breakable"))
            for label, text in pairs
        ],
        class_="review",
    )


def review_section(plan: FilePlan, draft: ServerDraft | None, place: str) -> Element:
    """The commands, hosts and files that a server would use."""
    pairs = plan.facts()
    if draft is not None:
        pending = tuple(f"${{{one.name}}}  " for one in draft.secrets)
        pairs = [(label, text) for label, text in pairs if not text.startswith(pending)]
        pairs += [("secret", f"{one.key} is kept in {place} as {one.name}") for one in draft.secrets]
    warnings = () if draft is None else draft.warnings
    return element(
        "section",
        element("h2", "Review"),
        rows(pairs) if pairs else element("p", "Nothing.", class_="empty"),
        [element("p", f"Warning: {spelled_out(one)}", class_="problem") for one in warnings],
        class_="card",
    )


_LINES = {"+": "added", "-": "removed", "@": "place"}


def difference_section(plan: FilePlan, *more: Child) -> Element:
    """The difference of a file, and the form that writes it."""
    return element(
        "section",
        element("h2", "Difference"),
        element("p", "To ", element("code", str(plan.path), class_="breakable"), class_="faint"),
        _difference(plan.difference)
        if plan.is_change
        else element("p", "Nothing: the file has that already."),
        [element("p", note, class_="faint") for note in plan.notes()],
        *more,
        class_="card",
    )


def _difference(lines: Sequence[str]) -> Element:
    shown = [
        element("span", line or " ", class_=_LINES.get(line[:1]) if number > 1 else "place")
        for number, line in enumerate(lines)
    ]
    return element("pre", shown, class_="difference", tabindex=0, aria_label="difference of the file")


def trial_section(draft: ServerDraft) -> Child:
    """The outcome of the trial of a draft."""
    trial = draft.trial
    if trial is None:
        return None
    if trial.is_running:
        return element("p", badge("running", "busy"), " Starting it and listing its tools.")
    if trial.outcome == "done":
        words = [
            f" It started within {duration(trial.seconds)} and offers {counted(len(trial.tools), 'tool')}"
        ]
        words += [f", by protocol {trial.protocol}."] if trial.protocol else ["."]
        return [
            element("p", badge("works", "good"), words),
            bool(trial.tools)
            and element(
                "ul",
                [_tool(one.name, one.description) for one in trial.tools[:TOOLS_SHOWN]],
                class_="offered",
                tabindex=0,
                aria_label="Tools that it offers",
            ),
            len(trial.tools) > TOOLS_SHOWN
            and element("p", f"and {len(trial.tools) - TOOLS_SHOWN} more", class_="faint"),
            _stderr(trial.stderr),
        ]
    if trial.needs_sign_in:
        step = " It asks for a sign-in. Save it, and sign in on its page."
        return [
            element("p", badge("sign-in needed", "busy"), step),
            element("p", trial.error, class_="faint"),
        ]
    if trial.outcome == "canceled":
        return element("p", badge("canceled", "quiet"), " The trial was ended.")
    return [
        element("p", badge("failed", "bad"), f" after {duration(trial.seconds)}"),
        element("p", trial.error, class_="problem"),
        _stderr(trial.stderr),
    ]


def _tool(name: str, description: str) -> Element:
    about = " ".join(description.split())
    short = about if len(about) <= 120 else f"{about[:117]}..."
    return element("li", element("strong", name), " ", element("span", short, class_="faint"))


def _stderr(lines: Sequence[str]) -> Child:
    if not lines:
        return None
    shown = "\n".join(line[:300] for line in lines[-20:])
    return element("pre", shown, tabindex=0, aria_label="stderr of the trial")


def not_editable(console: Console) -> Element:
    """The reason why this console cannot change servers."""
    return element("p", console.server_drafts.why_not, class_="panel")


def draft_fields(draft: ServerDraft, **more: str) -> Mapping[str, str]:
    return {"draft": str(draft.number), **more}


def back_to(alias: str) -> Element:
    return element("a", f"Back to {alias}", href=server_url(alias), class_="button")
