"""Resources, templates, prompts and skills: browse them by server, and read one, through policy and audit."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from toolbus.bus.view import View
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.fields import InputField, arguments_of, field_widget
from toolbus.console.links import server_link
from toolbus.console.page import Download, Notice, Page, PageRequest
from toolbus.console.pages.content.items import (
    ContentItem,
    ContentQuery,
    find,
    item_list,
    items_of,
    search_form,
)
from toolbus.console.pages.inbox.questions import question_card
from toolbus.console.pages.tools.result import message_block, saved_part
from toolbus.console.trials import FACE, Draft, Trial
from toolbus.console.widgets import button, facts, form, hidden_fields, moment, status, titled
from toolbus.core.ask.approval import ApprovalRequest
from toolbus.core.ask.question_router import WaitingQuestion
from toolbus.core.operation.operation import Caller
from toolbus.core.text.display import duration
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import Block, Prompt, PromptResult, Resource, Text, ToolResult
from toolbus.core.values.skills import LoadedSkill, Skill
from toolbus.shape.render import human_size

_VERBS = {"resource": "Read", "template": "Read", "prompt": "Get", "skill": "Load"}
MOST_SUGGESTIONS = 100
SUGGESTED_WITHIN = 10.0
"""Seconds in which a server has to suggest values."""


async def render(console: Console, request: PageRequest) -> Element:
    query, only = ContentQuery.of(request.query), request.query.get("only")
    items = items_of(console)
    side = None
    if only != "pane":
        shown = await asyncio.to_thread(item_list, items, query)
        side = element("section", search_form(query), shown, class_="tools-side", aria_label="All content")
    pane = None if only == "list" else _pane(console, request, items, query)
    return element("div", side, pane, class_="tools with-tool" if query.name else "tools")


def _pane(
    console: Console, request: PageRequest, items: Sequence[ContentItem], query: ContentQuery
) -> Element:
    back = element("p", element("a", "All content", href="content"), class_="to-list")
    if not query.name:
        return element("section", element("p", "Choose an entry.", class_="empty"), id="pane")
    item = find(items, request.query)
    if item is None:
        gone = f"{query.server} does not offer {query.name!r} now, or the policy denies it."
        return element("section", back, element("p", gone, class_="problem"), id="pane")
    draft = console.forms.get(_number(request.query.get("draft")), item.key)
    selected = _selected(console, item, request.query.get("reading"))
    return element(
        "section",
        back,
        _about(item),
        element(
            "div",
            element("section", _form(item, draft, selected), class_="card", aria_label=_VERBS[item.kind]),
            _side(console, item, selected),
            class_="sides",
        ),
        id="pane",
    )


def _about(item: ContentItem) -> Element:
    entry = item.entry
    size = entry.size if isinstance(entry, Resource) else None
    is_named = item.kind == "prompt"
    return live(
        "content-about",
        titled("h2", item.title, key="content-name"),
        entry.description != "" and element("p", entry.description, class_="description"),
        facts(
            {
                "server": server_link(item.server),
                "name" if is_named else "URI": element("span", item.name, class_="breakable"),
                "type": None if isinstance(entry, Prompt | Skill) else entry.mime_type,
                "size": None if size is None else human_size(size),
                "files": len(entry.paths) or None if isinstance(entry, Skill) else None,
            }
        ),
        tag="section",
        class_="card",
        aria_labelledby="content-name",
    )


# The form


def _form(item: ContentItem, draft: Draft | None, selected: Trial | None) -> Element:
    if (fault := item.fault) is not None:
        return element("p", fault, class_="problem")
    typed = draft.typed if draft is not None else None if selected is None else selected.typed
    problems: Mapping[str, str] = {} if draft is None else draft.problems
    first = next((one.key for one in item.fields if one.key in problems), "")
    suggestible = item.kind in ("template", "prompt")
    return form(
        "content/read",
        element("button", _VERBS[item.kind], type="submit", class_="spoken", tabindex=-1, aria_hidden="true"),
        hidden_fields(item.hidden),
        [
            [
                field_widget(one, typed, "content", problems.get(one.key, ""), is_first=one.key == first),
                suggestible and _suggestions(one, draft),
            ]
            for one in item.fields
        ],
        element("div", element("button", _VERBS[item.kind], type="submit", class_="main"), class_="actions"),
        novalidate=True,
        id="content-form",
        class_="stacked arguments",
    )


def _suggestions(one: InputField, draft: Draft | None) -> Element:
    """The values that the server suggests, once they were asked for."""
    found = () if draft is None else draft.suggestions.get(one.key, ())
    return element(
        "div",
        element(
            "button",
            "Suggest values",
            type="submit",
            formaction="content/suggest",
            name="suggest",
            value=one.name,
            class_="small",
            aria_label=f"Suggest values for {one.name}",
        ),
        [
            element(
                "button",
                value,
                type="submit",
                formaction="content/choose",
                name=f"choose {one.name}",
                value=value,
                class_="small",
            )
            for value in found
        ],
        class_="actions suggestions",
    )


# What came of it


def _side(console: Console, item: ContentItem, selected: Trial | None) -> Element:
    said = None if selected is None else f"{item.title}: {selected.outcome}"
    cards = [] if selected is None else _questions(console, item, selected)
    return element(
        "div",
        live("reading-outcome", said, role="status", class_="spoken"),
        live("questions-here", cards, class_="here"),
        live("reading", selected and _reading(item, selected)),
        class_="trial-side",
    )


def _questions(console: Console, item: ContentItem, reading: Trial) -> list[Element]:
    if reading.outcome != "running":
        return []
    back = item.url(reading=reading.number)
    found = console.board.waiting.values()
    return [question_card(console, one, back) for one in found if _is_of(one, item, reading)]


def _is_of(waiting: WaitingQuestion, item: ContentItem, reading: Trial) -> bool:
    question = waiting.question
    if question.session != reading.session:
        return False
    if isinstance(question, ApprovalRequest):
        return question.name.startswith(f"{item.server}/") and question.name != item.server
    return question.server == item.server


def _reading(item: ContentItem, reading: Trial) -> Element:
    is_running = reading.outcome == "running"
    number = {"reading": str(reading.number), **item.hidden}
    return element(
        "article",
        titled("h2", _VERBS[item.kind], status(reading.outcome)),
        facts({"began": moment(reading.began), "took": None if is_running else duration(reading.seconds)}),
        reading.error != "" and element("p", reading.error, class_="problem"),
        reading.result is not None and _content(item, reading, reading.result),
        is_running and button("Cancel", "content/cancel", number, hint=f"Cancel reading {item.title}"),
        class_="card",
    )


def _content(item: ContentItem, reading: Trial, result: ToolResult) -> Child:
    match result.value:
        case PromptResult() as prompt:
            return [
                prompt.description and element("p", prompt.description, class_="faint"),
                [
                    element("div", element("h3", one.role), message_block(one.content), class_="message")
                    for one in prompt.messages
                ],
            ]
        case LoadedSkill() as loaded:
            return [_files(item, loaded.skill), _part(reading, 0, Text(text=loaded.instructions))]
        case _:
            parts = [_part(reading, index, block) for index, block in enumerate(result.content)]
            return parts or element("p", "It is empty.", class_="empty")


def _part(reading: Trial, index: int, block: Block) -> Child:
    link = element("a", "Save", href=f"content/save?reading={reading.number}&part={index}", download=True)
    return [message_block(block), element("p", link, class_="faint")]


def _files(item: ContentItem, skill: Skill) -> Child:
    """The files of a skill, each to be read."""
    paths = skill.paths[:100]
    return paths and element(
        "details",
        element("summary", f"Its {len(skill.paths)} files"),
        [button(path, "content/read", {**item.hidden, "file": path}, class_="small") for path in paths],
        id="skill-files",
    )


# Actions


async def read(console: Console, request: PageRequest) -> str:
    """Begin to read an entry; the page then shows the result."""
    item = find(items_of(console), request.form)
    if item is None or item.fault is not None:
        return request.fail("That is not offered any more.", "content")
    problems: dict[str, str] = {}
    values: dict[str, str] = {}
    for one in item.fields:
        try:
            values.update(arguments_of([one], request.form.lists))
        except ValueError as error:
            problems[one.key] = str(error)
    if problems:
        draft = console.forms.keep(item.key, _typed(item, request), problems=problems)
        return item.url(draft=draft.number)
    file = request.form.get("file")

    async def work(view: View) -> ToolResult:
        return await _result(view, item, values, file)

    session = f"console-{request.session}"
    try:
        reading = console.readings.read(item.key, _typed(item, request), session, work)
    except ToolbusError as error:
        return request.fail(str(error), item.url())
    return f"{item.url(reading=reading.number)}#reading"


async def _result(view: View, item: ContentItem, values: Mapping[str, str], file: str) -> ToolResult:
    match item.kind:
        case "resource":
            return ToolResult(content=await view.read_resource(item.server, item.name))
        case "template":
            return ToolResult(content=await view.read_resource(item.server, item.name, values))
        case "prompt":
            prompt = await view.get_prompt(item.server, item.name, values)
            return ToolResult(content=tuple(one.content for one in prompt.messages), value=prompt)
        case "skill" if file:
            return ToolResult(content=(await view.read_skill_file(cast("Skill", item.entry), file),))
        case "skill":
            loaded = await view.load_skill(item.server, item.name)
            return ToolResult(content=(Text(text=loaded.text),), value=loaded)


async def suggest(console: Console, request: PageRequest) -> str:
    """Ask the server for values of a field, by their typed beginning."""
    item, name = find(items_of(console), request.form), request.form.get("suggest")
    one = None if item is None else next((one for one in item.fields if one.name == name), None)
    if item is None or one is None:
        return request.fail("That is not offered any more.", "content")
    typed = _typed(item, request)
    given = {other.name: (typed.get(other.key) or [""])[0] for other in item.fields}
    view = console.bus.view(caller=Caller(face=FACE, session=f"console-{request.session}"))
    try:
        async with asyncio.timeout(SUGGESTED_WITHIN):
            found = await view.complete(
                item.server,
                item.name,
                name,
                given.pop(name),
                known={key: value for key, value in given.items() if value},
            )
    except TimeoutError:
        return request.fail(f"{item.server} suggests nothing within {SUGGESTED_WITHIN:g} s.", item.url())
    except ToolbusError as error:
        request.notice = Notice(text=str(error), kind="failed")
        return item.url(draft=console.forms.keep(item.key, typed).number)
    values = found.values[:MOST_SUGGESTIONS]
    if not values:
        request.notice = Notice(text=f"{item.server} suggests no values for {name}.", kind="failed")
    draft = console.forms.keep(item.key, typed, suggestions={one.key: values})
    return item.url(draft=draft.number)


async def choose(console: Console, request: PageRequest) -> str:
    """Put a suggested value into its field."""
    item = find(items_of(console), request.form)
    if item is None:
        return request.fail("That is not offered any more.", "content")
    typed = dict(_typed(item, request))
    for one in item.fields:
        if f"choose {one.name}" in request.form:
            typed[one.key] = [request.form.get(f"choose {one.name}")]
    return item.url(draft=console.forms.keep(item.key, typed).number)


async def cancel(console: Console, request: PageRequest) -> str:
    item, number = find(items_of(console), request.form), _number(request.form.get("reading"))
    if not console.readings.cancel(number):
        request.notice = Notice(text="That has ended.", kind="failed")
    return "content" if item is None else item.url(reading=number)


async def save(console: Console, request: PageRequest) -> Download:
    """One part of a result, as a file."""
    reading = console.readings.get(_number(request.query.get("reading")))
    if reading is None or reading.result is None:
        raise ToolbusError("that is not kept any more; read it again")
    return saved_part(reading.result, f"content-{reading.number}", _number(request.query.get("part")))


def _typed(item: ContentItem, request: PageRequest) -> dict[str, list[str]]:
    return {one.key: request.form.all(one.key) for one in item.fields}


def _selected(console: Console, item: ContentItem, number: str) -> Trial | None:
    found = console.readings.get(_number(number))
    if found is not None and found.tool == item.key:
        return found
    return next(iter(console.readings.of(item.key)), None)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 20 else -1


PAGE = Page(
    path="content",
    title="Content",
    render=render,
    topics={"catalog", "trials", "questions"},
    scripts=("tools.js",),
    actions={"read": read, "suggest": suggest, "choose": choose, "cancel": cancel},
    downloads={"save": save},
)
