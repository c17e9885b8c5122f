"""Add a server by URL, command or name in the registry: the form, the review, a trial, and saving it."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlencode

from toolbus.config.location import is_mapping
from toolbus.config.registry import PublishedInput, PublishedServer, choices, inputs
from toolbus.console.console import Console
from toolbus.console.editing.drafts import RegistrySearch, ServerDraft
from toolbus.console.editing.forms import SECRET_ROWS
from toolbus.console.editing.plan import FilePlan, NotPlanned
from toolbus.console.elements import Attribute, Child, Element, element, live
from toolbus.console.links import server_url
from toolbus.console.page import Fields, Page, PageRequest
from toolbus.console.pages.servers.parts import (
    difference_section,
    draft_fields,
    not_editable,
    review_section,
    trial_section,
)
from toolbus.console.widgets import anchor, button, choice, form, hidden_fields, text_field
from toolbus.core.text.lookalikes import spelled_out
from toolbus.core.values.errors import ToolbusError

WAYS = {"url": "URL", "command": "Command", "registry": "Registry"}
PLACES = {"env": "the file .env beside the config", "keyring": "the keyring of this machine"}
SEARCH_WITHIN = 3.0
"""Seconds that a page waits for the registry; then it is shown, and filled in later."""
USED_WITHIN = 4.0
"""Seconds for the bus to use the new config."""


async def render(console: Console, request: PageRequest) -> Element:
    drafts = console.server_drafts
    if not drafts.may_edit:
        return not_editable(console)
    draft = drafts.get(request.query.get("draft"), request.session)
    if draft is not None:
        return await _draft_page(console, draft, is_changed=bool(request.query.get("change")))
    way = request.query.get("way")
    return await _form_page(console, way if way in WAYS else "url", request.query.get("search"))


async def _form_page(console: Console, way: str, words: str, draft: ServerDraft | None = None) -> Element:
    places = await console.server_drafts.places()
    typed = Fields() if draft is None else draft.fields
    content = await _registry(console, words) if way == "registry" else _typed_form(way, typed, places, draft)
    problem = draft is not None and draft.problem
    return element(
        "div",
        _tabs(way),
        problem and element("p", problem, class_="problem panel", role="alert"),
        content,
    )


def _tabs(way: str) -> Element:
    links = [
        element("a", text, href=f"add-server?way={key}", aria_current="page" if key == way else None)
        for key, text in WAYS.items()
    ]
    return element("nav", links, class_="ways", aria_label="Ways to add a server")


# By URL or command


def _typed_form(way: str, typed: Fields, places: Sequence[str], draft: ServerDraft | None) -> Element:
    given = {"way": way} | ({} if draft is None else {"draft": str(draft.number)})
    return form(
        "add-server/review",
        hidden_fields(given),
        _url_fields(typed) if way == "url" else _command_fields(typed),
        labelled("name", "Name", typed, "Empty: a name made from the rest."),
        place_field(places, typed.get("place")),
        element("p", "Nothing is started or written yet.", class_="faint"),
        element("button", "Review", type="submit", class_="main"),
        class_="stacked wide-form",
    )


def _url_fields(typed: Fields) -> Child:
    return [
        labelled("url", "URL", typed, "Such as https://mcp.example.com/mcp", required=True),
        element(
            "div",
            choice(
                "add-auth",
                "Sign-in",
                "auth",
                {"": "none", "oauth": "a sign-in page (OAuth)", "token": "a token"},
                typed.get("auth"),
            ),
            class_="field",
        ),
        labelled(
            "token",
            "Token",
            Fields(),
            "Fill this in to sign in by a token. It is not written to the config.",
            type="password",
        ),
        area("headers", "Headers", typed, "One per line, such as X-Team: tools"),
        element(
            "div",
            choice(
                "add-transport",
                "Transport",
                "transport",
                {"": "detected", "streamable-http": "streamable HTTP", "sse": "SSE"},
                typed.get("transport"),
            ),
            class_="field",
        ),
    ]


def _command_fields(typed: Fields) -> Child:
    rows = range(1, SECRET_ROWS + 1)
    has_names = any(typed.get(f"secret-name-{number}") for number in rows)
    retype = " Type their values again: this page forgets them." if has_names else ""
    return [
        labelled(
            "command", "Command", typed, "Such as npx -y @modelcontextprotocol/server-memory", required=True
        ),
        labelled("cwd", "Folder", typed, "Where it runs. Empty: the folder of the config."),
        area("env", "Variables", typed, "One per line, such as LEVEL=debug, or TOKEN=${TOKEN}"),
        element(
            "fieldset",
            element("legend", "Secret variables"),
            element("p", f"They are not written to the config.{retype}", class_="faint"),
            [_secret_row(number, typed.get(f"secret-name-{number}")) for number in rows],
            class_="field",
        ),
    ]


def _secret_row(number: int, typed: str) -> Element:
    name: dict[str, Attribute] = {"aria_label": f"Name of secret variable {number}", "placeholder": "NAME"}
    value: dict[str, Attribute] = {"aria_label": f"Value of secret variable {number}", "placeholder": "value"}
    name["value"] = typed
    return element(
        "div",
        element("input", type="text", name=f"secret-name-{number}", autocomplete="off", **name),
        element("input", type="password", name=f"secret-value-{number}", autocomplete="off", **value),
        class_="pair",
    )


def labelled(name: str, label: str, typed: Fields, about: str = "", **attributes: Attribute) -> Element:
    """A field with its label and what it is for."""
    key = f"add-{name}"
    given: dict[str, Attribute] = {"value": typed.get(name), "aria_describedby": about and f"{key}-about"}
    return element(
        "div",
        text_field(key, label, name, **(given | attributes)),
        about and element("p", about, id=f"{key}-about", class_="faint"),
        class_="field",
    )


def area(name: str, label: str, typed: Fields, about: str = "", rows: int = 2) -> Element:
    """A text area with its label and what it is for."""
    key = f"add-{name}"
    # Browsers drop the first line feed of a text area, so one of ours goes first.
    text = f"\n{typed.get(name)}"
    return element(
        "div",
        element("label", label, for_=key),
        element("textarea", text, id=key, name=name, rows=rows, spellcheck="false", class_="code"),
        about and element("p", about, class_="faint"),
        class_="field",
    )


def place_field(places: Sequence[str], chosen: str, key: str = "add-place") -> Element:
    """The choice where secrets are kept; `key` is its id."""
    options = {place: text for place, text in PLACES.items() if place in places}
    return element("div", choice(key, "Keep secrets in", "place", options, chosen), class_="field")


# From the registry


async def _registry(console: Console, words: str) -> Element:
    label, field = text_field(
        "registry-search", "Search the registry", "search", type="search", value=words, required=True
    )
    line = element("div", field, element("button", "Search", type="submit"), class_="search")
    way = element("input", type="hidden", name="way", value="registry")
    search = console.server_drafts.search(words) if words.strip() else None
    if search is not None and search.task is not None:
        await asyncio.wait((search.task,), timeout=SEARCH_WITHIN)
    return element(
        "div",
        form("add-server", way, label, line, method="get", role="search"),
        live("registry-found", search and _found(search)),
    )


def _found(search: RegistrySearch) -> Child:
    if search.problem:
        return element("p", search.problem, class_="problem", role="alert")
    if search.found is None:
        return element(
            "p", f"Asking {search.place or 'the registry'}. Reload the page to see more.", role="status"
        )
    servers = search.found.servers
    if not servers:
        text = f"No server in {search.place} has {search.words!r} in its name."
        return element("p", spelled_out(text), class_="empty")
    more = "There are more; add words to the search." if not search.found.is_complete else ""
    return [
        element("ul", [_published(one) for one in servers], class_="found"),
        more and element("p", more, class_="faint"),
    ]


def _published(server: PublishedServer) -> Element:
    every = choices(server)
    usable = [one for one in every if one.problem is None]
    buttons = [
        button(
            "Choose",
            "add-server/choose",
            {"server": server.name, "kind": one.label},
            hint=f"Choose {server.name} as {one.label}",
        )
        for one in usable
    ]
    return element(
        "li",
        element("strong", spelled_out(server.name)),
        " ",
        element("span", spelled_out(server.version), class_="faint"),
        server.status != "active"
        and element("p", f"Listed as {spelled_out(server.status)}", class_="problem"),
        server.description and element("p", spelled_out(server.description)),
        [
            element(
                "div",
                element("span", spelled_out(one.label), class_="breakable"),
                press,
                class_="choice-line",
            )
            for one, press in zip(usable, buttons, strict=True)
        ],
        not usable and bool(every) and element("p", every[0].problem, class_="faint"),
    )


def _inputs_form(draft: ServerDraft, places: Sequence[str]) -> Element:
    assert draft.choice is not None, "the caller checks it"
    typed = draft.fields
    return form(
        "add-server/fill",
        hidden_fields(draft_fields(draft)),
        [_input(one, typed) for one in inputs(draft.choice)],
        labelled("name", "Name", Fields.of({"name": [typed.get("name") or draft.alias]})),
        place_field(places, typed.get("place")),
        element("button", "Review", type="submit", class_="main"),
        class_="stacked wide-form",
    )


def _input(one: PublishedInput, typed: Fields) -> Element:
    name, key = f"input-{one.label}", anchor("input", one.label)
    about = spelled_out(" ".join(one.description.split()))
    shared: dict[str, Attribute] = {
        "id": key,
        "name": name,
        "required": one.is_required and not one.default,
        "placeholder": one.placeholder or one.default or None,
        "aria_describedby": f"{key}-about" if about else None,
    }
    kinds = [word for word, is_so in (("required", one.is_required), ("secret", one.is_secret)) if is_so]
    label = [spelled_out(one.label), kinds and element("span", f" ({', '.join(kinds)})", class_="faint")]
    if one.choices:
        options = [
            element("option", text, value=text, selected=text == (typed.get(name) or one.default))
            for text in one.choices
        ]
        shared.pop("placeholder")
        field = element("select", element("option", "", value=""), options, **shared)
    elif one.is_repeated:
        field = element("textarea", f"\n{typed.get(name)}", rows=3, class_="code", **shared)
    else:
        kind = "password" if one.is_secret else "text"
        field = element("input", type=kind, value=typed.get(name), autocomplete="off", **shared)
    return element(
        "div",
        element("label", label, for_=key),
        about and element("p", about, id=f"{key}-about", class_="faint"),
        field,
        class_="field",
    )


# The draft


async def _draft_page(console: Console, draft: ServerDraft, *, is_changed: bool) -> Element:
    if draft.task is not None:
        await asyncio.wait((draft.task,), timeout=SEARCH_WITHIN)
    if draft.is_busy:
        busy = element("p", f"Looking up {draft.alias}. Reload the page to see more.", role="status")
        return element("div", live("draft", busy, data_busy=True))
    if is_changed or draft.entry is None:
        if draft.found is None:
            way = draft.fields.get("way") or "url"
            return element("div", live("draft"), await _form_page(console, way, "", draft))
        return element("div", live("draft"), await _inputs_page(console, draft))
    try:
        plan = await asyncio.to_thread(console.server_drafts.plan, draft)
        return await asyncio.to_thread(_review, draft, plan)
    except ToolbusError as error:
        draft.problem, draft.entry = str(error), None
        return await _draft_page(console, draft, is_changed=True)


async def _inputs_page(console: Console, draft: ServerDraft) -> Element:
    places = await console.server_drafts.places()
    return element(
        "div",
        element("h2", spelled_out(draft.found.name if draft.found else draft.alias)),
        draft.choice and element("p", spelled_out(draft.choice.label), class_="faint breakable"),
        draft.problem and element("p", spelled_out(draft.problem), class_="problem panel", role="alert"),
        draft.choice is not None and _inputs_form(draft, places),
        element("p", element("a", "Start over", href="add-server?way=registry")),
    )


def _review(draft: ServerDraft, plan: FilePlan) -> Element:
    place = PLACES[draft.place]
    save = form(
        "add-server/save",
        hidden_fields(draft_fields(draft, digest=plan.digest)),
        element("button", "Save", type="submit", class_="main", aria_label=f"Save {draft.alias}"),
        class_=None,
    )
    again = urlencode({"draft": draft.number, "change": "yes"})
    change = element("a", "Change", href=f"add-server?{again}", class_="button")
    return element(
        "div",
        live("draft"),
        element("h2", f"Add {draft.alias}", class_="spaced"),
        review_section(plan, draft, place),
        trial_card(draft),
        difference_section(plan, element("div", save, class_="actions")),
        element(
            "div",
            change,
            button("Discard", "add-server/discard", draft_fields(draft)),
            class_="actions section",
        ),
    )


def trial_card(draft: ServerDraft) -> Element:
    """The trial of a draft, and its button."""
    is_program = is_mapping(draft.entry) and "command" in draft.entry
    has_bundle = draft.choice is not None and draft.choice.bundle is not None
    verb = "Unpack and start it" if has_bundle else "Start it" if is_program else "Connect to it"
    return element(
        "section",
        element("h2", "Trial"),
        element("p", f"{verb} now, list its tools, and end it again. Nothing is saved.", class_="faint"),
        button("Try it", "add-server/try", draft_fields(draft), hint=f"Try it: {draft.alias}"),
        live("trial", trial_section(draft), role="status"),
        class_="card",
    )


# Actions


def _draft_of(console: Console, request: PageRequest) -> ServerDraft:
    console.server_drafts.check()
    draft = console.server_drafts.get(request.form.get("draft"), request.session)
    if draft is None:
        raise NotPlanned("that form is too old; fill it in again")
    return draft


def draft_url(draft: ServerDraft) -> str:
    """The page of a draft."""
    if draft.is_new:
        return f"add-server?draft={draft.number}"
    return f"edit-server?{urlencode({'name': draft.alias, 'draft': draft.number})}"


async def review(console: Console, request: PageRequest) -> str:
    """Take the form, and go to its review; nothing is started or written."""
    draft = await console.server_drafts.add_typed(request.session, request.form, request.form.get("draft"))
    return draft_url(draft)


async def choose(console: Console, request: PageRequest) -> str:
    """Look a server of the registry up."""
    form = request.form
    draft = console.server_drafts.add_published(request.session, form.get("server"), form.get("kind"))
    return draft_url(draft)


async def fill(console: Console, request: PageRequest) -> str:
    """Take the inputs of a server of the registry."""
    draft = _draft_of(console, request)
    if draft.choice is None or not draft.is_new:
        raise NotPlanned("that form is too old; fill it in again")
    await console.server_drafts.fill(draft, request.form)
    return draft_url(draft)


async def try_it(console: Console, request: PageRequest) -> str:
    """Start the server of a draft."""
    draft = _draft_of(console, request)
    try:
        await console.server_drafts.begin_trial(draft)
    except ToolbusError as error:
        return request.fail(str(error), draft_url(draft))
    return draft_url(draft)


async def save(console: Console, request: PageRequest) -> str:
    """Write the difference that was shown, and go to the server once the bus uses it."""
    draft = _draft_of(console, request)
    if draft.entry is None:
        return draft_url(draft)
    return await saved(console, request, draft, f"Saved {draft.alias}.")


async def saved(console: Console, request: PageRequest, draft: ServerDraft, said: str) -> str:
    """Write a draft; if the file has changed since it was shown, go back to the new difference."""
    drafts, alias = console.server_drafts, draft.alias
    before = console.bus.config.servers.get(alias)
    try:
        note = await drafts.save(draft, request.form.get("digest"))
    except (ToolbusError, OSError) as error:
        return request.fail(_words(error), draft_url(draft))
    if note is None:
        text = "The file has changed since it was shown. Nothing was written. This is the difference now."
        return request.fail(text, draft_url(draft))
    is_used = await drafts.until_used(lambda now: now.servers.get(alias) != before, USED_WITHIN)
    if draft.is_new and not is_used:
        note = f"{note} The bus does not use it yet; the log of toolbus serve or up says why.".strip()
    return request.say(f"{said} {note}".strip(), server_url(alias))


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'the file'}: {error.strerror or type(error).__name__}"
    return str(error)


async def discard(console: Console, request: PageRequest) -> str:
    """Forget a draft, and end its trial."""
    console.server_drafts.discard(_draft_of(console, request))
    return request.say("Discarded. Nothing was written.", "servers")


PAGE = Page(
    path="add-server",
    title="Add a server",
    render=render,
    topics={"trials"},
    actions={
        "review": review,
        "choose": choose,
        "fill": fill,
        "try": try_it,
        "save": save,
        "discard": discard,
    },
    scripts=("servers.js",),
    under="servers",
)
