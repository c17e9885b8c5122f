"""What a run asks a person, as a row of the store, and the answers to it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolbus.agent.durable.events import QuestionAnswered, QuestionAsked
from toolbus.core.approval import ApprovalRequest
from toolbus.core.elicitation import ELICITATION, QUESTION, Answer, Pending

_CHOICES = ("once", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call of a run that waits for a person."""

    id: str
    """Its id within the run."""
    pending: Pending

    def to_json(self) -> dict[str, Any]:
        """The question as a row."""
        return {"id": self.id, "pending": self.pending.to_json()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Asked":
        """The question of a row."""
        return cls(id=stored["id"], pending=Pending.from_json(stored["pending"]))

    @property
    def is_approval(self) -> bool:
        """Whether toolbus asks if the call may be made."""
        return self.pending.call is not None

    @property
    def message(self) -> str:
        """What is asked."""
        return "; ".join(question.message for question in self.pending.questions.values())

    @property
    def event(self) -> QuestionAsked:
        """For the listeners of the run."""
        return QuestionAsked(
            id=self.id,
            server=self.pending.server,
            tool=self.pending.tool,
            message=self.message,
            arguments=self.pending.arguments,
            is_approval=self.is_approval,
        )

    def answered(self, answers: Mapping[str, Answer]) -> QuestionAnswered:
        """For the listeners of the run."""
        actions = dict.fromkeys(answer.action for answer in answers.values())
        return QuestionAnswered(id=self.id, action=", ".join(actions))

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
    choice = {"type": "string", "title": "Allow this call?", "enum": list(_CHOICES)}
    schema = {"type": "object", "properties": {"answer": choice}, "required": ["answer"]}
    params = {"message": f"Call {request.name!r} with {arguments}?", "requestedSchema": schema}
    return Pending(
        server=request.server or "toolbus",
        tool=request.name if request.spec is None else request.spec.origin.tool,
        arguments=dict(request.arguments),
        requests={QUESTION: {"method": ELICITATION, "params": params}},
        rounds=0,
        call=request.call or "",
    )


def answer_allows(answers: Mapping[str, Answer]) -> bool:
    """Whether the answer to an `approval_question` allows the call."""
    given = answers[QUESTION]
    return given.action == "accept" and (given.content or {}).get("answer") == "once"
