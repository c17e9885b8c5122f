"""What waits for a person: forms and URLs that servers ask about, and calls that a policy asks about."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.fields import Typed, arguments_of, field_widget, fields_of_form
from toolbus.console.page import Page, PageRequest
from toolbus.console.widgets import as_json, facts, form, hidden_fields, moment, short_session
from toolbus.core.ask.approval import ApprovalAnswer, ApprovalRequest
from toolbus.core.ask.question_router import WaitingQuestion
from toolbus.core.values.elicitation import Answer, Elicitation

_ANSWERS: dict[str, ApprovalAnswer] = {"once": "once", "always": "always", "no": False}
_URL_CHARACTERS = "".join(map(chr, range(0x21, 0x7F)))


async def render(console: Console, request: PageRequest) -> Element:
    waiting = console.board.waiting
    cards = [_card(console, question) for question in waiting.values()]
    empty = element("p", "Nothing waits for an answer.", class_="empty")
    return element("div", live("questions", cards or empty, class_="cards"))


async def answer(console: Console, request: PageRequest) -> str:
    waiting = _waiting(console, request)
    if waiting is None or not isinstance(waiting.question, Elicitation):
        return _gone(request)
    try:
        reply = reply_to(waiting.question, request)
    except ValueError as error:
        _keep_draft(console, waiting.number, request)
        return request.fail(str(error), f"questions#{_place(waiting)}")
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


def _send(
    console: Console, request: PageRequest, waiting: WaitingQuestion, reply: Answer | ApprovalAnswer
) -> str:
    if not console.board.reply(waiting.number, reply):
        return _gone(request)
    console.drafts.pop(waiting.number, None)
    return request.say("Answered.", "questions")


def _gone(request: PageRequest) -> str:
    return request.fail("That question does not wait any more.", "questions")


def _keep_draft(console: Console, number: int, request: PageRequest) -> None:
    """Keep what was typed, as long as the question waits."""
    for gone in console.drafts.keys() - console.board.waiting.keys():
        del console.drafts[gone]
    console.drafts[number] = request.form.lists


def _place(waiting: WaitingQuestion) -> str:
    return f"question-{waiting.number}"


def _card(console: Console, waiting: WaitingQuestion) -> Element:
    question = waiting.question
    if isinstance(question, ApprovalRequest):
        return card(_place(waiting), f"Allow a call of {question.name}?", _approval(waiting, question))
    return card(_place(waiting), f"{question.server} asks", _elicitation(console, waiting, question))


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
    typed = console.drafts.get(waiting.number)
    return [
        element("p", question.message, class_="description"),
        _facts(waiting, question.tool, question.server),
        answer_form(
            "questions/answer",
            {"number": str(waiting.number)},
            question_fields(question, typed, _place(waiting)),
            buttons if question.fault is None else buttons[1:],
        ),
    ]


def _approval(waiting: WaitingQuestion, request: ApprovalRequest) -> Child:
    buttons = [("once", "Allow once"), ("always", "Always allow"), ("no", "Deny")]
    return [
        request.reason != "" and element("p", request.reason, class_="description"),
        _facts(waiting, request.name, request.server, rule=request.rule),
        element("p", "Its arguments, exactly as they will be sent:"),
        element("pre", as_json(dict(request.arguments)), tabindex=0, aria_label="arguments"),
        element("p", "Always: until the definition of the tool or the rule changes.", class_="faint"),
        answer_form("questions/decide", {"number": str(waiting.number)}, None, buttons),
    ]


# For pages of runs, too


def reply_to(question: Elicitation, request: PageRequest) -> Answer:
    """The answer in a form; ValueError if it is invalid."""
    match request.form.get("answer"):
        case "accept" if question.url is not None:
            return question.accept()
        case "accept":
            return question.accept(arguments_of(fields_of_form(question.form), request.form.lists))
        case "decline":
            return question.decline()
        case _:
            return question.cancel()


def card(place: str, title: str, *content: Child) -> Element:
    """A question; live by itself, so that its form stays as it is while others come and go."""
    heading = f"{place}-title"
    head = element("h2", title, id=heading)
    return live(place, head, *content, tag="article", class_="card", aria_labelledby=heading)


def question_fields(question: Elicitation, typed: Typed | None, place: str) -> Child:
    """The fields of a question, or the URL to visit, or why it cannot be answered."""
    if question.fault is not None:
        return element("p", question.fault, class_="problem")
    if question.url is None:
        return [field_widget(one, typed, place) for one in fields_of_form(question.form)]
    href = quote(question.url, safe=_URL_CHARACTERS, errors="replace")
    link = element("a", question.url, href=href, target="_blank", rel="noopener noreferrer")
    return element("p", "The server wants you to visit ", link)


def answer_form(
    action: str, hidden: Mapping[str, str], fields: Child, buttons: Iterable[tuple[str, str]]
) -> Element:
    """A form with a button for each answer."""
    choices = [
        element(
            "button",
            label,
            type="submit",
            name="answer",
            value=value,
            class_="main" if value in ("accept", "once") else None,
            # Whoever declines need not fill in the form.
            formnovalidate=value == "decline",
        )
        for value, label in buttons
    ]
    return form(action, hidden_fields(hidden), fields, element("div", choices, class_="actions"))


PAGE = Page(
    path="questions",
    title="Questions",
    render=render,
    topics={"questions"},
    actions={"answer": answer, "decide": decide},
    count=lambda console: len(console.board.waiting),
)
