"""What waits for a person: forms and URLs that servers ask about, and calls that a policy asks about."""

from urllib.parse import quote

from toolbus.console.html.elements import Child, Element, element, live
from toolbus.console.html.field_widgets import field_widget
from toolbus.console.html.fields import arguments_of, fields_of_form
from toolbus.console.html.results import as_json
from toolbus.console.html.widgets import facts, moment, short_session
from toolbus.console.page import Notice, Page, PageRequest
from toolbus.console.state.console import Console
from toolbus.core.ask.approval import ApprovalAnswer, ApprovalRequest
from toolbus.core.ask.question_router import WaitingQuestion
from toolbus.core.values.elicitation import Answer, Elicitation

_ANSWERS: dict[str, ApprovalAnswer] = {"once": "once", "always": "always", "no": False}
_URL_CHARACTERS = "".join(map(chr, range(0x21, 0x7F)))


async def render(console: Console, request: PageRequest) -> Element:
    """The page."""
    waiting = console.board.waiting
    cards = [_card(console, question) for question in waiting.values()]
    empty = element("p", "Nothing waits for an answer.", class_="empty")
    return element("div", live("questions", cards or empty, class_="cards"))


async def answer(console: Console, request: PageRequest) -> str:
    """Answer a question of a server."""
    waiting = _waiting(console, request)
    if waiting is None or not isinstance(waiting.question, Elicitation):
        return _gone(request)
    action = request.form.get("answer")
    try:
        reply = _reply(waiting.question, action, request)
    except ValueError as error:
        _keep_draft(console, waiting.number, request)
        request.notice = Notice(text=str(error), kind="failed")
        return f"questions#{_place(waiting)}"
    return _send(console, request, waiting, reply)


async def decide(console: Console, request: PageRequest) -> str:
    """Allow a call, or deny it; anything but a clear answer denies it."""
    waiting = _waiting(console, request)
    if waiting is None or not isinstance(waiting.question, ApprovalRequest):
        return _gone(request)
    return _send(console, request, waiting, _ANSWERS.get(request.form.get("answer"), False))


def _waiting(console: Console, request: PageRequest) -> WaitingQuestion | None:
    number = request.form.get("number")
    is_number = number.isdecimal() and len(number) < 20
    return console.board.waiting.get(int(number)) if is_number else None


def _reply(question: Elicitation, action: str, request: PageRequest) -> Answer:
    match action:
        case "accept" if question.url is not None:
            return question.accept()
        case "accept":
            return question.accept(arguments_of(fields_of_form(question.form), request.form.lists))
        case "decline":
            return question.decline()
        case _:
            return question.cancel()


def _send(
    console: Console, request: PageRequest, waiting: WaitingQuestion, reply: Answer | ApprovalAnswer
) -> str:
    if not console.board.reply(waiting.number, reply):
        return _gone(request)
    console.drafts.pop(waiting.number, None)
    request.notice = Notice(text="Answered.")
    return "questions"


def _gone(request: PageRequest) -> str:
    request.notice = Notice(text="That question does not wait any more.", kind="failed")
    return "questions"


def _keep_draft(console: Console, number: int, request: PageRequest) -> None:
    """Keep what was typed, as long as the question waits."""
    for gone in console.drafts.keys() - console.board.waiting.keys():
        del console.drafts[gone]
    console.drafts[number] = request.form.lists


def _place(waiting: WaitingQuestion) -> str:
    return f"question-{waiting.number}"


def _card(console: Console, waiting: WaitingQuestion) -> Element:
    question, heading = waiting.question, f"{_place(waiting)}-title"
    if isinstance(question, ApprovalRequest):
        title, content = f"Allow a call of {question.name}?", _approval(waiting, question)
    else:
        title, content = f"{question.server} asks", _elicitation(console, waiting, question)
    # Live by itself, so that its form stays as it is while others come and go.
    return live(
        _place(waiting),
        element("h2", title, id=heading),
        content,
        tag="article",
        class_="card",
        aria_labelledby=heading,
    )


def _facts(waiting: WaitingQuestion, tool: str | None, server: str | None, **more: str | None) -> Element:
    return facts(
        {
            "server": server,
            "tool": tool,
            **more,
            "user": waiting.question.user or None,
            "session": short_session(waiting.session) or None,
            "since": moment(waiting.since),
            "asked": "also where the call was made" if waiting.is_asked else "only here",
        }
    )


def _elicitation(console: Console, waiting: WaitingQuestion, question: Elicitation) -> Child:
    buttons = [("accept", "Send" if question.url is None else "Accept"), ("decline", "Decline")]
    fields: Child = None
    if question.fault is not None:
        fields, buttons = element("p", question.fault, class_="problem"), buttons[1:]
    elif question.url is not None:
        fields = _url(question.url)
    else:
        typed = console.drafts.get(waiting.number)
        fields = [field_widget(one, typed, _place(waiting)) for one in fields_of_form(question.form)]
    return [
        element("p", question.message, class_="description"),
        _facts(waiting, question.tool, question.server),
        _form(waiting, "questions/answer", fields, buttons),
    ]


def _url(url: str) -> Child:
    href = quote(url, safe=_URL_CHARACTERS, errors="replace")
    link = element("a", url, href=href, target="_blank", rel="noopener noreferrer")
    return element("p", "The server wants you to visit ", link)


def _approval(waiting: WaitingQuestion, request: ApprovalRequest) -> Child:
    buttons = [("once", "Allow once"), ("always", "Always allow"), ("no", "Deny")]
    return [
        request.reason != "" and element("p", request.reason, class_="description"),
        _facts(waiting, request.name, request.server, rule=request.rule),
        element("p", "Its arguments, exactly as they will be sent:"),
        element("pre", as_json(dict(request.arguments)), tabindex=0, aria_label="arguments"),
        element("p", "Always: until the definition of the tool or the rule changes.", class_="faint"),
        _form(waiting, "questions/decide", None, buttons),
    ]


def _form(waiting: WaitingQuestion, action: str, fields: Child, buttons: list[tuple[str, str]]) -> Element:
    return element(
        "form",
        element("input", type="hidden", name="number", value=waiting.number),
        fields,
        element("div", [_button(*one) for one in buttons], class_="actions"),
        method="post",
        action=action,
        class_="stacked",
    )


def _button(value: str, label: str) -> Element:
    is_main = value in ("accept", "once")
    return element(
        "button",
        label,
        type="submit",
        name="answer",
        value=value,
        class_="main" if is_main else None,
        # Whoever declines need not fill in the form.
        formnovalidate=value == "decline",
    )


PAGE = Page(
    path="questions",
    title="Questions",
    render=render,
    topics={"questions"},
    actions={"answer": answer, "decide": decide},
    count=lambda console: len(console.board.waiting),
)
