"""Questions of a run to a person, as rows of the store and as events, and their answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolbus.agent.events import TextDelta, ThinkingDelta, ToolCalled, ToolReturned
from toolbus.core.ask.approval import ApprovalRequest
from toolbus.core.values.elicitation import ELICITATION, QUESTION, Answer, Pending
from toolbus.core.values.records import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked:
    """The run waits for a person, in any process: answer with `run.answer(...)`."""

    id: str
    """The id of the question within its run."""
    server: str
    tool: str
    message: str
    arguments: Mapping[str, JSON]
    is_approval: bool
    """Whether toolbus asks if the call may be made; otherwise its server asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered:
    """Somebody answered; the run goes on."""

    id: str
    action: str
    """The person's action: accept, decline or cancel; for an approval, the answer, such as once or no.

    `late` if nobody answered in time.
    """


DurableEvent: TypeAlias = (
    TextDelta | ThinkingDelta | ToolCalled | ToolReturned | QuestionAsked | QuestionAnswered
)
"""Texts are whole: one event for each text of the model."""


_NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCall:
    """A call of a run that waits for a person."""

    id: str
    """Its id within the run."""
    pending: Pending
    held: Mapping[str, str] = field(default_factory=dict[str, str])
    """The changed tool that it is about, with the digest of its definition; empty for other questions."""

    def to_json(self) -> dict[str, Any]:
        stored = {"id": self.id, "pending": self.pending.to_json()}
        return {**stored, "held": dict(self.held)} if self.held else stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "WaitingCall":
        pending = Pending.from_json(stored["pending"])
        return cls(id=stored["id"], pending=pending, held=stored.get("held", {}))

    @property
    def is_approval(self) -> bool:
        """Whether toolbus asks if the call may be made."""
        return self.pending.call is not None

    @property
    def message(self) -> str:
        return "; ".join(question.message for question in self.pending.questions.values())

    @property
    def event(self) -> QuestionAsked:
        return QuestionAsked(
            id=self.id,
            server=self.pending.server,
            tool=self.pending.tool,
            message=self.message,
            arguments=self.pending.arguments,
            is_approval=self.is_approval,
        )

    def answered(self, answers: Mapping[str, Answer]) -> QuestionAnswered:
        words = dict.fromkeys(
            _approval_word(answer) if self.is_approval else answer.action for answer in answers.values()
        )
        return QuestionAnswered(id=self.id, action=", ".join(words))

    def read_answers(self, sent: Any) -> dict[str, Answer]:
        """The answers of `answers_json`; ValueError for anything else."""
        try:
            return {key: Answer(action=one["action"], content=one["content"]) for key, one in sent.items()}
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not an answer: {sent!r:.100}") from error


def answers_json(answers: Mapping[str, Answer]) -> dict[str, Any]:
    """Answers as they are sent to a run."""
    return {
        key: {"action": answer.action, "content": None if answer.content is None else dict(answer.content)}
        for key, answer in answers.items()
    }


def approval_question(request: ApprovalRequest) -> Pending:
    """The question whether a call may be made, if the agent asks and not a rule of the policy."""
    arguments = json.dumps(dict(request.arguments), default=repr)
    return Pending(
        server=request.server or "toolbus",
        tool=request.name if request.spec is None else request.spec.origin.tool,
        arguments=dict(request.arguments),
        requests=_choice(f"Call {request.name!r} with {arguments}?", "Allow this call?", "once"),
        rounds=0,
        call=request.call or "",
    )


def changed_question(tool: str, arguments: Mapping[str, JSON], call: str) -> Pending:
    """The question whether a run may use a tool, `server/tool`, that changed since it began."""
    server, _, name = tool.partition("/")
    shown = json.dumps(dict(arguments), default=repr)
    message = f"{tool!r} changed since this run began. Accept that, and call it with {shown}?"
    return Pending(
        server=server,
        tool=name,
        arguments=dict(arguments),
        requests=_choice(message, "Accept the changed tool?", "accept"),
        rounds=0,
        call=call,
    )


LATE = Answer(action="cancel")
"""The answer used for a question that nobody answered in time."""
ACCEPTED = Answer(action="accept", content={"answer": "accept"})
"""The answer that accepts a changed tool."""


def answer_allows(answers: Mapping[str, Answer]) -> bool:
    """Whether the answer to an `approval_question` or a `changed_question` allows the call."""
    return _approval_word(answers[QUESTION]) != _NO


def _approval_word(answer: Answer) -> str:
    return str((answer.content or {}).get("answer", _NO)) if answer.action == "accept" else _NO


def _choice(message: str, title: str, yes: str) -> dict[str, Any]:
    choice = {"type": "string", "title": title, "enum": [yes, _NO]}
    schema = {"type": "object", "properties": {"answer": choice}, "required": ["answer"]}
    return {QUESTION: {"method": ELICITATION, "params": {"message": message, "requestedSchema": schema}}}
