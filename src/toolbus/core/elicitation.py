"""What a server asks of a person in the middle of a call, the answer, and a call that waits for one."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from toolbus.core.forms import Form
from toolbus.core.text import cleaned, cleaned_json

Action: TypeAlias = Literal["accept", "decline", "cancel"]
ELICITATION = "elicitation/create"


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

    @classmethod
    def asked(
        cls,
        server: str,
        tool: str | None,
        message: str,
        schema: Mapping[str, Any] | None = None,
        url: str | None = None,
    ) -> "Elicitation":
        """As a server asks it, its texts without hidden and control characters."""
        shown = None if schema is None else _texts_cleaned(schema)
        return cls(server=server, tool=tool, message=cleaned(message), schema=shown, url=url)

    @property
    def fault(self) -> str | None:
        """Why a person must not be shown the question: no form, or an address that is not safe."""
        if self.url is not None:
            unsafe = f"the address {self.url!r} is neither https nor on this machine"
            return None if _is_safe(self.url) else unsafe
        try:
            _ = self.form
        except ValueError as error:
            return f"the form is invalid: {error}"
        return None

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
    """As they were given."""
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
            key: question(request["params"], self.server, self.tool)
            for key, request in self.requests.items()
            if request["method"] == ELICITATION
        }

    def to_json(self) -> str:
        """For a file or a table; holds the arguments of the call."""
        values = {name: getattr(self, name) for name in _STORED}
        return json.dumps({"toolbus": 1, "pending": values})

    @classmethod
    def from_json(cls, text: str | bytes) -> "Pending":
        """What `to_json` gave; ValueError if it is something else."""
        try:
            stored: Any = json.loads(text)
        except ValueError:
            stored = None
        values = _stored(stored)
        if values is None:
            raise ValueError("this is no pending call")
        return cls(**values)

    def __str__(self) -> str:
        asked = "; ".join(question.message for question in self.questions.values())
        return f"server {self.server!r} waits for an answer: {asked}"


_STORED: dict[str, Any] = {
    "server": str,
    "tool": str,
    "arguments": dict,
    "requests": dict,
    "state": str | None,
    "task": str | None,
    "rounds": int,
}


def question(params: Mapping[str, Any], server: str, tool: str | None) -> Elicitation:
    """A question as it was stored."""
    return Elicitation.asked(
        server, tool, params.get("message", ""), params.get("requestedSchema"), params.get("url")
    )


def _stored(document: Any) -> dict[str, Any] | None:
    """The fields of a pending call, if the document holds one."""
    match document:
        case {"toolbus": 1, "pending": dict()}:
            values = cast("dict[str, Any]", document["pending"])
        case _:
            return None
    kinds = [isinstance(values.get(name), kind) for name, kind in _STORED.items()]
    if set(values) != set(_STORED) or not all(kinds):
        return None
    return values if all(map(_is_request, values["requests"].values())) else None


def _is_request(value: Any) -> bool:
    match value:
        case {"method": "elicitation/create", "params": {"message": str()}}:
            return True
        case {"method": "sampling/createMessage" | "roots/list"}:
            return True
        case _:
            return False


def _texts_cleaned(schema: Any, depth: int = 5) -> Any:
    """The schema with clean texts for people; values stay as the server wants them back.

    What lies deeper belongs to no form.
    """
    if depth and isinstance(schema, Mapping):
        return {
            key: cleaned_json(value) if key in _FOR_PEOPLE else _texts_cleaned(value, depth - 1)
            for key, value in cast("Mapping[str, Any]", schema).items()
        }
    if depth and isinstance(schema, list):
        return [_texts_cleaned(item, depth - 1) for item in cast("list[Any]", schema)]
    return schema


_FOR_PEOPLE = frozenset({"title", "description", "enumNames"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def _is_safe(url: str) -> bool:
    """https, or http to this machine; nothing that another program would read otherwise than we do."""
    if cleaned(url) != url or re.search(r"[\s\\]", url):
        return False
    try:
        address = urlsplit(url)
        host = address.hostname
    except ValueError:
        return False
    # A name before the host, or letters that only look like others, lead people astray.
    if not host or "@" in address.netloc or not address.netloc.isascii():
        return False
    return address.scheme == "https" or (address.scheme == "http" and host in _LOOPBACK)
