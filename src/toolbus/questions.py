"""What a server asks of a person in the middle of a call, the answer, and a call that waits for one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from toolbus.forms import Form

Action: TypeAlias = Literal["accept", "decline", "cancel"]
ELICITATION = "elicitation/create"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person did: filled in the form or agreed (accept), said no, or walked away (cancel)."""

    action: Action
    content: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicitation:
    """A question of a server: a form to fill in (`schema`), or an address to visit (`url`).

    An address is never opened by toolbus. Show it, with the server's name, and let the person decide.
    """

    server: str
    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None
    tool: str | None = None
    """The tool whose call it is asked for, where that is known."""

    @property
    def form(self) -> Form:
        """The fields to fill in; none where an address is to be visited."""
        return Form(self.schema or {})

    def accept(self, values: Mapping[str, Any] | None = None) -> Answer:
        """The filled-in form, defaults included; ValueError says what does not fit."""
        if self.url is None:
            return Answer(action="accept", content=self.form.filled(values))
        if values:
            raise ValueError("an address is visited, not filled in: accept() takes no values here")
        return Answer(action="accept")

    def decline(self) -> Answer:
        """A no."""
        return Answer(action="decline")

    def cancel(self) -> Answer:
        """No answer at all."""
        return Answer(action="cancel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A call that waits for a person: store it as JSON, and resume it when there is an answer.

    `Toolbus.resume` takes it, also in another process, for as long as the server remembers the call.
    """

    server: str
    tool: str
    """The server's own name of the tool."""
    arguments: Mapping[str, Any] = field(repr=False)
    """As they were sent."""
    requests: Mapping[str, Any] = field(repr=False)
    """What the server wants to know, by its own keys, as it asked."""
    state: str | None = field(default=None, repr=False)
    """What the server wants to get back; nobody else can read it."""
    task: str | None = None
    """The task that waits, if the server made one of the call."""
    rounds: int = 1
    """How often the server has asked by now."""

    @property
    def questions(self) -> dict[str, Elicitation]:
        """What a person is to answer, by the server's keys."""
        return {
            key: _question(request["params"], self.server, self.tool)
            for key, request in self.requests.items()
            if request.get("method") == ELICITATION
        }

    def to_json(self) -> str:
        """For a file or a table; holds the arguments of the call."""
        values = {name: getattr(self, name) for name in _STORED}
        return json.dumps({"toolbus": _VERSION, "pending": values})

    @classmethod
    def from_json(cls, text: str | bytes) -> "Pending":
        """What `to_json` gave; ValueError if it is something else."""
        try:
            stored: Any = json.loads(text)
        except ValueError:
            stored = None
        values = cast("dict[str, Any]", stored).get("pending") if isinstance(stored, dict) else None
        if not isinstance(values, dict) or set(cast("dict[str, Any]", values)) != set(_STORED):
            raise ValueError("this is no pending call")
        return cls(**cast("dict[str, Any]", values))

    def __str__(self) -> str:
        asked = "; ".join(question.message for question in self.questions.values())
        return f"server {self.server!r} waits for an answer: {asked}"


_STORED = ("server", "tool", "arguments", "requests", "state", "task", "rounds")


def _question(params: Mapping[str, Any], server: str, tool: str) -> Elicitation:
    return Elicitation(
        server=server,
        message=params.get("message", ""),
        schema=params.get("requestedSchema"),
        url=params.get("url"),
        tool=tool,
    )
