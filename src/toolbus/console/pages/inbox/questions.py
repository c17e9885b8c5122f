"""Questions and approvals as cards with a form, and what their forms do; for every page that shows one."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.fields import Typed, arguments_of, field_widget, fields_of_form
from toolbus.console.inbox import RISKS, risk_of, waiting_count
from toolbus.console.links import call_link, call_url, is_place, server_link, tool_link
from toolbus.console.page import PageRequest
from toolbus.console.widgets import (
    Tone,
    as_json,
    badge,
    facts,
    form,
    hidden_fields,
    moment,
    short_session,
    titled,
)
from toolbus.core.ask.approval import ApprovalAnswer, ApprovalRequest
from toolbus.core.ask.question_router import WaitingQuestion
from toolbus.core.text.display import counted
from toolbus.core.values.elicitation import Answer, Elicitation

_ANSWERS: dict[str, ApprovalAnswer] = {"once": "once", "always": "always", "no": False}
_SAID = {
    "once": "Allowed once.",
    "always": "Allowed, and from now on.",
    "accept": "Answered.",
    "decline": "Declined.",
}
_URL_CHARACTERS = "".join(map(chr, range(0x21, 0x7F)))


def question_card(console: Console, waiting: WaitingQuestion, back: str = "") -> Element:
    """A question with its form; `back` is the page that its answer leads to, if not the call or the Inbox."""
    question, place = waiting.question, _place(waiting)
    risk = risk_of(question)
    tone: Tone = "bad" if risk == "destructive" else "busy"
    hidden = {"number": str(waiting.number), **({"back": back} if back else {})}
    if isinstance(question, ApprovalRequest):
        title, content = f"Allow a call of {question.name}?", _approval(console, waiting, question, hidden)
    else:
        title, content = f"{question.server} asks", _elicitation(console, waiting, question, hidden)
    return card(place, title, content, beside=badge(RISKS[risk][0], tone))


async def answer(console: Console, request: PageRequest) -> str:
    waiting = _waiting(console, request)
    if waiting is None or not isinstance(waiting.question, Elicitation):
        return _gone(request)
    try:
        reply = reply_to(waiting.question, request)
    except ValueError as error:
        _keep_draft(console, waiting.number, request)
        return request.fail(str(error), _way_back(request) or f"inbox#{_place(waiting)}")
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
    """Send the answer, and go back to the call; while others wait, the call is a link in the queue."""
    call = call_of(console, waiting)
    if not console.board.reply(waiting.number, reply):
        return _gone(request)
    console.drafts.pop(waiting.number, None)
    if isinstance(waiting.question, ApprovalRequest):
        said = _SAID.get(request.form.get("answer"), "Denied.")
    else:
        said = _SAID.get(request.form.get("answer"), "Canceled.")
    left = waiting_count(console) - 1
    if place := _way_back(request):
        return request.say(said, place)
    if left > 0:
        said = f"{said} {counted(left, 'entry', 'entries')} left."
    if call is None or left > 0:
        return request.say(said, "inbox", None if call is None else call_link(call, "Open the call"))
    return request.say(said, call_url(call))


def _way_back(request: PageRequest) -> str:
    back = request.form.get("back")
    return back if is_place(back) else ""


def _gone(request: PageRequest) -> str:
    return request.fail("That question does not wait any more.", _way_back(request) or "inbox")


def call_of(console: Console, waiting: WaitingQuestion) -> str | None:
    """The call that waits for an answer; None if it is not known, or one of several."""
    question = waiting.question
    if isinstance(question, ApprovalRequest):
        found = [one.id for one in console.calls.in_flight if str(one.number) == question.id]
    else:
        found = [
            one.id
            for one in console.calls.in_flight
            if (one.server, one.caller.session, one.caller.user)
            == (question.server, question.session, question.user)
        ]
    return str(found[0]) if len(found) == 1 else None


def _keep_draft(console: Console, number: int, request: PageRequest) -> None:
    """Keep a typed answer as long as the question waits."""
    for gone in console.drafts.keys() - console.board.waiting.keys():
        del console.drafts[gone]
    console.drafts[number] = request.form.lists


def _place(waiting: WaitingQuestion) -> str:
    return f"question-{waiting.number}"


def _facts(console: Console, waiting: WaitingQuestion, tool: Child, **more: Child) -> Element:
    question = waiting.question
    call = call_of(console, waiting)
    return facts(
        {
            "server": question.server and server_link(question.server),
            "tool": tool,
            "call": call and call_link(call, call),
            **more,
            "user": question.user or None,
            "session": short_session(waiting.session) or None,
            "asked": moment(waiting.since),
            "where": "here, and where the call was made" if waiting.is_asked else "only here",
        }
    )


def _elicitation(
    console: Console, waiting: WaitingQuestion, question: Elicitation, hidden: Mapping[str, str]
) -> Child:
    buttons = [("accept", "Send" if question.url is None else "Accept"), ("decline", "Decline")]
    typed = console.drafts.get(waiting.number)
    return [
        element("p", question.message, class_="description"),
        _facts(console, waiting, question.tool),
        answer_form(
            "inbox/answer",
            hidden,
            question_fields(question, typed, _place(waiting)),
            buttons if question.fault is None else buttons[1:],
        ),
    ]


def _approval(
    console: Console, waiting: WaitingQuestion, request: ApprovalRequest, hidden: Mapping[str, str]
) -> Child:
    tool = request.name if request.spec is None else tool_link(request.name)
    # The answer that lasts stands apart, so that no thumb hits it instead of another.
    buttons = [("once", "Allow once"), ("no", "Deny"), ("always", "Always allow")]
    return [
        request.reason != "" and element("p", request.reason, class_="description"),
        _facts(console, waiting, tool, rule=request.rule and element("a", request.rule, href="policy")),
        element("p", "Its arguments, exactly as they will be sent:"),
        element("pre", as_json(dict(request.arguments)), tabindex=0, aria_label="arguments"),
        element("p", "Always: until the definition of the tool or the rule changes.", class_="faint"),
        answer_form("inbox/decide", hidden, None, buttons),
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


def card(place: str, title: str, *content: Child, beside: Child = None) -> Element:
    """An entry; live by itself, so that its form stays as it is while others come and go.

    The script moves the focus from entry to entry.
    """
    heading = f"{place}-title"
    head = titled("h2", title, beside, key=heading)
    return live(
        place, head, *content, tag="article", class_="card entry", tabindex=-1, aria_labelledby=heading
    )


def question_fields(question: Elicitation, typed: Typed | None, place: str) -> Child:
    """The fields of a question, or the URL to visit, or why it cannot be answered."""
    if question.fault is not None:
        return element("p", question.fault, class_="problem")
    if question.url is None:
        return [field_widget(one, typed, place) for one in fields_of_form(question.form)]
    href = quote(question.url, safe=_URL_CHARACTERS, errors="replace")
    link = element(
        "a", question.url, href=href, target="_blank", rel="noopener noreferrer", class_="breakable"
    )
    return element("p", "The server wants you to visit ", link)


def answer_form(
    action: str, hidden: Mapping[str, str], fields: Child, buttons: Iterable[tuple[str, str]]
) -> Element:
    """A form with a button for each answer, at its end."""
    choices = [
        element(
            "button",
            label,
            type="submit",
            name="answer",
            value=value,
            class_={"accept": "main", "once": "main", "always": "apart"}.get(value),
            # Whoever declines need not fill in the form.
            formnovalidate=value == "decline",
        )
        for value, label in buttons
    ]
    return form(action, hidden_fields(hidden), fields, element("div", choices, class_="actions answers"))
