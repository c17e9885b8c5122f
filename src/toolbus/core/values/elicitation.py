"""A server's question to a person during a call, the answer, and a suspended call."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from toolbus.core.text.text import cleaned, cleaned_json
from toolbus.core.values.forms import Form

Action: TypeAlias = Literal["accept", "decline", "cancel"]
ELICITATION = "elicitation/create"
QUESTION = "approval"
"""The key of the question whether a call is approved, in a suspended call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A person's answer: submitted or agreed (accept), refused (decline), or dismissed it (cancel)."""

    action: Action
    content: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicitation:
    """A server's question: a form to fill in (`schema`), or a URL to visit (`url`).

    toolbus never opens the URL. Show it, with the server's name, and let the person decide.
    """

    server: str
    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None
    tool: str | None = None
    """The tool whose call caused the question, if known."""
    user: str = ""
    """The user whose call caused it (`bus.as_user`), if known; ask nobody else."""
    session: str = ""
    """The session of the caller (`Caller.session`), if known."""

    @classmethod
    def asked(
        cls,
        server: str,
        tool: str | None,
        message: str,
        schema: Mapping[str, Any] | None = None,
        url: str | None = None,
    ) -> "Elicitation":
        """A question from a server, with hidden and control characters removed from its texts."""
        shown = None if schema is None else _texts_cleaned(schema)
        return cls(server=server, tool=tool, message=cleaned(message), schema=shown, url=url)

    @property
    def fault(self) -> str | None:
        """The reason not to show the question to a person: an invalid form, or an unsafe URL."""
        if self.url is not None:
            unsafe = f"the URL {self.url!r} is neither https nor on this machine"
            return None if _is_safe(self.url) else unsafe
        try:
            _ = self.form
        except ValueError as error:
            return f"the form is invalid: {error}"
        return None

    @property
    def form(self) -> Form:
        """The fields to fill in; empty for a URL."""
        return Form(self.schema or {})

    def accept(self, values: Mapping[str, Any] | None = None) -> Answer:
        """The submitted form, including defaults; ValueError explains invalid values."""
        if self.url is None:
            return Answer(action="accept", content=self.form.filled(values))
        if values:
            raise ValueError("a URL question has no form; call accept() without values")
        return Answer(action="accept")

    def decline(self) -> Answer:
        """Refuse the request."""
        return Answer(action="decline")

    def cancel(self) -> Answer:
        """Dismiss the question without an answer."""
        return Answer(action="cancel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A suspended call that waits for a person: store it as JSON, and resume it with the answer.

    `Toolbus.resume` accepts it, even in another process, as long as the server remembers the call.
    """

    server: str
    tool: str
    """The server's own name for the tool."""
    arguments: Mapping[str, Any] = field(repr=False)
    """The arguments as given."""
    requests: Mapping[str, Any] = field(repr=False)
    """The server's requests, by its own keys."""
    state: str | None = field(default=None, repr=False)
    """Opaque state to return to the server."""
    task: str | None = None
    """The task that waits, if the call became a task."""
    rounds: int = 1
    """The number of times the server has asked so far."""
    call: str | None = None
    """The digest of the call, if a person has to approve it: nothing was sent yet, and toolbus asks."""
    approved: str | None = None
    """The digest of the call, if a person approved it before its server suspended it."""
    approved_by: str | None = None
    """The part that asked that person."""
    answered: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """For an MCP client: responses that are known already, because guards refused those requests."""
    script: str | None = field(default=None, repr=False)
    """The script whose call this is, sealed; resuming goes on with the script."""
    counted: str | None = None
    """A proof, for one use, that quotas have counted the call."""

    @property
    def questions(self) -> dict[str, Elicitation]:
        """The questions for a person, by the server's keys."""
        asks = self.server if self.call is None else "toolbus"
        return {
            key: question(request["params"], asks, self.tool)
            for key, request in self.requests.items()
            if request["method"] == ELICITATION
        }

    def to_json(self) -> str:
        """The call as JSON, for a file or a database; it includes the arguments."""
        values = {name: getattr(self, name) for name in _STORED | _ADDED}
        for name in ("script", "counted"):
            if values[name] is None:
                del values[name]
        return json.dumps({"toolbus": 1, "pending": values})

    @classmethod
    def from_json(cls, text: str | bytes) -> "Pending":
        """The call from the output of `to_json`; ValueError for anything else."""
        try:
            stored: Any = json.loads(text)
        except ValueError:
            stored = None
        values = _stored(stored)
        if values is None:
            raise ValueError("not a pending call; pass the output of Pending.to_json()")
        return cls(**values)

    def __str__(self) -> str:
        asked = "; ".join(question.message for question in self.questions.values())
        if self.call is not None:
            return f"a person has to approve the call: {asked}"
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
_ADDED: dict[str, Any] = {
    "call": str | None,
    "approved": str | None,
    "approved_by": str | None,
    "script": str | None,
    "counted": str | None,
}
"""Fields that earlier versions did not store."""


def question(params: Mapping[str, Any], server: str, tool: str | None) -> Elicitation:
    """A question from its stored parameters."""
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
    kinds += [isinstance(values.get(name), kind) for name, kind in _ADDED.items()]
    if not set(_STORED) <= set(values) <= set(_STORED | _ADDED) or not all(kinds):
        return None
    if values.get("call") is not None and list(values["requests"]) != [QUESTION]:
        return None  # it waits for approval, without the question
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
    """The schema with clean texts for people; values are unchanged, because the server expects them back.

    A form has no deeper levels.
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
    """Whether it is https, or http to this machine, and every program parses it the same way."""
    if cleaned(url) != url or re.search(r"[\s\\]", url):
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    # User info before the host, and letters that look like others, mislead people.
    if not host or "@" in parts.netloc or not parts.netloc.isascii():
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
