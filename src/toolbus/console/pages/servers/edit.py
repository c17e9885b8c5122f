"""Change the entry of a server, enable, disable or remove it: the form, the review and the difference."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlencode

from toolbus.config import ServerConfig
from toolbus.console.console import Console
from toolbus.console.editing.drafts import ServerDraft, Switch
from toolbus.console.editing.forms import MaskedEntry, entry_text, usual_fields
from toolbus.console.editing.plan import FilePlan, NotPlanned, entry_in
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.links import server_url
from toolbus.console.page import Fields, Page, PageRequest
from toolbus.console.pages.servers.add import (
    PLACES,
    USED_WITHIN,
    area,
    draft_url,
    labelled,
    place_field,
    saved,
    trial_card,
)
from toolbus.console.pages.servers.parts import (
    back_to,
    difference_section,
    draft_fields,
    not_editable,
    review_section,
)
from toolbus.console.widgets import choice, form, hidden_fields
from toolbus.core.values.errors import ServerNotFound, ToolbusError

_SWITCHES: dict[Switch, tuple[str, str, str]] = {
    "enable": ("Enable", "Enabled", "The bus starts it or connects to it, and its tools join the catalog."),
    "disable": ("Disable", "Disabled", "The bus ends it, and its tools leave the catalog."),
    "remove": ("Remove", "Removed", "The bus ends it, and its entry leaves the file. Its secrets stay."),
}


async def render(console: Console, request: PageRequest) -> Element:
    drafts, alias = console.server_drafts, request.query.get("name")
    if not drafts.may_edit:
        return element("div", not_editable(console), element("p", back_to(alias)))
    try:
        switch = request.query.get("switch")
        if switch in _SWITCHES:
            return await _confirmation(console, alias, switch)
        draft = drafts.get(request.query.get("draft"), request.session)
        if draft is None or draft.is_new or draft.alias != alias:
            return await _form_page(console, alias, None)
        if draft.entry is None or request.query.get("change"):
            return await _form_page(console, alias, draft)
        plan = await asyncio.to_thread(drafts.plan, draft)
        return await asyncio.to_thread(_review, console, draft, plan)
    except ServerNotFound:
        text = f"No file of this config has a server {alias!r}."
        return element("div", element("p", text, class_="empty"), element("a", "All servers", href="servers"))
    except ToolbusError as error:
        return element("div", element("p", str(error), class_="problem panel"), element("p", back_to(alias)))


# Enable, disable, remove


async def _confirmation(console: Console, alias: str, switch: Switch) -> Element:
    plan = await asyncio.to_thread(console.server_drafts.plan_switch, alias, switch)
    return await asyncio.to_thread(_confirm, plan, alias, switch)


def _confirm(plan: FilePlan, alias: str, switch: Switch) -> Element:
    label, _, effect = _SWITCHES[switch]
    fields = {"server": alias, "switch": switch, "digest": plan.digest}
    class_ = "danger" if switch == "remove" else "main"
    confirm = form(
        "edit-server/switch",
        hidden_fields(fields),
        element("button", f"{label} {alias}", type="submit", class_=class_),
        class_=None,
    )
    return element(
        "div",
        element("h2", f"{label} {alias}?"),
        element("p", effect),
        switch == "enable" and review_section(plan, None, ""),
        difference_section(plan, plan.is_change and element("div", confirm, class_="actions")),
        element("p", back_to(alias)),
    )


async def switch(console: Console, request: PageRequest) -> str:
    """Enable, disable or remove a server in its file, as the command line does."""
    drafts, alias, wanted = console.server_drafts, request.form.get("server"), request.form.get("switch")
    if wanted not in _SWITCHES:
        raise NotPlanned("that form is too old; fill it in again")
    page = f"edit-server?{urlencode({'name': alias, 'switch': wanted})}"
    try:
        note = await drafts.save_switch(alias, wanted, request.form.get("digest"))
    except (ToolbusError, OSError) as error:
        return request.fail(str(error), page)
    if note is None:
        return request.fail("The file has changed since it was shown. Nothing was written.", page)
    is_on = wanted == "enable"
    await drafts.until_used(lambda now: (alias in now.servers) is is_on, USED_WITHIN)
    goes_to = "servers" if wanted == "remove" else server_url(alias)
    return request.say(f"{_SWITCHES[wanted][1]} {alias}. {note}".strip(), goes_to)


# Edit


async def _form_page(console: Console, alias: str, draft: ServerDraft | None) -> Element:
    path, entry = await asyncio.to_thread(entry_in, console.bus.config, alias)
    masked = await asyncio.to_thread(MaskedEntry.of, entry)
    places = await console.server_drafts.places()
    usual = usual_fields(masked.shown)
    text = entry_text(masked.shown, path)
    typed = Fields() if draft is None else draft.fields
    is_text = usual is None or typed.get("as") == "text"
    known = {} if draft is None else {"draft": str(draft.number)}
    hidden = hidden_fields({"server": alias, **known})
    return element(
        "div",
        element("h2", f"Edit {alias}"),
        element("p", "In ", element("code", str(path), class_="breakable"), class_="faint"),
        draft is not None
        and draft.problem
        and element("p", draft.problem, class_="problem panel", role="alert"),
        masked.originals and element("p", "*** stands for a secret that the file has. It stays as it is."),
        usual is not None and _usual_form(usual if is_text else _typed(usual, typed), hidden, places, typed),
        element(
            "details",
            element("summary", "The whole entry as text"),
            form(
                "edit-server/review",
                hidden,
                hidden_fields({"as": "text"}),
                area(
                    "text",
                    "Entry",
                    Fields.of({"text": [typed.get("text", text) if is_text else text]}),
                    rows=14,
                ),
                place_field(places, typed.get("place"), "text-place"),
                element("button", "Review the text", type="submit"),
                class_="stacked wide-form",
            ),
            id="edit-text",
            open=is_text,
        ),
        element("p", back_to(alias)),
    )


def _typed(usual: dict[str, str], typed: Fields) -> dict[str, str]:
    return {name: typed.get(name, text) for name, text in usual.items()}


def _usual_form(
    usual: dict[str, str], hidden: list[Element], places: Sequence[str], typed: Fields
) -> Element:
    fields = Fields.of({name: [text] for name, text in usual.items()})
    is_url = bool(usual["url"])
    transports = {"": "found out", "streamable-http": "streamable HTTP", "sse": "SSE"}
    known = usual["transport"]
    reached: Child = [
        labelled("url", "URL", fields),
        element("div", choice("edit-transport", "Transport", "transport", transports, known), class_="field")
        if known in transports
        else labelled("transport", "Transport", fields),
        area("headers", "Headers", fields, "One per line, such as X-Team: tools"),
    ]
    started: Child = [
        labelled("command", "Command", fields, "The program and its arguments."),
        labelled("cwd", "Folder", fields),
        area("env", "Variables", fields, "One per line, such as LEVEL=debug, or TOKEN=${TOKEN}", rows=3),
    ]
    return form(
        "edit-server/review",
        hidden,
        reached if is_url else started,
        element(
            "div",
            labelled("timeout-connect", "Seconds to connect", fields, type="number", min="1", step="any"),
            labelled("timeout-call", "Seconds for a call", fields, type="number", min="1", step="any"),
            class_="pair",
        ),
        area("include", "Only these tools", fields, "Patterns such as read_*, one per line. Empty: all."),
        area("exclude", "Not these tools", fields, "Patterns such as delete_*, one per line."),
        place_field(places, typed.get("place")),
        element("button", "Review", type="submit", class_="main"),
        class_="stacked wide-form",
    )


def _review(console: Console, draft: ServerDraft, plan: FilePlan) -> Element:
    is_launch = _launch_changed(console.bus.config.servers.get(draft.alias), plan.server)
    save_form = form(
        "edit-server/save",
        hidden_fields(draft_fields(draft, digest=plan.digest)),
        element("button", "Save", type="submit", class_="main", aria_label=f"Save {draft.alias}"),
        class_=None,
    )
    change = element("a", "Change", href=f"{draft_url(draft)}&change=yes", class_="button")
    return element(
        "div",
        element("h2", f"Edit {draft.alias}", class_="spaced"),
        is_launch and review_section(plan, draft, PLACES[draft.place]),
        is_launch and trial_card(draft),
        not is_launch and live("trial"),
        difference_section(plan, plan.is_change and element("div", save_form, class_="actions")),
        element("div", change, back_to(draft.alias), class_="actions section"),
    )


def _launch_changed(before: ServerConfig | None, after: ServerConfig | None) -> bool:
    """Whether it would run, connect to or read something else."""
    if before is None or after is None:
        return True
    names = ("command", "args", "env", "env_file", "inherit_env", "cwd", "sandbox", "url", "headers", "auth")
    more = ("verify", "transport", "client_cert", "client_key", "trust_annotations")
    return any(getattr(before, name) != getattr(after, name) for name in (*names, *more))


async def review(console: Console, request: PageRequest) -> str:
    """Take the form, and go to its review; nothing is started or written."""
    draft = await console.server_drafts.edit(request.session, request.form.get("server"), request.form)
    return draft_url(draft)


async def save(console: Console, request: PageRequest) -> str:
    """Write the difference that was shown, and go to the server once the bus uses it."""
    console.server_drafts.check()
    draft = console.server_drafts.get(request.form.get("draft"), request.session)
    if draft is None or draft.is_new or draft.entry is None:
        raise NotPlanned("that form is too old; fill it in again")
    return await saved(console, request, draft, f"Saved {draft.alias}.")


PAGE = Page(
    path="edit-server",
    title="Edit a server",
    render=render,
    topics={"trials"},
    actions={"review": review, "save": save, "switch": switch},
    scripts=("servers.js",),
    under="servers",
)
