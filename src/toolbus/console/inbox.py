"""The queue of the Inbox: entries for a person, highest risk first; nothing about HTML."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolbus.bus.toolbus import Toolbus
from toolbus.console.console import Console, RunFacts
from toolbus.console.safety.held import HeldServer
from toolbus.core.ask.approval import ApprovalRequest
from toolbus.core.ask.question_router import WaitingQuestion
from toolbus.core.values.elicitation import Elicitation

Risk: TypeAlias = Literal["flagged", "destructive", "call", "reading", "url", "form", "change", "sign-in"]
RISKS: Mapping[Risk, tuple[str, str]] = {
    "flagged": ("flagged change", "flagged changes"),
    "destructive": ("destructive call", "destructive calls"),
    "call": ("call to approve", "calls to approve"),
    "reading": ("read-only call", "read-only calls"),
    "url": ("page to visit", "pages to visit"),
    "form": ("question", "questions"),
    "change": ("change on hold", "changes on hold"),
    "sign-in": ("sign-in", "sign-ins"),
}
"""From the highest risk to the lowest: the words for one, and for several.

A change with signs of deception is first: it may have been made to be approved in a hurry. A tool marked
destructive comes before other calls; one that is marked read-only comes after them, if its server is trusted.
"""
_ORDER: Mapping[Risk, int] = {risk: place for place, risk in enumerate(RISKS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingChange:
    """The changes of a server since it was locked."""

    server: str
    held: HeldServer

    @property
    def warnings(self) -> list[str]:
        return [warning for part in self.held.parts for warning in part.warnings]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSignIn:
    """A server that nobody is signed in to."""

    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """Something that waits for a person."""

    risk: Risk
    since: float
    about: WaitingQuestion | RunFacts | WaitingChange | WaitingSignIn


def waiting_count(console: Console) -> int:
    """The number of entries; cheaper than the entries."""
    bus = console.bus
    held = {one.server for one in console.held.open} if bus.lock is not None else ()
    return len(console.board.waiting) + len(console.waiting_runs) + len(held) + len(_signed_out(bus))


def waiting_entries(console: Console) -> list[InboxEntry]:
    """All entries: the highest risk first, and of the same risk, the one that waits longest."""
    found = [
        *(_entry_of(waiting) for waiting in console.board.waiting.values()),
        *(InboxEntry(risk=_risk_of_run(run), since=run.updated, about=run) for run in console.waiting_runs),
        *(_change(alias, held) for alias, held in console.held.open_servers().items()),
        *_signed_out(console.bus),
    ]
    return sorted(found, key=lambda entry: (_ORDER[entry.risk], entry.since))


def _change(alias: str, held: HeldServer) -> InboxEntry:
    change = WaitingChange(server=alias, held=held)
    return InboxEntry(risk="flagged" if change.warnings else "change", since=0.0, about=change)


def _signed_out(bus: Toolbus) -> list[InboxEntry]:
    return [
        InboxEntry(risk="sign-in", since=now.since, about=WaitingSignIn(server=alias))
        for alias, now in bus.servers.items()
        if now.state == "auth_required"
    ]


def _entry_of(waiting: WaitingQuestion) -> InboxEntry:
    return InboxEntry(risk=risk_of(waiting.question), since=waiting.since, about=waiting)


def risk_of(question: ApprovalRequest | Elicitation) -> Risk:
    """The risk of an answer that is given too fast."""
    return _risk_of_call(question) if isinstance(question, ApprovalRequest) else _risk_of_question(question)


def _risk_of_call(request: ApprovalRequest) -> Risk:
    if request.spec is not None and request.spec.annotations.get("destructiveHint") is True:
        return "destructive"
    return "reading" if request.reads_only else "call"


def _risk_of_question(question: Elicitation) -> Risk:
    return "form" if question.url is None else "url"


def _risk_of_run(run: RunFacts) -> Risk:
    asked = run.question
    assert asked is not None, "only runs that wait are in the queue"
    if asked.is_approval:
        return "call"
    urls = [question.url for question in asked.pending.questions.values()]
    return "url" if any(urls) else "form"
